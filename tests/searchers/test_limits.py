from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from polyarch.errors import ImpossibleSpace
from polyarch.estimators import Estimator, Goal, MACs, Parameters
from polyarch.randomness import generator_at
from polyarch.searchers import Limit, Limits
from polyarch.spaces import Architecture, Constraint
from polyarch.supernets import ChainSupernet, Supernet


class Counted(Estimator):
    """The sum of the indices, and how often it was asked for."""

    name = "sum"
    goal: ClassVar[Goal] = "minimise"

    def __init__(self, least: int = 0) -> None:
        self.calls = 0
        self.least = least

    def score(self, net: Supernet, architecture: Architecture) -> float:
        self.calls += 1
        return float(self.least + sum(architecture.indices))


@pytest.fixture
def net() -> ChainSupernet:
    """Two layers of k3e1, k3e2 or skip: nine architectures."""
    return ChainSupernet(
        channels=(2, 2), kernels=(3,), expansions=(1, 2), in_channels=1, stem_channels=2, head_channels=2
    )


def test_allowed_are_those_at_or_below_every_limit(net: ChainSupernet) -> None:
    macs, parameters = MACs((1, 4, 4)), Parameters()
    members = list(net.space.enumerate())
    costs = {a: (macs.score(net, a), parameters.score(net, a)) for a in members}
    bounds = [sorted(values)[4] for values in zip(*costs.values(), strict=True)]  # the medians
    limits = Limits(net, [Limit(macs, bounds[0]), Limit(parameters, bounds[1])])
    allowed = {a for a in members if costs[a][0] <= bounds[0] and costs[a][1] <= bounds[1]}
    assert {a for a in members if limits.allows(a)} == allowed
    assert 0 < len(allowed) < 9
    drawn = {limits.sample(generator_at(0, "draw", index)) for index in range(60)}
    assert drawn == allowed


def test_violation_says_which_limit(net: ChainSupernet) -> None:
    limits = Limits(net, [Limit(Counted(), 3.0)])
    assert limits.violation(net.space.architecture(["skip", "skip"])) == "sum 4 > 3"
    assert limits.violation(net.space.architecture(["skip", "k3e2"])) is None


def test_costs_are_measured_once_and_only_while_needed(net: ChainSupernet) -> None:
    first, second = Counted(), Counted()
    limits = Limits(net, [Limit(first, 0.0), Limit(second, 9.0)])
    heavy, light = net.space.architecture(["skip", "skip"]), net.space.architecture(["k3e1", "k3e1"])
    for architecture in (heavy, light, heavy, light):
        limits.allows(architecture)
    assert first.calls == 2
    assert second.calls <= 1  # the heavy one was out already


def test_no_limits_allow_everything(net: ChainSupernet) -> None:
    assert all(Limits(net).allows(architecture) for architecture in net.space.enumerate())


def test_impossible_limits_name_the_smallest_seen(net: ChainSupernet) -> None:
    smallest = min(Parameters().score(net, architecture) for architecture in net.space.enumerate())
    limits = Limits(net, [Limit(Parameters(), smallest - 1)])
    with pytest.raises(ImpossibleSpace, match=rf"params at most {smallest - 1:g} \(smallest seen: {smallest:g}\)"):
        limits.sample(generator_at(0, "draw"))


@pytest.mark.parametrize(("at_most", "most_calls"), [(0.0, 210), (1.0, 210), (9.0, 10_000)])
def test_limits_far_out_of_reach_are_refused_after_a_few_measurements(at_most: float, most_calls: int) -> None:
    net = ChainSupernet(
        channels=(2,) * 10, kernels=(3,), expansions=(1, 2), in_channels=1, stem_channels=2, head_channels=2
    )
    cost = Counted(least=10)
    with pytest.raises(ImpossibleSpace, match=rf"at most {at_most:g} \(smallest seen: 1\d\)"):
        Limits(net, [Limit(cost, at_most)]).sample(generator_at(0, "draw"))
    assert cost.calls <= most_calls
    assert cost.calls > 500 or at_most < 9  # an unlucky search may not refuse what is near


class Uneven(Counted):
    """Large unless the first two choices are both the first option: no change of one of them alone helps."""

    def score(self, net: Supernet, architecture: Architecture) -> float:
        return 1.0 if architecture.indices[:2] == (0, 0) else 100 + super().score(net, architecture)


@pytest.fixture
def long_net() -> ChainSupernet:
    """Eight layers of k3e1, k3e2 or skip."""
    return ChainSupernet(
        channels=(2,) * 8, kernels=(3,), expansions=(1, 2), in_channels=1, stem_channels=2, head_channels=2
    )


def test_limits_that_one_in_nine_keeps_are_not_refused_where_single_changes_lead_nowhere(
    long_net: ChainSupernet,
) -> None:
    long_net.space = replace(long_net.space, canonical=None)  # this cost depends on the order of layers
    limits = Limits(long_net, [Limit(Uneven(), 2.0)])
    for position in range(30):
        assert limits.sample(generator_at(0, "draw", position)).indices[:2] == (0, 0)


def test_limits_are_not_refused_early_where_constraints_forbid_single_changes(long_net: ChainSupernet) -> None:
    """One of 257 members is within the limits."""
    together = Constraint("k3e1 everywhere or nowhere", lambda one: 0 not in one.indices or not any(one.indices))
    long_net.space = long_net.space.constrained(together)
    assert Limits(long_net, [Limit(Counted(), 0.5)]).sample(generator_at(0, "draw")).indices == (0,) * 8


def test_the_search_for_the_nearest_does_not_refuse_what_is_rare() -> None:
    net = ChainSupernet(
        channels=(2,) * 5, kernels=(3,), expansions=(1, 2), in_channels=1, stem_channels=2, head_channels=2
    )
    limits = Limits(net, [Limit(Counted(), 0.4)])  # one of 243
    assert limits.sample(generator_at(0, "draw")).indices == (0,) * 5
