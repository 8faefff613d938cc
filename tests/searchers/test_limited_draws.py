"""Draws from a posterior within limits: frequencies by enumeration, limits counted on what is extracted."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import ClassVar

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn

from polyarch.distributions import ArchDistribution, Categorical, DepthAndChannels, KeepDrop
from polyarch.errors import ImpossibleSpace
from polyarch.estimators import Estimator, Goal, MACs, Parameters
from polyarch.nn import multiply_accumulates
from polyarch.randomness import global_seed
from polyarch.searchers import Limit, LimitedDraws, Limits
from polyarch.spaces import Architecture
from polyarch.supernets import FullyConnectedDepth, GatedDepthSupernet, GatedSupernet, Supernet, gate

SHAPE = (1, 4, 4)
SIGNIFICANCE = 1e-4
"""Seeds are fixed: a correct sampler passes always, or was unlucky once when the test was written."""


@cache
def images() -> GatedSupernet:
    """2^7 networks of 4 + 3 gated channels. The first of them are cheap in parameters and dear in pixels."""
    with global_seed(0, "test"):
        body = [nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Conv2d(4, 3, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
        return gate(nn.Sequential(*body, nn.Flatten(), nn.Linear(3, 20)), torch.zeros(2, *SHAPE), name="images")


def posterior() -> KeepDrop:
    net = images()
    return KeepDrop(net.space, net.groups, drop={"2": 0.25, "6": 0.1})


@cache
def depths() -> GatedDepthSupernet:
    """3 * 2^6 networks: three depths, two blocks that read three channels each."""
    with global_seed(0, "test"):
        return GatedDepthSupernet(FullyConnectedDepth(features=2, classes=2, max_depth=2, width=3), torch.zeros(2, 2))


def depth_posterior(*probabilities: float) -> DepthAndChannels:
    net = depths()
    depth = Categorical(net.depths.space, torch.tensor(probabilities).log())
    return DepthAndChannels(net.space, depth, KeepDrop(net.slice_space, net.groups, drop=0.2))


@cache
def costs(make: Callable[[], GatedSupernet]) -> dict[Architecture, tuple[int, float]]:
    """Parameters and multiply-accumulates of every network that reads the input, counted after extraction."""
    net, found = make(), {}
    for architecture in net.space.enumerate():
        if net.ignores_input(architecture):
            continue
        network = net.extract(architecture)
        parameters = sum(parameter.numel() for parameter in network.parameters())
        found[architecture] = parameters, multiply_accumulates(network, net.example)
    return found


def sizes(make: Callable[[], GatedSupernet]) -> dict[Architecture, int]:
    return {architecture: parameters for architecture, (parameters, _) in costs(make).items()}


def within(q: ArchDistribution, allowed: Iterable[Architecture]) -> dict[Architecture, float]:
    """q given that a draw is one of these."""
    members = list(allowed)
    log_q = q.log_prob(members).detach().double()
    return dict(zip(members, torch.softmax(log_q, 0).tolist(), strict=True))


def share(q: ArchDistribution, allowed: Iterable[Architecture]) -> float:
    return float(q.log_prob(list(allowed)).detach().double().exp().sum())


def fits(draws: list[Architecture], expected: dict[Architecture, float]) -> bool:
    """Chi-squared, with what is expected fewer than five times taken together; others may not occur."""
    counts = Counter(draws)
    assert counts.keys() <= expected.keys()
    cells = [(counts[member], probability * len(draws)) for member, probability in expected.items()]
    rare = [cell for cell in cells if cell[1] < 5]
    frequent = [cell for cell in cells if cell[1] >= 5]
    frequent += [(sum(count for count, _ in rare), sum(mean for _, mean in rare))] if rare else []
    found, means = (list(column) for column in zip(*frequent, strict=True))
    return bool(chisquare(found, [mean * sum(found) / sum(means) for mean in means]).pvalue > SIGNIFICANCE)


def limited(at_most: float, *, seed: int = 0) -> LimitedDraws:
    net = images()
    return LimitedDraws(net, posterior(), Limits(net, [Limit(Parameters(), at_most)]), seed=seed)


def first(draws: LimitedDraws, count: int) -> list[Architecture]:
    return [draws(position) for position in range(count)]


def test_the_check_of_frequencies_can_fail() -> None:
    """So that what passes it means something: it tells q from a distribution that is not far from it."""
    net, q = images(), posterior()
    draws = first(LimitedDraws(net, q, seed=0), 1500)
    other = KeepDrop(net.space, net.groups, drop={"2": 0.22, "6": 0.13})
    assert not fits(draws, within(other, net.space.enumerate()))
    assert not fits(draws, within(q.flat(), net.space.enumerate()))


def test_without_limits_draws_are_from_q() -> None:
    net, q = images(), posterior()
    draws = LimitedDraws(net, q, seed=0)
    assert draws.strength == 0 and draws.distribution is q
    assert fits(first(draws, 1500), within(q, sizes(images)))


def test_networks_that_ignore_the_input_are_not_drawn() -> None:
    """Those without a channel in one of the two layers, by hand; nearly all of what q draws here."""
    net = images()
    dead = {a for a in net.space.enumerate() if not (any(a.indices[:4]) and any(a.indices[4:]))}
    assert dead == {a for a in net.space.enumerate() if net.ignores_input(a)}
    q = KeepDrop(net.space, net.groups, drop={"2": 0.95, "6": 0.8})
    assert share(q, dead) > 0.8
    assert fits(first(LimitedDraws(net, q, seed=0), 500), within(q, sizes(images)))


WIDE = 141.0
"""Parameters; of draws from q, 38 % have no more."""
TIGHT = 85.0
"""Here it is 4 %."""


@pytest.mark.parametrize("at_most", [None, WIDE, TIGHT])
def test_a_draw_is_known_by_its_position(at_most: float | None) -> None:
    """In any order, in another object, and after pickling, whether or not it was used before."""
    net = images()

    def make(seed: int = 0, stream: str = "draws") -> LimitedDraws:
        limits = None if at_most is None else Limits(net, [Limit(Parameters(), at_most)])
        return LimitedDraws(net, posterior(), limits, seed=seed, stream=stream)

    expected = first(make(), 12)
    assert [make()(position) for position in (7, 3)] == [expected[7], expected[3]]
    draws = make()
    for _ in range(2):
        again: LimitedDraws = pickle.loads(pickle.dumps(draws))
        assert first(again, 12) == expected
        assert again.strength == draws.strength
        assert list(reversed([draws(position) for position in reversed(range(12))])) == expected
    assert first(make(seed=1), 12) != expected != first(make(stream="others"), 12)
    assert len(set(expected)) > 3


def test_limits_that_many_draws_keep_leave_q_as_it_is() -> None:
    """q given the limit, exactly."""
    q, draws = posterior(), limited(WIDE)
    allowed = [a for a, parameters in sizes(images).items() if parameters <= WIDE]
    assert 0.2 < share(q, allowed) < 0.5 and len(allowed) > 20
    assert draws.strength == 0 and draws.distribution is draws.q
    assert fits(first(draws, 1500), within(q, allowed))


def test_under_tight_limits_small_networks_are_favoured() -> None:
    """q_s given the limit, exactly, and not q given the limit; s makes about half of the draws keep it."""
    q, draws = posterior(), limited(TIGHT)
    found = first(draws, 1500)
    allowed = {a for a, parameters in sizes(images).items() if parameters <= TIGHT}
    assert set(found) <= allowed
    assert 0 < share(q, allowed) < 0.08
    assert draws.strength > 0
    assert fits(found, within(draws.distribution, allowed))
    assert not fits(found, within(q, allowed))
    # 24 draws tell the share up to 0.1; those that ignore the input are within the limit, too
    small = {a for a in images().space.enumerate() if images().parameter_count(a) <= TIGHT}
    assert allowed < small and 0.3 < share(draws.distribution, small) < 0.75
    weaker = q.tilted(slice_costs(TIGHT), 0.5 * draws.strength)
    assert share(weaker, small) < share(draws.distribution, small) - 0.1


def slice_costs(at_most: float) -> Tensor:
    """By hand, in limits: a channel of the convolution has 3 * 9 numbers, one of the last layer 20."""
    return torch.tensor([27.0] * 4 + [20.0] * 3) / at_most


def test_the_distribution_of_tight_limits_by_enumeration() -> None:
    """q_s(a) proportional to q(a) exp(-s cost(a)), the sum over kept slices of what they cost in limits."""
    net, draws = images(), limited(TIGHT)
    members = list(net.space.enumerate())
    summed = torch.tensor([a.indices for a in members]).double() @ slice_costs(TIGHT).double()
    log_q = posterior().log_prob(members).detach().double()
    expected = torch.softmax(log_q - draws.strength * summed, 0)
    torch.testing.assert_close(draws.distribution.log_prob(members).double().exp(), expected, rtol=1e-4, atol=1e-9)


def test_parameters_and_multiply_accumulates_together() -> None:
    """Each alone lets something through that the other refuses."""
    net = images()
    bounds = {"params": 85.0, "macs": 508.0}
    limits = [Limit(Parameters(), bounds["params"]), Limit(MACs(SHAPE), bounds["macs"])]
    draws = LimitedDraws(net, posterior(), Limits(net, limits), seed=0)
    found = first(draws, 1000)
    small = {a for a, (parameters, _) in costs(images).items() if parameters <= bounds["params"]}
    quick = {a for a, (_, macs) in costs(images).items() if macs <= bounds["macs"]}
    assert small - quick and quick - small
    assert draws.strength > 0
    assert fits(found, within(draws.distribution, small & quick))
    macs = torch.tensor([3 * 9 * 16.0] * 4 + [20.0] * 3)  # 4x4 pixels, and one
    by_hand = posterior().tilted(slice_costs(bounds["params"]) + macs / bounds["macs"], draws.strength)
    torch.testing.assert_close(draws.distribution.mean(), by_hand.mean())


class Seconds(Estimator):
    """A measured cost, here made up: a second per kept channel of the convolution."""

    name = "latency"
    goal: ClassVar[Goal] = "minimise"

    def score(self, net: Supernet, architecture: Architecture) -> float:
        return float(sum(architecture.indices[:4]))


def test_what_is_timed_counts_like_multiply_accumulates() -> None:
    net = images()
    draws = LimitedDraws(net, posterior(), Limits(net, [Limit(Seconds(), 1.0)]), seed=0)
    assert all(sum(architecture.indices[:4]) <= 1 for architecture in first(draws, 50))
    macs = torch.tensor([3 * 9 * 16.0] * 4 + [20.0] * 3)
    by_hand = posterior().tilted(macs / macs.sum(), draws.strength)
    torch.testing.assert_close(draws.distribution.mean(), by_hand.mean())


def test_limits_that_only_the_smallest_network_keeps() -> None:
    """One channel in each layer; 1 of 1,000 draws from q is that small."""
    smallest = min(sizes(images).values())
    draws = limited(float(smallest))
    assert share(posterior(), [a for a, parameters in sizes(images).items() if parameters == smallest]) < 0.002
    assert {sizes(images)[architecture] for architecture in first(draws, 20)} == {smallest}


def test_impossible_limits() -> None:
    """One sentence of what was expected, one of what was found."""
    net, smallest = images(), 20  # the constants of a network that ignores the input
    expected = (
        "Expected some architecture of space 'images' to meet the limits. "
        f"Found none: params at most {smallest - 1} (smallest seen: {smallest})."
    )
    for _ in range(2):
        with pytest.raises(ImpossibleSpace) as raised:
            limited(smallest - 1.0)(0)
        assert str(raised.value) == expected
    with pytest.raises(
        ImpossibleSpace, match=r"that reads its input to meet .* Found only others: raise the limits\.$"
    ):
        limited(min(sizes(images).values()) - 1.0)(0)
    both = Limits(net, [Limit(MACs(SHAPE), 900), Limit(Parameters(), smallest - 1)])
    message = r"none: macs at most 900 \(.*\); params at most 19 \(smallest seen: 20\)\.$"
    with pytest.raises(ImpossibleSpace, match=message):
        LimitedDraws(net, posterior(), both, seed=0)(0)


@pytest.mark.parametrize("at_most", [None, 44.0, 29.0])
def test_with_a_depth(at_most: float | None) -> None:
    """No limit, and limits that many draws keep: q, given the limit."""
    net, q = depths(), depth_posterior(0.2, 0.3, 0.5)
    limits = None if at_most is None else Limits(net, [Limit(Parameters(), at_most)])
    draws = LimitedDraws(net, q, limits, seed=0)
    allowed = [a for a, parameters in sizes(depths).items() if at_most is None or parameters <= at_most]
    assert fits(first(draws, 1500), within(draws.distribution, allowed))
    if at_most is not None:
        assert len({a["depth"] for a in allowed}) > 1 and len(allowed) < net.space.size
    assert draws.strength == 0 and draws.distribution is q


def test_networks_that_are_too_large_at_their_depth_lose_channels() -> None:
    """A depth that is nearly sure, and a limit that its network keeps with few channels."""
    net, q = depths(), depth_posterior(0.01, 0.01, 0.98)
    at_most = 41.0
    draws = LimitedDraws(net, q, Limits(net, [Limit(Parameters(), at_most)]), seed=0)
    found = first(draws, 1000)
    allowed = [a for a, parameters in sizes(depths).items() if parameters <= at_most]
    assert share(q, allowed) < 0.08 and draws.strength > 0
    assert fits(found, within(draws.distribution, allowed))
    assert Counter(a["depth"] for a in found).most_common(1)[0][0] == 2
    assert draws.distribution.keep_rate < q.keep_rate
    assert draws.distribution.mean()["depth"].equal(q.mean()["depth"])


def test_limits_that_never_half_of_the_draws_keep() -> None:
    """Of the depths that q gives, some are too deep even without channels; refusing them is enough."""
    net, q = depths(), depth_posterior(0.02, 0.33, 0.65)
    allowed = [a for a, parameters in sizes(depths).items() if parameters <= 22.0]
    assert share(q, allowed) < 0.08 < 0.3 < share(q.tilted(torch.ones(6), 1e6), allowed) < 0.4
    draws = LimitedDraws(net, q, Limits(net, [Limit(Parameters(), 22.0)]), seed=0)
    assert fits(first(draws, 500), within(draws.distribution, allowed))


def test_nothing_of_what_limits_measured_is_pickled() -> None:
    """Workers would not need it, and it grows with every draw."""
    draws = limited(TIGHT)
    first(draws, 1)
    before = len(pickle.dumps(draws))
    first(draws, 200)
    assert math.isclose(len(pickle.dumps(draws)), before, rel_tol=0.01)
