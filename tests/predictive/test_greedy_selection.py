"""Ensembles chosen greedily: against enumeration, and what they promise."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive.greedy_selection import greedy_weights
from polyarch.tasks import Classification


def problem(seed: int, members: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(3, (30,), generator=generator)
    skill = torch.rand(members, 1, 1, generator=generator, dtype=torch.float64) * 2
    noise = torch.randn(members, 30, 3, generator=generator, dtype=torch.float64)
    return skill * torch.nn.functional.one_hot(targets, 3) + noise, targets


@given(st.integers(0, 200), st.integers(1, 5))
def test_is_never_worse_than_the_best_member(seed: int, members: int) -> None:
    outputs, targets = problem(seed, members)
    task = Classification()

    def loss(shares: Tensor) -> float:
        return task.measure(outputs, targets, shares, names=["loss"])["loss"]

    shares = greedy_weights(loss, members)
    assert shares.sum() == pytest.approx(1.0) and (shares >= 0).all()
    assert loss(shares) <= min(loss(alone) for alone in torch.eye(members, dtype=torch.float64))


def test_every_addition_is_the_best_one() -> None:
    """Against all sequences of additions of which each is the best at its time."""
    outputs, targets = problem(3, 4)
    task = Classification()

    def loss(shares: Tensor) -> float:
        return task.measure(outputs, targets, shares, names=["loss"])["loss"]

    counts: tuple[int, ...] = (0, 0, 0, 0)
    lowest = float("inf")
    for _ in range(20):
        options = [tuple(c + (i == j) for j, c in enumerate(counts)) for i in range(4)]
        values = [loss(torch.tensor(one, dtype=torch.float64) / sum(one)) for one in options]
        if min(values) >= lowest:
            break
        lowest, counts = min(values), options[values.index(min(values))]
    expected = torch.tensor(counts, dtype=torch.float64) / sum(counts)
    torch.testing.assert_close(greedy_weights(loss, 4), expected)


def test_ends_after_so_many_rounds() -> None:
    falling = itertools.count(0, -1)
    shares = greedy_weights(lambda shares: float(next(falling)), 2, rounds=4)
    assert shares.tolist() == [0.0, 1.0]  # the last of two that are tried is always the lower


@pytest.mark.parametrize(("members", "rounds"), [(0, 5), (3, 0)])
def test_needs_members_and_rounds(members: int, rounds: int) -> None:
    with pytest.raises(InvalidInput, match="1 or more members and rounds"):
        greedy_weights(lambda shares: 0.0, members, rounds=rounds)


def test_a_loss_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a finite loss of at least one member"):
        greedy_weights(lambda shares: float("nan"), 2)
