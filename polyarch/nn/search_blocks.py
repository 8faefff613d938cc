"""Blocks that users put into their network where architectures differ: `OneOf`, `Repeat` and `Maybe`.

They are called like any module. The supernet that `polyarch.supernets.from_module` makes of the network selects what
they run; outside a supernet call they run a default, so that the network works as it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.block_selection import SearchBlock
from polyarch.nn.path_recording import call


class OneOf(SearchBlock):
    """One of several modules: ``OneOf("block1", conv3=module, conv5=module, skip=nn.Identity())``.

    Accepts whatever its options accept. Gates mix tensors, and tuples, lists and dicts of tensors. The default is the
    first option.

    Args:
        name: the name of the choice.
        tied: whether other blocks may have the same name and options, and the choice is made once for all of them;
            every one of them must say so.
        options: option name -> module.
    """

    def __init__(self, name: str, /, *, tied: bool | nn.Module = False, **options: nn.Module) -> None:
        # The type allows ``**options`` in calls; a module, which would be an option of this name, is refused.
        super().__init__(name, options, default=0, tied=cast(bool, tied))
        for option, module in options.items():
            _require_module(module, f"option {option!r} of {name!r}")
        self.options = nn.ModuleList(options.values())

    def chosen(self, index: int) -> nn.Module:
        """The module of the option."""
        return self.options[index]


class Repeat(SearchBlock):
    """The first d of several modules in sequence: ``Repeat("depth", blocks, minimum=1)``.

    The options are the depths d from ``minimum`` to the number of blocks, the default. Depths share their blocks, and
    gates mix their outputs from a single pass.

    Args:
        name: the name of the choice.
        blocks: modules from one tensor to one tensor.
        minimum: the smallest depth; depth 0 returns the input.
        tied: see `OneOf`.
    """

    def __init__(self, name: str, blocks: Iterable[nn.Module], *, minimum: int = 1, tied: bool = False) -> None:
        blocks = list(blocks)
        if not blocks or not 0 <= minimum <= len(blocks):
            raise InvalidInput(
                f"Expected {name!r} to have one or more blocks and a minimum between 0 and their number. "
                f"Got {len(blocks)} blocks, {minimum=}."
            )
        depths = map(str, range(minimum, len(blocks) + 1))
        super().__init__(name, depths, default=len(blocks) - minimum, kind="wiring", tied=tied)
        for position, module in enumerate(blocks):
            _require_module(module, f"block {position} of {name!r}")
        self.minimum = minimum
        self.blocks = nn.ModuleList(blocks)
        if minimum == 0:
            self.skip = nn.Identity()  # hooks see the same layers as in an extracted network

    def chosen(self, index: int) -> nn.Module:
        """The blocks up to the depth, as a sequence."""
        depth = self.minimum + index
        if depth == 0:
            return self.skip
        row = nn.Sequential(*(self.blocks[position] for position in range(depth)))
        row.training = self.training  # sets only its own flag, because the network owns the blocks
        return row

    def outputs(self, indices: Sequence[int], *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yields the outputs at the depths from a single pass up to the last of them."""
        (x,) = args
        depths = [self.minimum + index for index in indices]
        if depths[0] == 0:
            yield call(self.skip, x)
        for depth in range(1, depths[-1] + 1):
            x = call(self.blocks[depth - 1], x)
            if depth in depths:
                yield x

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (B, ...)."""
        return cast(Tensor, super().forward(x))


class Maybe(SearchBlock):
    """A module or nothing: ``Maybe("se", block)`` with the options ``off``, which returns the input, and ``on``.

    The default is ``on``.

    Args:
        name: the name of the choice.
        block: a module from one tensor to a tensor of the same shape.
        tied: see `OneOf`.
    """

    def __init__(self, name: str, block: nn.Module, *, tied: bool = False) -> None:
        super().__init__(name, ("off", "on"), default=1, tied=tied)
        _require_module(block, f"the block of {name!r}")
        self.block = block
        self.skip = nn.Identity()

    def chosen(self, index: int) -> nn.Module:
        """The block, or an identity."""
        return self.block if index else self.skip

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (B, ...)."""
        return cast(Tensor, super().forward(x))


def _require_module(module: object, what: str) -> None:
    if not isinstance(module, nn.Module):
        raise InvalidInput(f"Expected {what} to be a module. Got {type(module).__name__}.")
