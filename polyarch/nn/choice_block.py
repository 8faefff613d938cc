"""The choice block: several operations, one of them run, or all of them mixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Literal, TypeGuard

from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.choice_vectors import ChoiceVectors, Selection
from polyarch.nn.grouped_operations import mix_grouped, shaped
from polyarch.nn.operations import ends_in_norm, raised, weighted
from polyarch.nn.path_recording import call, constant
from polyarch.nn.split_copies import SplitCopies

_skips_zeros: ContextVar[Literal["no", "per option", "per example"]] = ContextVar("polyarch_skips_zeros", default="no")


@contextmanager
def skipping_zeros(*, per_example: bool = False) -> Iterator[None]:
    """Mixed passes inside, in this thread, do not run options whose weight is exactly zero for all examples.

    Such options add nothing to the output anyway. Here they get no gradient either, and the statistics of their
    normalisation layers stay as they are. It is for weights whose zeros need no gradient: those of options that were
    dropped, or of draws whose gradient goes to the drawn option alone.

    Args:
        per_example: whether choice blocks with weights (B, O) also run every option on those examples alone whose
            weight for it is not zero, see `mix_grouped`. In training mode that changes the statistics that normalisation
            layers use, and with them the output. Blocks with inter-choice weights run options on all examples all the
            same.
    """
    token = _skips_zeros.set("per example" if per_example else "per option")
    try:
        yield
    finally:
        _skips_zeros.reset(token)


def skips_zeros() -> bool:
    """Whether this is inside of `skipping_zeros`."""
    return _skips_zeros.get() != "no"


def options_run(weights: Tensor, options: Sequence[int]) -> Sequence[int]:
    """Those of some options that a mixed pass runs; see `skipping_zeros`.

    Where all weights are zero it is the first option, because an output of zeros needs its shape.

    Args:
        weights: (O,) or (B, O) of all options.
    """
    if not skips_zeros():
        return options
    used: list[bool] = (weights != 0).reshape(-1, weights.shape[-1]).any(0).tolist()
    return [index for index in options if used[index]] or options[:1]


class ChoiceBlock(nn.Module):
    """Offers one operation per option of a choice. Which one runs is an argument of ``forward``.

    Args:
        choice: the name of the choice in the space.
        operations: one module per option; ``None`` for the operation that passes nothing on.
        interchoice: weights that depend on the choices before, as `dependent_weights` makes them.
    """

    def __init__(
        self,
        choice: str,
        operations: Sequence[nn.Module | None],
        interchoice: ChoiceVectors | SplitCopies | None = None,
    ) -> None:
        super().__init__()
        self.choice = choice
        self.operations = nn.ModuleDict({str(index): op for index, op in enumerate(operations) if op is not None})
        self._by_index = tuple(None if op is None else str(index) for index, op in enumerate(operations))
        self.interchoice = interchoice

    def passes(self, index: int) -> bool:
        """Whether this option passes anything on."""
        return self._by_index[index] is not None

    @property
    def passing(self) -> list[int]:
        """The options that pass something on."""
        return [index for index, key in enumerate(self._by_index) if key is not None]

    def operation(self, index: int) -> nn.Module:
        """The module of an option that passes something on."""
        key = self._by_index[index]
        if key is None:
            raise InvalidInput(f"Expected an option of {self.choice!r} with a module. Got option {index}.")
        return self.operations[key]

    def forward(
        self, x: Tensor, selection: Selection, previous: Sequence[Selection] = (), *, shortcut: bool = False
    ) -> Tensor:
        """A hard index runs that operation only; weights give sum_o weight_o * operation_o(x), see `skipping_zeros`.

        Args:
            previous: what was selected at the choices that inter-choice weights depend on: indices with an index,
                weights with weights.
            shortcut: whether the input is added to the output. What inter-choice weights make of the input goes both
                into the operation and into its shortcut: a constant in front of a convolution without padding and a
                normalisation layer that is in training mode cancels, so that a bias would do nothing there.
        """
        if isinstance(selection, int):
            entering = self._entering(x, selection, previous)
            output = self._output(entering, selection, previous)
            return entering + output if shortcut else output
        if shortcut and skips_zeros() and not selection[..., self.passing].any():
            return x
        if self._groups(selection):
            total = mix_grouped([self.operation(index) for index in self.passing], x, selection[:, self.passing])
        else:
            total = self._mixed(x, selection, previous, shortcut=shortcut)
        return x + total if shortcut else total

    def addend(self, x: Tensor, index: int, previous: Sequence[int]) -> Tensor | None:
        """The vector (C, 1, 1) that inter-choice weights add to what goes into an operation, if they do."""
        return self._vector(self.interchoice, x, index, previous) if adds(self.interchoice) else None

    @cached_property
    def normalising(self) -> tuple[int, ...]:
        """The options that end in a normalisation layer."""
        return tuple(index for index in self.passing if ends_in_norm(self.operation(index)))

    @cached_property
    def keeping(self) -> tuple[int, ...]:
        """The options for which operation(x + c) is operation(x) + c for a constant c per channel."""
        return tuple(index for index in self.passing if _passes_constants(self.operation(index)))

    def between(self, x: Tensor, before: Tensor | None, index: int, after: Tensor | None) -> Tensor:
        """operation(x + before) + after, without what inter-choice weights add.

        Args:
            before: (C, 1, 1).
            after: (C, 1, 1); only for operations that end in a normalisation layer.
        """
        operation = self.operation(index)
        entering = x if before is None else x + before
        return call(operation, entering) if after is None else raised(operation, entering, after)

    def _groups(self, weights: Tensor) -> bool:
        """Whether every example goes through its own options alone; where there are none, zeros need their shape."""
        if _skips_zeros.get() != "per example" or weights.dim() == 1 or self.interchoice is not None:
            return False
        return bool(weights[:, self.passing].any())

    def _mixed(self, x: Tensor, selection: Tensor, previous: Sequence[Selection], *, shortcut: bool) -> Tensor:
        """The mixture of options that are run on all examples, without x itself; see `forward`."""
        total = None
        # Taken apart once: every single look into a tensor costs a step of the backward pass.
        gates = selection.unbind(-1)
        for index in options_run(selection, self.passing):
            gate = shaped(gates[index], x)
            if self.interchoice is None:
                total = plus(total, weighted(self.operation(index), x, gate))
                continue
            entering = self._entering(x, index, previous)
            output = self._output(entering, index, previous)
            if shortcut and entering is not x:
                output = output + (entering - x)
            total = plus(total, gate * output)
        assert total is not None
        return total

    def _entering(self, x: Tensor, index: int, previous: Sequence[Selection]) -> Tensor:
        """What goes into an operation."""
        if not isinstance(self.interchoice, ChoiceVectors):
            return x
        vector = self._vector(self.interchoice, x, index, previous)
        return x * vector if self.interchoice.scales else x + vector

    def _vector(self, vectors: ChoiceVectors, x: Tensor, index: int, previous: Sequence[Selection]) -> Tensor:
        return constant(vectors.vector(index, previous), x, owner=self, name="vector")

    def _output(self, x: Tensor, index: int, previous: Sequence[Selection]) -> Tensor:
        """What comes out of an operation, or out of its copies."""
        operation = self.operation(index)
        if not isinstance(self.interchoice, SplitCopies):
            return call(operation, x)
        serving, (before,) = self.interchoice.serving(operation, index), previous
        if len(serving) == 1:
            return call(operation, x)
        if isinstance(before, int):
            return call(serving[before], x, known_as=operation)
        total = None
        for option in options_run(before, range(len(serving))):
            total = plus(total, gate_for(before, option, x) * serving[option](x))
        assert total is not None
        return total


def plus(total: Tensor | None, term: Tensor) -> Tensor:
    """The sum; the term alone where there is no total yet."""
    return term if total is None else total + term


def _passes_constants(operation: nn.Module) -> bool:
    return isinstance(operation, nn.Identity) or (
        isinstance(operation, nn.AvgPool2d) and not operation.count_include_pad
    )


def adds(interchoice: ChoiceVectors | SplitCopies | None) -> TypeGuard[ChoiceVectors]:
    """Whether these weights are vectors that are added to inputs."""
    return isinstance(interchoice, ChoiceVectors) and not interchoice.scales


def gate_for(gates: Tensor, index: int, x: Tensor) -> Tensor:
    """The weight of one option, shaped to multiply x: () from (O,), or (B, 1, ...) from (B, O)."""
    return shaped(gates[..., index], x)
