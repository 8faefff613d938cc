"""What built-in networks of elastic layers share."""

from collections.abc import Sequence

from torch import nn

from polyarch.errors import InvalidInput
from polyarch.nn import ElasticConv2d, Repeat, Sizes, call, record
from polyarch.nn.block_selection import SelectedOptions, running
from polyarch.spaces import Architecture
from polyarch.supernets.module import ModuleSupernet


class ElasticSupernet(ModuleSupernet):
    """A network of blocks and elastic layers that calls its modules through `polyarch.nn.call`.

    Its choices are made as in a user's own network. Extraction records the path, so that the extracted network has no
    class of this package inside.
    """

    def extract(self, architecture: Architecture) -> nn.Module:
        """The architecture as a plain module, with copies of the slices that it uses."""
        with running(SelectedOptions(self._selections(self.space.validate(architecture)))):
            return record(self.model, lambda x: call(self.model, x))


def elastic(name: str, sizes: Sequence[int]) -> int | Sizes:
    """Sizes to choose from, or the number itself if there is only one."""
    return Sizes(name, *sizes) if len(sizes) > 1 else sizes[0]


def elastic_depth(name: str, blocks: Sequence[nn.Module]) -> nn.Module:
    """The first of some blocks in a row, at least one."""
    return Repeat(name, blocks) if len(blocks) > 1 else blocks[0]


def stage_widths(stages: int, widths: Sequence[int]) -> list[int | Sizes]:
    """The channels of every stage, which double from one to the next."""
    return [elastic(f"stage{stage + 1}.width", [width * 2**stage for width in widths]) for stage in range(stages)]


def convolution(
    inputs: int | Sizes, outputs: int | Sizes, kernel: int | Sizes, *, stride: int = 1, groups: int | Sizes = 1
) -> ElasticConv2d:
    """A convolution without bias, padded to keep height and width: (B, inputs, H, W) -> (B, outputs, H/stride, ...)."""
    padding = Sizes.of(kernel).largest // 2
    return ElasticConv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)


def stem(inputs: int, outputs: int | Sizes, stride: int) -> ElasticConv2d:
    """A 3x3 convolution, or a larger one where a stride would skip pixels."""
    return convolution(inputs, outputs, max(3, 2 * stride - 1), stride=stride)


def require_positive(**sizes: int | Sequence[int]) -> None:
    """Requires numbers of 1 or more, and one or more of them where there may be several."""
    for name, found in sizes.items():
        numbers = [found] if isinstance(found, int) else list(found)
        if min(numbers, default=0) < 1:
            raise InvalidInput(f"Expected 1 or more {name}. Got {found}.")
