"""Members by what they cost together: walks by hand, and multiply-accumulates by formula."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyarch.errors import InvalidInput
from polyarch.estimators import MACs, shared_macs
from polyarch.predictive import members_within
from polyarch.spaces import Architecture, module_sources, parse_wiring, wired_space
from polyarch.supernets import FullyConnectedDepth, WiredSupernet

SPACE = wired_space(2, 3)
TEXTS = ("101001-010110", "101001-010111", "101000-010110", "001001-010110", "101001-110110")
WIRINGS = [parse_wiring(text, SPACE) for text in TEXTS]


def summed(prices: Sequence[float], architectures: Sequence[Architecture]) -> float:
    return sum(prices[WIRINGS.index(architecture)] for architecture in architectures)


@pytest.mark.parametrize(
    ("budget", "taken"), [(6, [0, 3]), (5, [0, 3]), (4, [0]), (9, [0, 1]), (10, [0, 1, 3]), (100, [0, 1, 2, 3, 4])]
)
def test_the_walk(budget: float, taken: list[int]) -> None:
    """What is too dear is passed over; an equal sum still fits."""
    found = members_within(WIRINGS, lambda some: summed([4, 5, 8, 1, 7], some), budget)
    assert found == [WIRINGS[place] for place in taken]


@given(st.lists(st.integers(1, 9), min_size=5, max_size=5), st.integers(9, 40))
def test_every_decision_is_the_budget_s(prices: list[int], budget: int) -> None:
    """Each architecture is taken or would have cost too much with those taken before it."""
    found = members_within(WIRINGS, lambda some: summed(prices, some), budget)
    assert summed(prices, found) <= budget
    for place, wiring in enumerate(WIRINGS):
        before = [other for other in WIRINGS[:place] if other in found]
        assert (wiring in found) == (summed(prices, [*before, wiring]) <= budget)


def test_a_budget_for_nobody() -> None:
    with pytest.raises(InvalidInput, match=r"^Expected a budget for .* 5 architectures, .* costs 2\. Got 1\.5\.$"):
        members_within(WIRINGS, lambda some: summed([4, 2, 3, 2, 7], some), 1.5)
    with pytest.raises(InvalidInput, match=r"at least one of 0 architectures"):
        members_within([], lambda some: 1.0, 10)


def wired(device: str = "cpu") -> WiredSupernet:
    with torch.device(device):
        return WiredSupernet(width=3, modules=3, stages=2, in_channels=2, classes=4)


SHAPE = (2, 8, 6)


def wired_macs(wirings: Sequence[Architecture]) -> int:
    """A 3x3 convolution costs 9 * inputs * outputs * pixels, and runs once for every different way to it.

    The output of a stage costs nothing, but leads to the 1x1 convolution behind it.
    """
    rows = [[sources for stage in module_sources(wiring) for sources in stage] for wiring in wirings]
    ways = [len({tuple(row[:length]) for row in rows}) for length in range(8)]
    first, second = 9 * 48 * 3 * 3, 9 * 12 * 6 * 6
    down = 48 * 3 * 6
    return 9 * 48 * 2 * 3 + first * sum(ways[1:4]) + down * ways[4] + second * sum(ways[5:8]) + 6 * 4 * len(wirings)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_wirings_share_what_they_have_in_common(device: str) -> None:
    net = wired(device)
    cost = shared_macs(net, SHAPE)
    for some in (WIRINGS[:1], WIRINGS[:2], WIRINGS, WIRINGS[2:]):
        assert cost(some) == wired_macs(some)
    alone = [MACs(SHAPE).score(net, wiring) for wiring in WIRINGS]
    assert alone == [cost([wiring]) for wiring in WIRINGS]
    assert cost(WIRINGS) < sum(alone)


def test_a_shared_prefix_buys_members() -> None:
    """The second wiring differs from the first in its last output alone, the fourth from the second module on."""
    cost = shared_macs(wired("meta"), SHAPE)
    budget = cost(WIRINGS[:2])
    assert members_within([WIRINGS[0], WIRINGS[3], WIRINGS[1]], cost, budget) == [WIRINGS[0], WIRINGS[1]]
    assert budget < 1.5 * cost(WIRINGS[:1])


def test_exits_cost_one_walk() -> None:
    """Linear layers: 5 * 4 at the input, 4 * 4 for each block to the deepest, 4 * 3 at every exit."""
    net = FullyConnectedDepth(features=5, classes=3, max_depth=4, width=4)
    depths = [net.space.architecture([text]) for text in ("0", "2", "3")]
    assert shared_macs(net, (5,))(depths) == 5 * 4 + 3 * 4 * 4 + 3 * 4 * 3
