"""Keep/drop choices that share drop probabilities: the contract, closed forms, and the concrete relaxation."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import kstest
from torch import Tensor

from polyarch.distributions import ArchDistribution, KeepDrop
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import Choice, Space
from polyarch.testing import DistributionContract

SPACE = Space("slices", tuple(Choice(name, ("drop", "keep")) for name in ("a[0]", "b[0]", "a[1]", "c[0]")))
GROUPS = {"first": ["a[0]", "a[1]"], "second": ["b[0]", "c[0]"]}


class TestKeepDrop(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return KeepDrop(SPACE, GROUPS, drop={"first": 0.3, "second": 0.6})


class TestFixedKeepDrop(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return KeepDrop(SPACE, GROUPS, drop=0.2, learnable=False)


def test_probabilities_and_entropy_in_closed_form() -> None:
    q = KeepDrop(SPACE, GROUPS, drop={"first": 0.3, "second": 0.6}).double()
    architecture = SPACE.architecture(["drop", "keep", "keep", "keep"])
    assert math.isclose(q.log_prob([architecture]).item(), math.log(0.3 * 0.4 * 0.7 * 0.4), rel_tol=1e-6)
    first = -0.3 * math.log(0.3) - 0.7 * math.log(0.7)
    second = -0.6 * math.log(0.6) - 0.4 * math.log(0.4)
    assert math.isclose(q.entropy().item(), 2 * (first + second), rel_tol=1e-6)
    assert q.sizes.tolist() == [2, 2]


def test_divergence_from_one_of_its_kind_is_the_sum_over_choices() -> None:
    q, p = KeepDrop(SPACE, GROUPS, drop=0.3), KeepDrop(SPACE, {"all": SPACE.choice_names}, drop=0.8)
    one = 0.3 * math.log(0.3 / 0.8) + 0.7 * math.log(0.7 / 0.2)
    assert math.isclose(q.kl(p).item(), 4 * one, rel_tol=1e-5)


@pytest.mark.parametrize("temperature", [0.2, 2 / 3])
def test_relaxed_draws_have_the_concrete_distribution(temperature: float) -> None:
    """P(drop <= s) = sigmoid(temperature * logit(s) - logit(p)), independent of other examples and choices."""
    q = KeepDrop(SPACE, GROUPS, drop={"first": 0.3, "second": 0.6}).double()
    keep = q.rsample_slices(1000, temperature=temperature, generator=generator_at(0, "draws")).detach()
    assert keep.shape == (1000, 4)
    drop = 1 - keep[:, [1, 3]].flatten()
    cumulative = torch.sigmoid(temperature * torch.logit(drop, eps=1e-15) - math.log(0.6 / 0.4))
    assert kstest(cumulative.numpy(), "uniform").pvalue > 1e-4
    correlations = torch.corrcoef(torch.cat([keep.T, keep.roll(1, 0).T])) - torch.eye(8)
    assert correlations.abs().max() < 0.13


def test_gradients_of_relaxed_draws_match_differences() -> None:
    q = KeepDrop(SPACE, GROUPS, drop=0.3).double()
    values = torch.randn(5, 4, dtype=torch.float64, generator=generator_at(0, "values"))

    def loss(logits: Tensor) -> Tensor:
        with torch.no_grad():
            q.logits.copy_(logits)
        keep = q.rsample_slices(5, temperature=0.5, generator=generator_at(0, "draws"))
        return (values * keep).sum()

    start = q.logits.detach().clone()
    (gradient,) = torch.autograd.grad(loss(start), [q.logits])
    for group in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[group] = 1e-6
        difference = (loss(start + step) - loss(start - step)).item() / 2e-6
        assert math.isclose(gradient[group].item(), difference, rel_tol=1e-6, abs_tol=1e-8)


def test_extreme_probabilities_stay_finite() -> None:
    q = KeepDrop(SPACE, GROUPS)
    with torch.no_grad():
        q.logits.copy_(torch.tensor([-60.0, 60.0]))
    (gradient,) = torch.autograd.grad(q.entropy(), [q.logits])
    assert gradient.isfinite().all() and q.entropy().isfinite()
    assert q.sample(1, generator=generator_at(0, "draw"))[0].names == ("keep", "drop", "keep", "drop")
    assert q.mode().names == ("keep", "drop", "keep", "drop")


SIZES = {"one": ["a[0]"], "three": ["b[0]", "a[1]", "c[0]"]}
"""Groups of different sizes, so that a mean over groups is not one over choices."""
COSTS = torch.tensor([2.0, 0.0, 0.7, 0.3], dtype=torch.float64)


def uneven() -> KeepDrop:
    return KeepDrop(SPACE, SIZES, drop={"one": 0.15, "three": 0.55}).double()


def kept() -> Tensor:
    """Which choices every architecture keeps, (A, C)."""
    return torch.tensor([architecture.indices for architecture in SPACE.members], dtype=torch.float64)


def probabilities(q: KeepDrop) -> Tensor:
    return q.log_prob(SPACE.members).detach().exp()


class TestTilted(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return KeepDrop(SPACE, SIZES, drop={"one": 0.15, "three": 0.55}).tilted(COSTS, 0.8)


def test_keep_rate_by_enumeration() -> None:
    """The expected share of kept choices, in which a group counts by its size."""
    q = uneven()
    expected = float((probabilities(q) * kept().mean(1)).sum())
    assert q.keep_rate == pytest.approx(expected, rel=1e-12)
    assert q.keep_rate == pytest.approx((0.85 + 3 * 0.45) / 4, abs=1e-6)


@pytest.mark.parametrize("strength", [0.0, 0.8, 3.0, -1.5])
def test_tilted_by_enumeration(strength: float) -> None:
    """q(a) exp(-strength cost(a)) / Z."""
    q = uneven()
    weights = probabilities(q) * torch.exp(-strength * (kept() @ COSTS))
    found = q.tilted(COSTS, strength)
    torch.testing.assert_close(probabilities(found), weights / weights.sum(), rtol=1e-12, atol=0)
    assert not list(found.parameters())


def test_a_tilt_in_place_is_the_tilted_distribution_where_groups_cost_the_same() -> None:
    costs = torch.tensor([2.0 if name in SIZES["one"] else 0.4 for name in SPACE.choice_names], dtype=torch.float64)
    q = uneven()
    expected = probabilities(q.tilted(costs, 0.8))
    q.tilt(costs, 0.8)
    torch.testing.assert_close(probabilities(q), expected, rtol=1e-12, atol=0)
    assert q.logits.requires_grad


def test_a_tilt_in_place_moves_groups_by_their_mean_cost() -> None:
    q, costs = uneven(), dict(zip(SPACE.choice_names, COSTS.tolist(), strict=True))
    before = q.logits.detach().clone()
    q.tilt(COSTS, 0.5)
    means = [sum(costs[name] for name in names) / len(names) for names in SIZES.values()]
    moved = (q.logits.detach() - before).tolist()
    assert moved == pytest.approx([0.5 * mean for mean in means], rel=1e-12)


def test_a_tilt_in_place_leaves_a_way_back() -> None:
    """No group moves to where nothing is learned any more; one that is there already stays."""
    q = KeepDrop(SPACE, SIZES, drop={"one": 0.15, "three": 1 - 1e-6}).double()
    before = q.logits.tolist()
    q.tilt(COSTS, 1e6)
    assert q.logits.tolist() == pytest.approx([6.0, before[1]])


def test_a_tilted_distribution_is_the_nearest_of_its_mean_cost() -> None:
    """Against 80 other products of the same mean cost, whose divergence from q is larger."""
    q = uneven()
    tilted = q.tilted(COSTS, 0.8)
    wanted = mean_cost(tilted)
    best = tilted.kl(q).item()
    assert 0 < wanted < mean_cost(q) and best > 0
    for position in range(80):
        size = (0.01, 0.1, 1.0, 3.0)[position % 4]
        other = q.tilted(COSTS, 0.8)
        other.logits += size * torch.randn(4, dtype=torch.float64, generator=generator_at(0, "other", position))
        other = with_mean_cost(other, wanted)
        assert mean_cost(other) == pytest.approx(wanted, rel=1e-9)
        # as for any r of this mean cost: KL(r || q) = KL(r || tilted) + KL(tilted || q)
        assert other.kl(q).item() - best == pytest.approx(other.kl(tilted).item(), rel=1e-6, abs=1e-9)
        assert other.kl(q).item() > best


def mean_cost(q: KeepDrop) -> float:
    return float((probabilities(q) * (kept() @ COSTS)).sum())


def with_mean_cost(q: KeepDrop, wanted: float) -> KeepDrop:
    """Tilted until the mean cost fits, by bisection."""
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_cost(q.tilted(COSTS, middle)) > wanted else (low, middle)
    return q.tilted(COSTS, high)


def test_flat_keeps_as_many() -> None:
    """The same expected number of kept choices by enumeration, and the same probability for all of them."""
    q = uneven()
    flat = q.flat().double()
    expected = float((probabilities(q) * kept().sum(1)).sum())
    assert float((probabilities(flat) * kept().sum(1)).sum()) == pytest.approx(expected, rel=1e-6)
    marginals = probabilities(flat) @ kept()
    torch.testing.assert_close(marginals, marginals[:1].expand(4), rtol=1e-12, atol=0)
    assert not list(flat.parameters())


def test_a_tilted_distribution_does_not_follow_q() -> None:
    q = uneven()
    tilted, flat = q.tilted(COSTS, 0.8), q.flat()
    before = probabilities(tilted), probabilities(flat)
    with torch.no_grad():
        q.logits.add_(1.0)
    assert probabilities(tilted).equal(before[0]) and probabilities(flat).equal(before[1])


def test_mistakes() -> None:
    with pytest.raises(InvalidInput, match="in a group"):
        KeepDrop(SPACE, {"first": ["a[0]"]})
    for groups in ({**GROUPS, "again": [next(iter(GROUPS.values()))[0]]}, {**GROUPS, "empty": []}):
        with pytest.raises(InvalidInput, match="every choice in one group"):
            KeepDrop(SPACE, groups)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        KeepDrop(SPACE, GROUPS, drop=1.0)
    with pytest.raises(InvalidInput, match="two options"):
        KeepDrop(Space("other", (Choice("a", ("1", "2", "3")),)), {"all": ["a"]})
