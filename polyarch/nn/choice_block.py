"""The choice block: several operations, of which one runs or all are mixed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Literal, TypeGuard

from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.choice_vectors import ChoiceVectors, Selection
from polyarch.nn.grouped_operations import mix_grouped, shaped
from polyarch.nn.interchoice import SplitCopies
from polyarch.nn.operations import ends_in_norm, raised, weighted
from polyarch.nn.path_recording import call, constant

_skips_zeros: ContextVar[Literal["no", "per option", "per example"]] = ContextVar("polyarch_skips_zeros", default="no")


@contextmanager
def skipping_zeros(*, per_example: bool = False) -> Iterator[None]:
    """Mixed passes of this thread inside the context skip options whose weight is exactly zero for all examples.

    Such options contribute nothing to the output, but here they also get no gradient and do not update their running
    statistics. Use this if zeros need no gradient: for options that were dropped, or for draws whose gradient goes only
    to the drawn option.

    Args:
        per_example: also runs every option only on the examples with a nonzero weight for it, see `mix_grouped`. In
            training mode this changes batch statistics and thereby the output. Blocks with inter-choice weights still
            run options on all examples.
    """
    token = _skips_zeros.set("per example" if per_example else "per option")
    try:
        yield
    finally:
        _skips_zeros.reset(token)


def skips_zeros() -> bool:
    """Whether this thread is inside `skipping_zeros`."""
    return _skips_zeros.get() != "no"


def options_run(weights: Tensor, options: Sequence[int]) -> Sequence[int]:
    """The options, out of some, that a mixed pass with weights (O,) or (B, O) runs; see `skipping_zeros`.

    If all their weights are zero, the first option runs because an output of zeros needs a shape.
    """
    if not skips_zeros():
        return options
    used: list[bool] = (weights != 0).reshape(-1, weights.shape[-1]).any(0).tolist()
    return [index for index in options if used[index]] or options[:1]


class ChoiceBlock(nn.Module):
    """One operation per option of a choice; ``forward`` takes the selection as an argument.

    Args:
        choice: the name of the choice in the space.
        operations: one module per option; ``None`` for an option without output.
        interchoice: weights that depend on previous choices, from `dependent_weights`.

    Attributes:
        passing: the options that have an output.
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
        self.passing = [index for index, op in enumerate(operations) if op is not None]
        self.interchoice = interchoice

    def operation(self, index: int) -> nn.Module:
        """The module of an option that has an output."""
        if index not in self.passing:
            raise InvalidInput(f"Expected an option of {self.choice!r} with a module. Got option {index}.")
        return self.operations[str(index)]

    def forward(
        self, x: Tensor, selection: Selection, previous: Sequence[Selection] = (), *, shortcut: bool = False
    ) -> Tensor:
        """An index runs one operation; weights return sum_o weight_o * operation_o(x), see `skipping_zeros`.

        Args:
            previous: the selections at the choices that inter-choice weights depend on: indices if ``selection`` is an
                index, weights if it is weights.
            shortcut: whether to add the input to the output. Inter-choice weights change the input of the shortcut,
                too, because a constant before a convolution without padding and a normalisation layer in training mode
                cancels, so that a bias would otherwise have no effect.
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
        """The vector (C, 1, 1) that inter-choice weights add to the input of an operation, if any."""
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
        """operation(x + before) + after with vectors (C, 1, 1), without inter-choice weights.

        ``after`` requires an operation that ends in a normalisation layer.
        """
        operation = self.operation(index)
        entering = x if before is None else x + before
        return call(operation, entering) if after is None else raised(operation, entering, after)

    def _groups(self, weights: Tensor) -> bool:
        """Whether to run every example through its own options only; without any, zeros need a shape."""
        if _skips_zeros.get() != "per example" or weights.dim() == 1 or self.interchoice is not None:
            return False
        return bool(weights[:, self.passing].any())

    def _mixed(self, x: Tensor, selection: Tensor, previous: Sequence[Selection], *, shortcut: bool) -> Tensor:
        """The mixture of options that run on all examples, without the shortcut x; see `forward`."""
        total = None
        # Unbound once, because every indexing of a tensor costs a step of the backward pass.
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
        """The input of an operation."""
        if not isinstance(self.interchoice, ChoiceVectors):
            return x
        vector = self._vector(self.interchoice, x, index, previous)
        return x * vector if self.interchoice.scales else x + vector

    def _vector(self, vectors: ChoiceVectors, x: Tensor, index: int, previous: Sequence[Selection]) -> Tensor:
        return constant(vectors.vector(index, previous), x, owner=self, name="vector")

    def _output(self, x: Tensor, index: int, previous: Sequence[Selection]) -> Tensor:
        """The output of an operation, or of its copies."""
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
    """total + term; the term alone if there is no total yet."""
    return term if total is None else total + term


def _passes_constants(operation: nn.Module) -> bool:
    return isinstance(operation, nn.Identity) or (
        isinstance(operation, nn.AvgPool2d) and not operation.count_include_pad
    )


def adds(interchoice: ChoiceVectors | SplitCopies | None) -> TypeGuard[ChoiceVectors]:
    """Whether these inter-choice weights are vectors that are added to the input."""
    return isinstance(interchoice, ChoiceVectors) and not interchoice.scales


def gate_for(gates: Tensor, index: int, x: Tensor) -> Tensor:
    """The weight of one option, shaped to multiply x: () from (O,), or (B, 1, ...) from (B, O)."""
    return shaped(gates[..., index], x)
