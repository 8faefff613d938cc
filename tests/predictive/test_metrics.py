"""Metrics against scikit-learn, closed forms and numerical integration."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn import metrics as truth
from torch import Tensor

from polyarch import estimators
from polyarch.errors import InvalidInput
from polyarch.predictive import (
    METRICS,
    GaussianMixture,
    Goal,
    Metric,
    accuracy,
    auroc,
    balanced_accuracy,
    crps,
    exact_match,
    interval_coverage,
    interval_width,
    label_accuracy,
    label_auroc,
    label_calibration_error,
    label_macro_f1,
    label_micro_f1,
    macro_f1,
    mae,
    mixture_negative_log_likelihood,
    r2,
    rmse,
    set_coverage,
    set_size,
)
from polyarch.randomness import generator_at


class TestTable:
    def test_names_are_keys_and_directions_are_known(self) -> None:
        assert all(name == metric.name and metric.goal in ("maximise", "minimise") for name, metric in METRICS.items())
        assert METRICS["rmse"].goal == "minimise" and METRICS["r2"].goal == "maximise"

    def test_a_metric_of_ones_own(self) -> None:
        assert Metric("top_five", "maximise").title == "top five"
        assert Metric("rmse", "minimise") == Metric("rmse", "minimise", "rmse")

    def test_estimators_share_the_type_of_goals(self) -> None:
        assert estimators.Goal is Goal


def predicted_classes(classes: int, examples: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = generator_at(seed, "classes")
    labels = torch.randint(classes, (examples,), generator=generator)
    logits = torch.randn(examples, classes, generator=generator) + torch.nn.functional.one_hot(labels, classes)
    return torch.softmax(logits, -1), labels


class TestClasses:
    @pytest.mark.parametrize("classes", [2, 3, 7])
    def test_as_in_scikit_learn(self, classes: int) -> None:
        p, y = predicted_classes(classes)
        best = p.argmax(1)
        assert accuracy(p, y) == pytest.approx(truth.accuracy_score(y, best), abs=1e-12)
        assert balanced_accuracy(p, y) == pytest.approx(truth.balanced_accuracy_score(y, best), abs=1e-12)
        assert macro_f1(p, y) == pytest.approx(truth.f1_score(y, best, average="macro"), abs=1e-12)
        p = p.double()
        areas = truth.roc_auc_score(y, p[:, 1]) if classes == 2 else truth.roc_auc_score(y, p, multi_class="ovr")
        assert auroc(p, y) == pytest.approx(areas, abs=1e-12)

    def test_by_hand(self) -> None:
        """Truth 0 0 0 1, predictions 0 0 1 1: recalls 2/3 and 1, F1 4/5 and 2/3."""
        p = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [0.2, 0.8]])
        y = torch.tensor([0, 0, 0, 1])
        assert accuracy(p, y) == 0.75
        assert balanced_accuracy(p, y) == pytest.approx(5 / 6)
        assert macro_f1(p, y) == pytest.approx((4 / 5 + 2 / 3) / 2)
        assert auroc(p, y) == 1
        assert auroc(p, torch.tensor([0, 1, 0, 1])) == 0.75

    def test_classes_that_do_not_occur_are_left_out(self) -> None:
        """Class 2 is predicted once, class 3 neither occurs nor is predicted."""
        y, best = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 2, 1, 1])
        p = 0.7 * torch.nn.functional.one_hot(best, 4) + 0.075
        assert balanced_accuracy(p, y) == 0.75
        assert macro_f1(p, y) == pytest.approx((2 / 3 + 1 + 0) / 3)
        assert macro_f1(p, y) == pytest.approx(truth.f1_score(y, best, average="macro"))
        assert auroc(p, y) == pytest.approx((0.75 + 1) / 2)

    def test_auroc_needs_two_classes(self) -> None:
        with pytest.raises(InvalidInput, match="with and without a class to measure AUROC"):
            auroc(torch.full((3, 2), 0.5), torch.ones(3, dtype=torch.int64))

    def test_sets(self) -> None:
        sets = torch.tensor([[True, False, True], [False, True, False]])
        assert set_coverage(sets, torch.tensor([2, 0])) == 0.5
        assert set_size(sets) == 1.5
        with pytest.raises(InvalidInput, match="sets as booleans"):
            set_size(sets.float())
        with pytest.raises(InvalidInput, match="one label per example"):
            set_coverage(sets, torch.tensor([0]))

    @pytest.mark.parametrize("measure", [accuracy, balanced_accuracy, macro_f1, auroc])
    def test_input_that_does_not_fit(self, measure: Callable[[Tensor, Tensor], float]) -> None:
        with pytest.raises(InvalidInput, match="labels as integers"):
            measure(torch.full((2, 2), 0.5), torch.tensor([0.0, 1.0]))
        with pytest.raises(InvalidInput, match=r"sum of 1.5"):
            measure(torch.full((2, 3), 0.5), torch.tensor([0, 1]))


class TestLabels:
    @pytest.mark.parametrize("seed", range(3))
    def test_as_in_scikit_learn(self, seed: int) -> None:
        generator = generator_at(seed, "labels")
        y = torch.randint(2, (40, 5), generator=generator)
        p = torch.sigmoid(torch.randn(40, 5, generator=generator, dtype=torch.float64) + 2 * y - 1)
        y[:, 4], p[:, 4] = 0, 0.1  # a label that neither occurs nor is predicted
        best = (p >= 0.5).long().numpy()
        assert label_accuracy(p, y) == pytest.approx((best == y.numpy()).mean(), abs=1e-12)
        assert label_accuracy(p, y) == pytest.approx(1 - truth.hamming_loss(y, best), abs=1e-12)
        assert exact_match(p, y) == pytest.approx(truth.accuracy_score(y, best), abs=1e-12)
        assert label_micro_f1(p, y) == pytest.approx(truth.f1_score(y, best, average="micro"), abs=1e-12)
        macro = truth.f1_score(y, best, average="macro", zero_division=np.nan)
        assert label_macro_f1(p, y) == pytest.approx(macro, abs=1e-12)
        assert label_auroc(p, y) == pytest.approx(truth.roc_auc_score(y[:, :4], p[:, :4]), abs=1e-12)

    def test_nothing_to_find(self) -> None:
        p, y = torch.full((2, 3), 0.2), torch.zeros(2, 3)
        assert exact_match(p, y) == 1
        assert label_micro_f1(p, y) == label_macro_f1(p, y) == 0
        with pytest.raises(InvalidInput, match="AUROC"):
            label_auroc(p, y)

    def test_calibration_error_by_hand(self) -> None:
        """Two bins: 0.2, 0.4 with one of two present, |0.5 - 0.3|; 0.9, 1.0 with both, |1 - 0.95|."""
        p = torch.tensor([[0.2, 0.4], [0.9, 1.0]], dtype=torch.float64)
        y = torch.tensor([[0, 1], [1, 1]])
        assert label_calibration_error(p, y, bins=2) == pytest.approx((2 * 0.2 + 2 * 0.05) / 4, abs=1e-12)
        assert label_calibration_error(y.double(), y) == 0
        assert label_calibration_error(1 - y.double(), y) == 1

    def test_labels_drawn_from_their_probabilities_are_calibrated(self) -> None:
        p = torch.rand(50_000, 2, generator=generator_at(0, "p"), dtype=torch.float64)
        y = torch.bernoulli(p, generator=generator_at(0, "y"))
        assert label_calibration_error(p, y) < 0.01 < 0.2 < label_calibration_error(p.square(), 1 - y)

    @pytest.mark.parametrize(
        ("p", "y", "complaint"),
        [
            (torch.full((2, 2), 1.5), torch.ones(2, 2), r"probabilities in 0\.\.1. Got 1.5\.\.1.5"),
            (torch.full((2, 2), 0.5), torch.full((2, 2), 0.5), r"targets \(2, 2\) of 0 and 1"),
            (torch.full((2, 2), 0.5), torch.ones(2), r"targets \(2, 2\) of 0 and 1. Got shape \(2,\)"),
            (torch.full((2,), 0.5), torch.ones(2), r"shape \(N, L\)"),
        ],
    )
    def test_input_that_does_not_fit(self, p: Tensor, y: Tensor, complaint: str) -> None:
        with pytest.raises(InvalidInput, match=complaint):
            label_accuracy(p, y)

    def test_no_bins(self) -> None:
        with pytest.raises(InvalidInput, match="1 or more bins"):
            label_calibration_error(torch.ones(1, 1), torch.ones(1, 1), bins=0)


def random_mixture(members: int, examples: int, targets: int) -> tuple[GaussianMixture, Tensor]:
    generator = generator_at(members, "mixture")
    means = torch.randn(members, examples, targets, generator=generator, dtype=torch.float64)
    variances = torch.randn(members, examples, targets, generator=generator, dtype=torch.float64).exp()
    weights = torch.rand(members, generator=generator, dtype=torch.float64) + 0.1
    y = 2 * torch.randn(examples, targets, generator=generator, dtype=torch.float64)
    return GaussianMixture(means, variances, weights / weights.sum()), y


class TestNumbers:
    def test_as_in_scikit_learn(self) -> None:
        mixture, y = random_mixture(1, 30, 3)
        f = mixture.mean
        squared = truth.mean_squared_error(y, f, multioutput="raw_values")
        assert rmse(f, y).tolist() == pytest.approx(np.sqrt(squared).tolist(), rel=1e-12)
        assert mae(f, y).tolist() == pytest.approx(truth.mean_absolute_error(y, f, multioutput="raw_values").tolist())
        assert r2(f, y).tolist() == pytest.approx(truth.r2_score(y, f, multioutput="raw_values").tolist(), rel=1e-12)

    def test_r2_of_the_mean_and_of_constants(self) -> None:
        y = torch.tensor([[0.0, 0.1, 0.1], [2.0, 0.1, 0.1]])
        assert r2(torch.tensor([[1.0, 0.1, 0.2], [1.0, 0.1, 0.1]]), y).tolist() == [0.0, 1.0, 0.0]

    def test_likelihood_of_one_gaussian(self) -> None:
        mixture, y = random_mixture(1, 10, 2)
        density = torch.distributions.Normal(mixture.means[0], mixture.deviation).log_prob(y)
        assert mixture_negative_log_likelihood(mixture, y) == pytest.approx(-density.sum(1).mean().item(), rel=1e-12)

    def test_likelihood_of_a_mixture(self) -> None:
        mixture, y = random_mixture(3, 10, 2)
        densities = torch.distributions.Normal(mixture.means, mixture.variances.sqrt()).log_prob(y).sum(-1).exp()
        average = torch.einsum("k,kn->n", mixture.weights, densities)
        assert mixture_negative_log_likelihood(mixture, y) == pytest.approx(-average.log().mean().item(), rel=1e-12)

    def test_crps_of_one_gaussian(self) -> None:
        """s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), Gneiting and Raftery (2007)."""
        mixture, y = random_mixture(1, 10, 2)
        normal = torch.distributions.Normal(0.0, 1.0)
        z = (y - mixture.mean) / mixture.deviation
        closed = mixture.deviation * (z * (2 * normal.cdf(z) - 1) + 2 * normal.log_prob(z).exp() - math.pi**-0.5)
        torch.testing.assert_close(crps(mixture, y), closed.mean(0), rtol=1e-7, atol=1e-7)

    def test_crps_is_the_integral(self) -> None:
        mixture, y = random_mixture(3, 2, 2)
        z = torch.linspace(-40, 40, 80_001, dtype=torch.float64)
        steps = (y <= z[:, None, None]).double()
        gaps = (mixture.cdf(z[:, None, None].expand(-1, 2, 2)) - steps).square()
        torch.testing.assert_close(crps(mixture, y), torch.trapezoid(gaps, z, dim=0).mean(0), rtol=1e-3, atol=1e-3)

    def test_crps_of_sure_members_is_the_error(self) -> None:
        y = torch.tensor([[1.0], [5.0]])
        mixture = GaussianMixture(torch.zeros(1, 2, 1), torch.full((1, 2, 1), 1e-12), torch.ones(1))
        assert crps(mixture, y).item() == pytest.approx(mae(torch.zeros(2, 1), y).item(), abs=1e-5)

    def test_intervals(self) -> None:
        low, high = torch.zeros(4, 2), torch.tensor([1.0, 2.0]).expand(4, 2)
        y = torch.tensor([[0.0, 0.5], [1.0, 2.5], [1.5, 3.0], [0.5, -0.1]])
        assert interval_coverage(low, high, y).tolist() == [0.75, 0.25]
        assert interval_width(low, high).tolist() == [1.0, 2.0]

    def test_input_that_does_not_fit(self) -> None:
        with pytest.raises(InvalidInput, match=r"one shape \(N, T\). Got \[\(3, 1\), \(3, 2\)\]"):
            rmse(torch.zeros(3, 1), torch.zeros(3, 2))
        with pytest.raises(InvalidInput, match=r"floats of shape \(N, T\)"):
            mae(torch.zeros(3), torch.zeros(3))
        with pytest.raises(InvalidInput, match="finite values"):
            r2(torch.zeros(3, 1), torch.full((3, 1), math.nan))
        with pytest.raises(InvalidInput, match="variances above 0"):
            crps(GaussianMixture(torch.zeros(1, 2, 1), torch.zeros(1, 2, 1), torch.ones(1)), torch.zeros(2, 1))


def test_the_loss_breaks_ties_between_the_best() -> None:
    scores = {"a": (0.9, 0.3), "b": (0.95, 0.4), "c": (0.95, 0.2), "d": (0.95, 0.5)}
    accuracy = METRICS["accuracy"]
    assert accuracy.best(scores, lambda name: scores[name][0], loss=lambda name: scores[name][1]) == "c"
    assert accuracy.best(scores, lambda name: scores[name][0]) == "b"
