"""Mixtures of Gaussians against closed forms, Monte Carlo, numerical integration and brute force, in float64."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive import GaussianMixture, fit_scale
from polyarch.randomness import generator_at

DOUBLE = torch.float64


def random_mixture(seed: int, members: int, examples: int = 4, targets: int = 2) -> GaussianMixture:
    generator = generator_at(seed, "mixture")
    means = 2 * torch.randn(members, examples, targets, generator=generator, dtype=DOUBLE)
    variances = torch.randn(members, examples, targets, generator=generator, dtype=DOUBLE).exp()
    weights = torch.rand(members, generator=generator, dtype=DOUBLE) + 0.05
    return GaussianMixture(means, variances, weights / weights.sum())


def draws(mixture: GaussianMixture, count: int) -> Tensor:
    """(count, B, T); the targets of an example come from one and the same member."""
    generator = generator_at(0, "draws")
    examples = mixture.means.shape[1]
    member = torch.multinomial(mixture.weights, count * examples, replacement=True, generator=generator)
    member, example = member.reshape(count, examples), torch.arange(examples)
    noise = torch.randn(count, *mixture.means.shape[1:], generator=generator, dtype=DOUBLE)
    return mixture.means[member, example] + noise * mixture.variances[member, example].sqrt()


class TestMoments:
    def test_two_members_by_hand(self) -> None:
        """Means 0 and 4 with weights 3/4 and 1/4: mean 1, disagreement 3/4 + 9/4 = 3; noise 3/4 * 1 + 1/4 * 5 = 2."""
        mixture = GaussianMixture(
            torch.tensor([[[0.0]], [[4.0]]]), torch.tensor([[[1.0]], [[5.0]]]), torch.tensor([0.75, 0.25])
        )
        assert mixture.mean.item() == 1
        assert mixture.noise.item() == 2
        assert mixture.disagreement.item() == 3
        assert mixture.variance.item() == 5
        assert mixture.deviation.item() == pytest.approx(math.sqrt(5))

    def test_the_split_is_the_variance_of_draws(self) -> None:
        mixture = random_mixture(0, 3)
        sampled = draws(mixture, 200_000)
        error = mixture.deviation / math.sqrt(200_000)
        assert ((sampled.mean(0) - mixture.mean).abs() < 5 * error).all()
        torch.testing.assert_close(sampled.var(0), mixture.variance, rtol=0.02, atol=0)
        moments = torch.einsum("k,kbt->bt", mixture.weights, mixture.variances + mixture.means.square())
        torch.testing.assert_close(mixture.noise + mixture.disagreement, moments - mixture.mean.square())

    def test_members_that_agree_leave_noise_only(self) -> None:
        mixture = random_mixture(1, 1)
        twice = GaussianMixture(mixture.means.repeat(2, 1, 1), mixture.variances.repeat(2, 1, 1), torch.full((2,), 0.5))
        assert (twice.disagreement == 0).all()
        torch.testing.assert_close(twice.variance, mixture.variances[0])


class TestDensity:
    def test_one_member_is_a_gaussian(self) -> None:
        mixture, y = random_mixture(2, 1), torch.randn(4, 2, generator=generator_at(2, "y"), dtype=DOUBLE)
        truth = torch.distributions.Normal(mixture.means[0], mixture.variances[0].sqrt()).log_prob(y)
        torch.testing.assert_close(mixture.log_density_per_target(y), truth)
        torch.testing.assert_close(mixture.log_density(y), truth.sum(-1))

    def test_the_joint_density_mixes_products(self) -> None:
        mixture, y = random_mixture(3, 3), torch.randn(4, 2, generator=generator_at(3, "y"), dtype=DOUBLE)
        members = torch.distributions.Normal(mixture.means, mixture.variances.sqrt()).log_prob(y).exp()
        joint = torch.einsum("k,kb->b", mixture.weights, members.prod(-1)).log()
        alone = torch.einsum("k,kbt->bt", mixture.weights, members).log()
        torch.testing.assert_close(mixture.log_density(y), joint)
        torch.testing.assert_close(mixture.log_density_per_target(y), alone)
        assert (joint - alone.sum(-1)).abs().min() > 1e-3

    def test_targets_far_away_and_members_without_weight_stay_finite(self) -> None:
        mixture = GaussianMixture(torch.zeros(2, 1, 1), torch.ones(2, 1, 1), torch.tensor([1.0, 0.0]))
        assert mixture.log_density(torch.tensor([[200.0]])).item() == pytest.approx(-20_000.92, abs=0.01)

    def test_the_cdf_is_the_integral_of_the_density(self) -> None:
        mixture = random_mixture(4, 3, examples=1, targets=1)
        grid = torch.linspace(-30, 2, 2001, dtype=DOUBLE)
        densities = torch.stack([mixture.log_density_per_target(point[None, None]) for point in grid]).exp()
        area = torch.trapezoid(densities[:, 0, 0], grid)
        assert mixture.cdf(torch.tensor([[2.0]], dtype=DOUBLE)).item() == pytest.approx(area.item(), abs=1e-5)


class TestQuantiles:
    LEVELS = (0.001, 0.05, 0.3, 0.5, 0.95, 0.999)

    def test_one_member_has_the_closed_form(self) -> None:
        mixture = random_mixture(5, 1)
        found = mixture.quantiles(self.LEVELS)
        truth = [mixture.means[0] + NormalDist().inv_cdf(p) * mixture.variances[0].sqrt() for p in self.LEVELS]
        torch.testing.assert_close(found, torch.stack(truth), rtol=1e-14, atol=1e-14)

    @pytest.mark.parametrize("members", [2, 7])
    def test_the_cdf_inverts_them(self, members: int) -> None:
        mixture = random_mixture(6, members)
        found = mixture.quantiles(self.LEVELS)
        levels = torch.tensor(self.LEVELS, dtype=DOUBLE)[:, None, None].expand_as(found)
        torch.testing.assert_close(mixture.cdf(found), levels, rtol=0, atol=1e-8)
        step = 1e-6 * mixture.deviation
        assert (mixture.cdf(found - step) < levels).all() and (mixture.cdf(found + step) > levels).all()

    def test_a_far_member_of_small_weight(self) -> None:
        """99.9 % N(0, 1) and 0.1 % N(1000, 1): the 0.9-quantile is that of N(0, 1) at 0.9 / 0.999."""
        means = torch.tensor([0.0, 1000.0], dtype=DOUBLE).reshape(2, 1, 1)
        mixture = GaussianMixture(means, torch.ones_like(means), torch.tensor([0.999, 0.001], dtype=DOUBLE))
        assert mixture.quantiles([0.9]).item() == pytest.approx(NormalDist().inv_cdf(0.9 / 0.999), abs=1e-6)

    def test_single_precision(self) -> None:
        mixture = random_mixture(7, 3)
        single = GaussianMixture(mixture.means.float(), mixture.variances.float(), mixture.weights.float())
        found = single.quantiles((0.05, 0.95))
        assert found.dtype == torch.float32
        assert ((found - mixture.quantiles((0.05, 0.95))).abs() < 1e-5 * mixture.deviation).all()

    @pytest.mark.parametrize("levels", [(), (0.0,), (0.5, 1.0), (math.nan,)])
    def test_levels_that_have_none(self, levels: tuple[float, ...]) -> None:
        with pytest.raises(InvalidInput, match="levels above 0 and below 1"):
            random_mixture(0, 2).quantiles(levels)


class TestScale:
    def test_one_member_has_the_closed_form(self) -> None:
        """Errors of 1 and 3 standard deviations: s^2 = (1 + 9) / 2; errors of 2 and 2: s = 2."""
        mixture = GaussianMixture(torch.zeros(1, 2, 2), torch.full((1, 2, 2), 4.0), torch.ones(1))
        targets = torch.tensor([[2.0, 4.0], [-6.0, 4.0]])
        assert fit_scale(mixture, targets) == pytest.approx((math.sqrt(5), 2.0), rel=1e-12)

    def test_equal_members_have_the_scale_of_one(self) -> None:
        single = random_mixture(8, 1, examples=50)
        targets = 3 * torch.randn(50, 2, generator=generator_at(8, "y"), dtype=DOUBLE)
        twice = GaussianMixture(
            single.means.repeat(2, 1, 1), single.variances.repeat(2, 1, 1), torch.tensor([0.3, 0.7])
        )
        assert fit_scale(twice, targets) == pytest.approx(fit_scale(single, targets), rel=1e-8)

    @pytest.mark.parametrize("seed", range(4))
    def test_no_scale_on_a_fine_grid_is_better(self, seed: int) -> None:
        mixture = random_mixture(seed, 3, examples=12)
        targets = 3 * torch.randn(12, 2, generator=generator_at(seed, "y"), dtype=DOUBLE)
        found = fit_scale(mixture, targets)

        def likelihoods(factors: list[float]) -> Tensor:
            return mixture.scaled(factors).log_density_per_target(targets).mean(0)

        grid = torch.linspace(math.log(0.01), math.log(100), 2001, dtype=DOUBLE).exp().tolist()
        best = torch.stack([likelihoods([scale, scale]) for scale in grid]).amax(0)
        assert (likelihoods(list(found)) >= best - 1e-12).all()

    def test_it_finds_the_scale_of_draws(self) -> None:
        """Targets drawn from the mixture after halving its deviations ask for the factor 1/2."""
        mixture = random_mixture(9, 3, examples=20_000, targets=1)
        targets = draws(mixture.scaled([0.5]), 1)[0]
        assert fit_scale(mixture, targets) == pytest.approx((0.5,), rel=0.03)

    def test_it_stays_in_its_range(self) -> None:
        mixture = random_mixture(10, 1)
        assert fit_scale(mixture, mixture.means[0]) == (0.01, 0.01)
        assert fit_scale(mixture, mixture.means[0] + 1e6) == (100.0, 100.0)

    def test_factors_multiply_deviations(self) -> None:
        mixture = random_mixture(11, 2)
        scaled = mixture.scaled((2.0, 0.5))
        torch.testing.assert_close(scaled.variances, mixture.variances * torch.tensor([4.0, 0.25], dtype=DOUBLE))
        torch.testing.assert_close(scaled.mean, mixture.mean)
        with pytest.raises(InvalidInput, match=r"one factor per target, \(2,\). Got shape \(3,\)"):
            mixture.scaled((1.0, 1.0, 1.0))


ONES = torch.ones(2, 3, 1)
HALVES = torch.full((2,), 0.5)


@pytest.mark.parametrize(
    ("means", "variances", "weights"),
    [(ONES[0], ONES[0], HALVES), (ONES, ONES[:, :2], HALVES), (ONES, ONES, torch.ones(3) / 3), (ONES, ONES, HALVES[0])],
)
def test_shapes_that_do_not_fit(means: Tensor, variances: Tensor, weights: Tensor) -> None:
    with pytest.raises(InvalidInput, match=r"means and variances \(K, B, T\) and weights \(K,\)"):
        GaussianMixture(means, variances, weights)


@pytest.mark.parametrize(
    ("means", "variances", "weights", "targets", "complaint"),
    [
        (ONES, 0 * ONES, HALVES, ONES[0], "variances above 0. Got 0"),
        (ONES, math.inf * ONES, HALVES, ONES[0], "finite values"),
        (math.nan * ONES, ONES, HALVES, ONES[0], "finite values"),
        (ONES, ONES, -HALVES, ONES[0], "weights of 0 or more"),
        (ONES, ONES, HALVES, ONES[0, :, 0], r"floats of shape \(B, T\)"),
        (ONES, ONES, HALVES, ONES[0, :2], r"targets \(3, 1\). Got shape \(2, 1\)"),
        (ONES, ONES, HALVES, torch.ones(3, 1, dtype=torch.int64), r"floats of shape \(B, T\)"),
    ],
)
def test_calibration_data_that_do_not_fit(
    means: Tensor, variances: Tensor, weights: Tensor, targets: Tensor, complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        fit_scale(GaussianMixture(means, variances, weights), targets)
