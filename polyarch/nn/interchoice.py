"""Weights of choice blocks that depend on previous choices.

Laube & Zell (2021), "Inter-choice dependent super-network weights", arXiv:2104.11522.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.choice_vectors import Attention, ChoiceVectors, JointBias, SharedBias

InterChoiceKind = Literal["bias", "shared_bias", "split", "attention", "deep_attention"]
PredecessorRule = Literal["order", "graph"]

MOST_PREVIOUS = 3


@dataclass(frozen=True)
class InterChoice:
    """Extra weights that let an operation distinguish what was chosen before it.

    - ``bias``: adds a vector for each combination of the own option and the D previous ones to the input.
    - ``shared_bias``: has a vector for each single option, own or previous, and adds the selected ones to the input.
    - ``split``: after some epochs, copies the weights of every operation for each option of the previous choice.
    - ``attention``: scales the channels of the input by sigmoid(linear(one-hots of the D + 1 choices)).
    - ``deep_attention``: the same with a hidden ReLU layer as wide as the one-hots.

    A choice without predecessors has no extra weights. Vectors and copies initially change nothing.

    Args:
        kind: one of these.
        previous: D, the number of previous choices that count, 1 to 3; 1 for ``split``.
        predecessors: ``order`` takes the last D choices in the order of the space, ``graph`` the last D of those that
            feed the block's input.
    """

    kind: InterChoiceKind
    previous: int = 1
    predecessors: PredecessorRule = "order"

    def __post_init__(self) -> None:
        if self.kind not in get_args(InterChoiceKind):
            raise InvalidInput(f"Expected inter-choice weights out of {get_args(InterChoiceKind)}. Got {self.kind!r}.")
        if self.predecessors not in get_args(PredecessorRule):
            raise InvalidInput(f"Expected predecessors by {get_args(PredecessorRule)}. Got {self.predecessors!r}.")
        if not 1 <= self.previous <= MOST_PREVIOUS:
            raise InvalidInput(f"Expected 1 to {MOST_PREVIOUS} previous choices. Got {self.previous}.")
        if self.kind == "split" and self.previous > 1:
            raise InvalidInput(f"Expected weights to be split by 1 previous choice. Got {self.previous}.")

    def before(self, position: int, feeding: Sequence[int]) -> tuple[int, ...]:
        """The positions of the previous choices that count for the one at ``position``, the nearest last.

        ``feeding`` are the positions of the choices whose operations feed its input, in order.
        """
        return tuple((range(position) if self.predecessors == "order" else feeding)[-self.previous :])


class SplitCopies(nn.Module):
    """Gives every operation of a choice block separate weights for each option of the previous choice.

    Until `split` is called, the operations themselves run for all previous options. Afterwards, an operation serves the
    first previous option and its copies serve the others. The state dictionary records whether the weights are split.

    ``previous`` is the number of previous options. Operations without weights and statistics need no copies.
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
        return tuple(cast(nn.ModuleList, self.copies[str(option)])) if str(option) in self.copies else ()

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


def dependent_weights(
    interchoice: InterChoice | None, operations: Sequence[nn.Module | None], *, channels: int, previous: Sequence[int]
) -> ChoiceVectors | SplitCopies | None:
    """The extra weights of a choice block with these operations and input channels, if it has any.

    ``previous`` are the numbers of options of the previous choices that count.
    """
    if interchoice is None or not previous:
        return None
    own = [index for index, operation in enumerate(operations) if operation is not None]
    match interchoice.kind:
        case "bias":
            return JointBias(channels, own, previous)
        case "shared_bias":
            return SharedBias(channels, own, previous)
        case "attention" | "deep_attention":
            hidden = len(own) + sum(previous) if interchoice.kind == "deep_attention" else None
            return Attention(channels, own, previous, hidden)
        case "split":
            return SplitCopies(operations, previous[0])
