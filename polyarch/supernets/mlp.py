"""A supernet for tables in which the depth and the width of every block are the choices."""

from collections.abc import Sequence

from torch import Tensor, nn

from polyarch.nn import ChoiceBlock, call, gate_for, plus
from polyarch.spaces import Architecture, Choice, Gates, Space
from polyarch.supernets.supernet import Supernet, require_sizes


def _used_blocks(architecture: Architecture) -> str:
    """The canonical key, which ignores blocks beyond the depth."""
    return "|".join(architecture.names[: int(architecture.option("depth")) + 1])


class MLPSupernet(Supernet):
    """A residual network of fully connected blocks: a_0 = f_0(x), a_i = a_{i-1} + f_i(a_{i-1}), logits = head(a_d).

    A block is BN-ReLU-Linear-BN-ReLU-Linear. Its inner width is a choice, and so is the depth d. A shallow network uses
    the first blocks of a deep one. Gates of the depth mix the features a_d.

    Args:
        features: numbers per example; examples of other shapes are flattened.
        width: of the features a_i.
        max_depth: the largest d; the smallest is 1.
        inner_widths: the options of every block, named like ``h64``.
    """

    def __init__(
        self,
        *,
        features: int,
        classes: int,
        width: int = 128,
        max_depth: int = 4,
        inner_widths: Sequence[int] = (64, 128, 256),
    ) -> None:
        narrowest = min(inner_widths, default=0)
        require_sizes(classes, features=features, width=width, max_depth=max_depth, inner_width=narrowest)
        depths = Choice("depth", tuple(str(depth) for depth in range(1, max_depth + 1)), kind="wiring")
        options = tuple(f"h{inner}" for inner in inner_widths)
        blocks = [Choice(f"block{index}", options) for index in range(max_depth)]
        super().__init__(Space(f"mlp{max_depth}x{width}", (depths, *blocks), canonical=_used_blocks))
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(features, width))
        self.blocks = nn.ModuleList(
            ChoiceBlock(choice.name, [_block(width, inner) for inner in inner_widths]) for choice in blocks
        )
        self.head = nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, ...) -> (B, classes)."""
        hard = isinstance(architecture, Architecture)
        if isinstance(architecture, Architecture):
            self.space.validate(architecture)
        depth = architecture["depth"]
        x = call(self.stem, x)
        mixed: Tensor | None = None
        for index, name in enumerate(self.space.choice_names[1:]):
            if hard and index > depth:  # option 0 of the depth is one block
                break
            x = x + self.blocks[index](x, architecture[name])
            if isinstance(depth, Tensor):
                mixed = plus(mixed, gate_for(depth, index, x) * x)
        return call(self.head, x if mixed is None else mixed)

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights outside the blocks and of the chosen widths up to the depth."""
        fixed, options = self._parameter_table
        used = self.space.choice_names[1 : architecture["depth"] + 2]
        return fixed + sum(options[name, architecture[name]] for name in used)


def _block(width: int, inner: int) -> nn.Sequential:
    """(B, width) -> (B, width)."""
    return nn.Sequential(
        nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, inner),
        nn.BatchNorm1d(inner), nn.ReLU(), nn.Linear(inner, width),
    )  # fmt: skip
