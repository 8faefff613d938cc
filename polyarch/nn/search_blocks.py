"""Blocks for a network of one's own: `OneOf`, `Repeat` and `Maybe` stand where architectures differ.

They are called like any module. What they run comes from the supernet that `polyarch.supernets.from_module` makes of
the network. Outside of any supernet call they run a default, so that the network can be tried, and sizes computed with
it, before it becomes a supernet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.block_selection import SearchBlock


class OneOf(SearchBlock):
    """One of several modules: ``OneOf("block1", conv3=module, conv5=module, skip=nn.Identity())``.

    Takes whatever its options take. Gates mix tensors, and tuples, lists and dicts of tensors. Outside of any supernet
    call it runs its first option.

    Args:
        name: the name of the choice.
        options: one module per option, under the option's name.
    """

    def __init__(self, name: str, /, **options: nn.Module) -> None:
        super().__init__(name, options, default=0)
        for option, module in options.items():
            _require_module(module, f"option {option!r} of {name!r}")
        self.options = nn.ModuleList(options.values())

    def chosen(self, index: int) -> nn.Module:
        """The option."""
        return self.options[index]

    def run(self, index: int, *args: Any, **kwargs: Any) -> Any:
        """The option's output."""
        return self.options[index](*args, **kwargs)

    def outputs(self, indices: Sequence[int], *args: Any, **kwargs: Any) -> Iterator[Any]:
        """The options on the same input."""
        return (self.options[index](*args, **kwargs) for index in indices)


class Repeat(SearchBlock):
    """The first d of several modules, one after the other: ``Repeat("depth", blocks, minimum=1)``.

    The options are the depths d from ``minimum`` to the number of blocks; they share their first blocks. Gates mix the
    outputs of the depths, all from one walk. Outside of any supernet call all blocks are run.

    Args:
        name: the name of the choice.
        blocks: modules of one tensor; each takes the output of the one before it.
        minimum: the smallest depth; depth 0 passes the input on.
    """

    def __init__(self, name: str, blocks: Iterable[nn.Module], *, minimum: int = 1) -> None:
        blocks = list(blocks)
        if not blocks or not 0 <= minimum <= len(blocks):
            raise InvalidInput(
                f"Expected {name!r} to repeat one or more blocks, from a minimum of 0 to their number on. "
                f"Got {len(blocks)} blocks, {minimum=}."
            )
        depths = map(str, range(minimum, len(blocks) + 1))
        super().__init__(name, depths, default=len(blocks) - minimum, kind="wiring")
        for position, module in enumerate(blocks):
            _require_module(module, f"block {position} of {name!r}")
        self.minimum = minimum
        self.blocks = nn.ModuleList(blocks)
        if minimum == 0:
            self.skip = nn.Identity()  # a module, so that hooks see the layers that an extracted network has

    def chosen(self, index: int) -> nn.Module:
        """The blocks up to the depth, in a row."""
        depth = self.minimum + index
        if depth == 0:
            return self.skip
        row = nn.Sequential(*(self.blocks[position] for position in range(depth)))
        row.training = self.training  # its own flag only: the blocks belong to the network
        return row

    def run(self, index: int, *args: Any, **kwargs: Any) -> Any:
        """The output at the depth."""
        (x,) = args
        depth = self.minimum + index
        if depth == 0:
            return self.skip(x)
        for position in range(depth):
            x = self.blocks[position](x)
        return x

    def outputs(self, indices: Sequence[int], *args: Any, **kwargs: Any) -> Iterator[Any]:
        """The outputs at the depths, from one walk as far as the last of them."""
        (x,) = args
        depths = [self.minimum + index for index in indices]
        if depths[0] == 0:
            yield self.skip(x)
        for depth in range(1, depths[-1] + 1):
            x = self.blocks[depth - 1](x)
            if depth in depths:
                yield x

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (B, ...)."""
        return cast(Tensor, super().forward(x))


class Maybe(SearchBlock):
    """A module or nothing: ``Maybe("se", block)`` with the options ``off`` and ``on``.

    ``off`` passes its only input on. Outside of any supernet call the block is run.

    Args:
        name: the name of the choice.
        block: a module of one tensor whose output has the shape of its input.
    """

    def __init__(self, name: str, block: nn.Module) -> None:
        super().__init__(name, ("off", "on"), default=1)
        _require_module(block, f"the block of {name!r}")
        self.block = block
        self.skip = nn.Identity()

    def chosen(self, index: int) -> nn.Module:
        """The block, or an identity."""
        return self.block if index else self.skip

    def run(self, index: int, *args: Any, **kwargs: Any) -> Any:
        """The output of the block, or the input."""
        return self.chosen(index)(*args)

    def outputs(self, indices: Sequence[int], *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Without the block, with it, or both."""
        return (self.run(index, *args) for index in indices)

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (B, ...)."""
        return cast(Tensor, super().forward(x))


def _require_module(module: object, what: str) -> None:
    if not isinstance(module, nn.Module):
        raise InvalidInput(f"Expected {what} to be a module. Got {type(module).__name__}.")
