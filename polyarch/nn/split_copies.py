"""Copies of operations, one for each option of the choice before."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class SplitCopies(nn.Module):
    """Lets every operation of a choice block have weights for each option of the choice before it.

    Until `split` is called the operations themselves run, whatever was chosen before. From then on an operation serves
    the first option of the choice before, and its copies serve the others. Whether that has happened is part of the
    state dictionary.

    Args:
        operations: of the block. Those without weights and statistics need no copies.
        previous: the number of options of the choice before.
    """

    def __init__(self, operations: Sequence[nn.Module | None], previous: int) -> None:
        super().__init__()
        self.is_split = False
        self.copies = nn.ModuleDict(
            {
                str(option): nn.ModuleList(copy.deepcopy(operation) for _ in range(1, previous))
                for option, operation in enumerate(operations)
                if operation is not None and operation.state_dict()
            }
        )

    def of(self, option: int) -> Sequence[nn.Module]:
        """The copies of one operation, for the second and later options of the choice before."""
        copies = self.copies[str(option)] if str(option) in self.copies else ()  # noqa: SIM401 (no dict)
        assert isinstance(copies, nn.ModuleList | tuple)
        return tuple(copies)

    def serving(self, operation: nn.Module, option: int) -> Sequence[nn.Module]:
        """What runs for each option of the choice before; one module alone if they make no difference."""
        return (operation, *self.of(option)) if self.is_split else (operation,)

    def split(self, operations: nn.ModuleDict) -> list[tuple[nn.Parameter, nn.Parameter]]:
        """Gives all copies the weights and statistics that their operations have now, and lets them run.

        Args:
            operations: those of the block, by their option.

        Returns every parameter that was copied, with its copy.
        """
        pairs: list[tuple[nn.Parameter, nn.Parameter]] = []
        for option, operation in operations.items():
            for twin in self.of(int(option)):
                twin.load_state_dict(operation.state_dict())
                pairs.extend(zip(operation.parameters(), twin.parameters(), strict=True))
        self.is_split = True
        return pairs

    def get_extra_state(self) -> Tensor:
        """Whether the weights are split."""
        return torch.tensor(self.is_split)

    def set_extra_state(self, state: Tensor) -> None:
        """Puts it back."""
        self.is_split = bool(state)
