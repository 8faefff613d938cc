"""The choice block: several operations, one of them run, or all of them mixed."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.recording import call

Selection = int | Tensor
"""An option index, or the weights of all options: (O,), or (B, O) per example."""


class ChoiceBlock(nn.Module):
    """Offers one operation per option of a choice. Which one runs is an argument of ``forward``.

    Args:
        choice: the name of the choice in the space.
        operations: one module per option; ``None`` for the operation that passes nothing on.
    """

    def __init__(self, choice: str, operations: Sequence[nn.Module | None]) -> None:
        super().__init__()
        self.choice = choice
        self.operations = nn.ModuleDict({str(index): op for index, op in enumerate(operations) if op is not None})
        self._by_index = tuple(None if op is None else str(index) for index, op in enumerate(operations))

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

    def forward(self, x: Tensor, selection: Selection) -> Tensor:
        """A hard index runs that operation only; weights give sum_o weight_o * operation_o(x)."""
        if isinstance(selection, int):
            return call(self.operation(selection), x)
        terms: list[Tensor] = [gate_for(selection, index, x) * self.operation(index)(x) for index in self.passing]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


def gate_for(gates: Tensor, index: int, x: Tensor) -> Tensor:
    """The weight of one option, shaped to multiply x: () from (O,), or (B, 1, ...) from (B, O)."""
    gate = gates[..., index].to(x)
    return gate if gates.dim() == 1 else gate.reshape(-1, *[1] * (x.dim() - 1))
