"""Vectors over channels that depend on the option of a choice block and on previous choices.

Laube & Zell (2021), "Inter-choice dependent super-network weights", arXiv:2104.11522.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Selection = int | Tensor
"""An option index, or the weights of all options: (O,), or (B, O) per example."""


class ChoiceVectors(nn.Module, ABC):
    """A vector for each option and previous selections, (C, 1, 1), or (B, C, 1, 1) if gates differ between examples.

    Rows that are used separately are separate parameters: unused rows of one tensor would get zero gradients, and
    momentum and weight decay would change them.
    """

    scales: ClassVar[bool] = False
    """Whether the input is multiplied by the vector instead of adding it."""

    @abstractmethod
    def vector(self, option: int, previous: Sequence[Selection]) -> Tensor:
        """The vector for an option and previous indices, or its mean under gates of the previous choices."""


class JointBias(ChoiceVectors):
    """x + b[o, p_1, ..., p_D]: a vector for every combination of own and previous options, initially zero.

    ``own`` are the own options that have vectors, ``previous`` the numbers of options of the previous choices.
    """

    def __init__(self, channels: int, own: Sequence[int], previous: Sequence[int]) -> None:
        super().__init__()
        self._combinations = tuple(itertools.product(*(range(count) for count in previous)))
        self.rows = nn.ParameterDict(
            {_key(option, *before): torch.zeros(channels, 1, 1) for option in own for before in self._combinations}
        )

    def vector(self, option: int, previous: Sequence[Selection]) -> Tensor:
        """The row of the combination, or sum_p g_1[p_1] ... g_D[p_D] b[o, p] under gates."""
        if isinstance(previous[0], int):
            return cast(Tensor, getattr(self.rows, _key(option, *previous)))  # faster than indexing
        rows = torch.stack([self.rows[_key(option, *before)] for before in self._combinations])  # (P, C, 1, 1)
        joint = rows.new_ones(1)
        for gates in previous:
            assert isinstance(gates, Tensor)
            joint = (joint.unsqueeze(-1) * gates.to(rows).unsqueeze(-2)).flatten(-2)  # (P,) or (B, P) so far
        return _mean(joint, rows)


class _SingleRows(nn.Module):
    """One row for every option of the own and of each previous choice; the selected rows are summed."""

    def __init__(self, shape: Sequence[int], own: Sequence[int], previous: Sequence[int], bound: float = 0.0) -> None:
        super().__init__()
        names = [_key("own", option) for option in own]
        names += [_key(place, option) for place, count in enumerate(previous) for option in range(count)]
        self.rows = nn.ParameterDict({name: torch.zeros(*shape) for name in names})
        if bound:  # zero rows draw no random numbers
            for row in self.rows.values():
                nn.init.uniform_(row, -bound, bound)

    def total(self, option: int, previous: Sequence[Selection]) -> Tensor:
        """v_own[o] + sum_d v_d[p_d], or its mean under gates."""
        total: Tensor = self.rows[_key("own", option)]
        for place, selection in enumerate(previous):
            if isinstance(selection, int):
                total = total + self.rows[_key(place, selection)]
            else:
                rows = torch.stack([self.rows[_key(place, index)] for index in range(selection.shape[-1])])
                total = total + _mean(selection.to(rows), rows)
        return total


class SharedBias(ChoiceVectors):
    """x + v_own[o] + v_1[p_1] + ... + v_D[p_D], initially zero."""

    def __init__(self, channels: int, own: Sequence[int], previous: Sequence[int]) -> None:
        super().__init__()
        self.single = _SingleRows((channels, 1, 1), own, previous)

    def vector(self, option: int, previous: Sequence[Selection]) -> Tensor:
        """The sum of the selected rows."""
        return self.single.total(option, previous)


class Attention(ChoiceVectors):
    """x * sigmoid(W h + c), where h are the one-hots of all D + 1 choices, or relu(V one-hots + d) with a hidden layer.

    Gates of previous choices replace their one-hots. ``hidden`` is the width of the hidden layer, if there is one.
    """

    scales = True

    def __init__(self, channels: int, own: Sequence[int], previous: Sequence[int], hidden: int | None = None) -> None:
        super().__init__()
        # A linear layer on one-hots sums its columns, which are separate rows here, initialised as torch would.
        bound = 1 / math.sqrt(len(own) + sum(previous))
        shape = (channels, 1, 1) if hidden is None else (hidden,)
        self.single = _SingleRows(shape, own, previous, bound)
        self.shift = nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))
        self.weight: nn.Parameter | None = None
        if hidden is not None:
            bound = 1 / math.sqrt(hidden)
            self.weight = nn.Parameter(torch.empty(channels, hidden).uniform_(-bound, bound))
            self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))

    def vector(self, option: int, previous: Sequence[Selection]) -> Tensor:
        """The factor of every channel, between 0 and 1."""
        value = self.single.total(option, previous) + self.shift
        if self.weight is not None:
            value = F.linear(value.relu(), self.weight, self.bias)[..., None, None]
        return value.sigmoid()


def _mean(weights: Tensor, rows: Tensor) -> Tensor:
    """sum_p weights[..., p] rows[p]: (P,) or (B, P) and (P, ...) -> (...) or (B, ...)."""
    return cast(Tensor, torch.tensordot(weights, rows, 1))


def _key(*parts: object) -> str:
    """The name of a row in state dictionaries, e.g. ``3-0``."""
    return "-".join(map(str, parts))
