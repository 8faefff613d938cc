"""A depth and kept channels, independent of each other: the contract, closed forms, and what keeps the depth."""

from __future__ import annotations

import math

import pytest
import torch

from polyarch.distributions import ArchDistribution, Categorical, DepthAndChannels, KeepDrop, Uniform
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Choice, Space
from polyarch.supernets.depth import depth_space
from polyarch.testing import DistributionContract

DEPTHS = depth_space(2)
SLICES = Space("slices", tuple(Choice(name, ("drop", "keep")) for name in ("a[0]", "b[0]", "a[1]")))
SPACE = Space("both", (*DEPTHS.choices, *SLICES.choices))
GROUPS = {"a": ["a[0]", "a[1]"], "b": ["b[0]"]}
DEPTH_LOGITS = torch.tensor([0.2, -1.0, 0.9])
COSTS = torch.tensor([3.0, 0.5, 0.0])


def joint(*, learnable: bool = True) -> DepthAndChannels:
    """Drop probabilities of 0.3, 0.6 and 0.3."""
    depth = Categorical(DEPTHS, DEPTH_LOGITS, learnable=learnable)
    channels = KeepDrop(SLICES, GROUPS, drop={"a": 0.3, "b": 0.6}, learnable=learnable)
    return DepthAndChannels(SPACE, depth, channels)


class TestDepthAndChannels(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return joint()


class TestFixedDepthAndChannels(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return joint(learnable=False)


class TestTilted(DistributionContract):
    """A learned depth with channels that are not learned is a distribution like others."""

    def make_distribution(self) -> ArchDistribution:
        return joint().tilted(COSTS, 0.7)


class TestFlat(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return joint().flat()


def depth_of(architecture: Architecture) -> Architecture:
    return Architecture(DEPTHS, architecture.indices[:1])


def channels_of(architecture: Architecture) -> Architecture:
    return Architecture(SLICES, architecture.indices[1:])


def test_a_probability_is_the_product_of_its_parts() -> None:
    q = joint().double()
    architecture = SPACE.architecture(["2", "drop", "keep", "keep"])
    depth = math.exp(0.9) / (math.exp(0.2) + math.exp(-1.0) + math.exp(0.9))
    assert math.isclose(q.log_prob([architecture]).item(), math.log(depth * 0.3 * 0.4 * 0.7), rel_tol=1e-6)


def test_divergence_and_entropy_are_sums_over_the_parts() -> None:
    """By enumeration; against one of its kind, and through the general way against a uniform prior."""
    q = joint().double()
    other = DepthAndChannels(SPACE, Categorical(DEPTHS), KeepDrop(SLICES, {"all": SLICES.choice_names}, drop=0.8))
    log_q = q.log_prob(SPACE.members)
    uniform = Uniform(SPACE)
    for prior in (other.double(), uniform):
        expected = (log_q.exp() * (log_q - prior.log_prob(SPACE.members))).sum()
        # a uniform distribution knows the size of its space in single precision
        tolerance = 1e-12 if prior is not uniform else 1e-6
        torch.testing.assert_close(q.kl(prior), expected, rtol=tolerance, atol=0, check_dtype=False)
    torch.testing.assert_close(q.kl(other), q.depth.kl(other.depth) + q.channels.kl(other.channels))


def test_draws_of_depth_and_channels_are_independent() -> None:
    """No correlation beyond four standard deviations of what 4000 independent draws show."""
    rows = torch.tensor([a.indices for a in joint().sample(4000, generator=generator_at(0, "draws"))]).double()
    correlations = torch.corrcoef(rows.T)[0, 1:]
    assert correlations.abs().max() < 4 / math.sqrt(4000)


def test_keep_rate_is_that_of_the_channels() -> None:
    q = joint()
    assert q.keep_rate == pytest.approx((0.7 + 0.4 + 0.7) / 3, abs=1e-6)
    kept = torch.tensor([sum(a.indices[1:]) / 3 for a in SPACE.members])
    assert q.keep_rate == pytest.approx(float((q.log_prob(SPACE.members).detach().exp() * kept).sum()), abs=1e-6)


def test_tilted_channels_leave_the_depth() -> None:
    """q(d) q(a) exp(-s cost(a)) / Z: the marginal of the depth is the same, whatever it would cost."""
    q = joint().double()
    found = q.tilted(COSTS, 0.7)
    kept = torch.tensor([a.indices[1:] for a in SPACE.members], dtype=torch.float64)
    costs = kept @ COSTS.double()
    expected = torch.softmax(q.log_prob(SPACE.members) - 0.7 * costs, 0)
    torch.testing.assert_close(found.log_prob(SPACE.members).exp(), expected, rtol=1e-12, atol=0)
    assert found.mean()["depth"].equal(q.mean()["depth"])
    assert found.keep_rate < q.keep_rate
    assert found.space == SPACE


def test_flat_channels_leave_the_depth() -> None:
    q = joint()
    found = q.flat()
    assert found.mean()["depth"].equal(q.mean()["depth"])
    assert found.keep_rate == pytest.approx(q.keep_rate, abs=1e-6)
    assert len({tuple(found.mean()[name].tolist()) for name in SLICES.choice_names}) == 1


def test_what_is_learned() -> None:
    """Both logits; a tilted or flat one of it only shares the depth."""
    q = joint()
    assert {name for name, _ in q.named_parameters()} == {"depth.logits", "channels.logits"}
    assert q.tilted(COSTS, 1.0).depth is q.flat().depth is q.depth
    assert [name for name, _ in q.flat().named_parameters()] == ["depth.logits"]


@pytest.mark.parametrize(
    "space",
    [
        Space("other way round", (*SLICES.choices, *DEPTHS.choices)),
        Space("one is missing", (*DEPTHS.choices, *SLICES.choices[:-1])),
        Space("one too many", (*SPACE.choices, Choice("c[0]", ("drop", "keep")))),
        Space("another depth", (*depth_space(3).choices, *SLICES.choices)),
    ],
)
def test_spaces_that_do_not_fit(space: Space) -> None:
    q = joint()
    message = f"'{space.name}' to have the choices of the depth.*'depth2' and 'slices'"
    with pytest.raises(InvalidInput, match=message):
        DepthAndChannels(space, q.depth, q.channels)


def test_architectures_of_other_spaces_are_refused() -> None:
    q = joint()
    (architecture,) = q.sample(1, generator=generator_at(0, "draw"))
    assert depth_of(architecture) in DEPTHS and channels_of(architecture) in SLICES
    for foreign in (depth_of(architecture), channels_of(architecture)):
        with pytest.raises(InvalidInput, match="Expected an architecture of 'both'"):
            q.log_prob([foreign])
