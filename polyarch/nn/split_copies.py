"""Copies of operations, one for each option of the previous choice.

Laube & Zell (2021), "Inter-choice dependent super-network weights", arXiv:2104.11522.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class SplitCopies(nn.Module):
    """Gives every operation of a choice block separate weights for each option of the previous choice.

    Until `split` is called, the operations themselves run for all previous options. Afterwards, an operation serves the
    first previous option and its copies serve the others. The state dictionary records whether the weights are split.

    Args:
        operations: the operations of the block; those without weights and statistics need no copies.
        previous: the number of options of the previous choice.
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
        """The copies of one operation, for the second and later options of the previous choice."""
        copies = self.copies[str(option)] if str(option) in self.copies else ()  # noqa: SIM401 (no dict)
        assert isinstance(copies, nn.ModuleList | tuple)
        return tuple(copies)

    def serving(self, operation: nn.Module, option: int) -> Sequence[nn.Module]:
        """The module for each option of the previous choice; a single one if all use the same."""
        return (operation, *self.of(option)) if self.is_split else (operation,)

    def split(self, operations: nn.ModuleDict) -> list[tuple[nn.Parameter, nn.Parameter]]:
        """Copies the current weights and statistics of the block's operations, by option, and lets the copies run.

        Returns every copied parameter with its copy.
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
        """Restores whether the weights are split."""
        self.is_split = bool(state)
