"""Tasks against torch.distributions, finite differences, enumeration and scikit-learn, in float64."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, MixtureSameFamily, Normal

from polyarch.errors import InvalidInput
from polyarch.predictive import fit_temperature
from polyarch.randomness import generator_at
from polyarch.tasks import Classification, MultiLabel, OwnTask, Regression, Task, balanced_weights, prediction_sets
from polyarch.tasks.classification import LOG_DEVIATION, SHARPENING_DEVIATION

WEIGHTS = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)


def random(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(seed, "task"))


class TestClassification:
    task = Classification(("a", "b", "c", "d"))

    def data(self, count: int = 60) -> tuple[Tensor, Tensor]:
        return random(0, 3, count, 4), torch.arange(count) % 4

    def test_likelihood(self) -> None:
        outputs, targets = self.data()
        expected = Categorical(logits=outputs).log_prob(targets)
        torch.testing.assert_close(self.task.log_likelihood(outputs, targets), expected)

    def test_a_mixture_is_exact(self) -> None:
        outputs, targets = self.data()
        mixed = self.task.mix(outputs, WEIGHTS.log())
        mixture = torch.einsum("k,knc->nc", WEIGHTS, outputs.softmax(-1))
        torch.testing.assert_close(mixed.softmax(-1), mixture)
        torch.testing.assert_close(self.task.log_likelihood(mixed, targets), Categorical(mixture).log_prob(targets))

    def test_metrics(self) -> None:
        outputs, targets = self.data()
        p = torch.einsum("k,knc->nc", WEIGHTS, outputs.softmax(-1))
        best, truth = p.argmax(1).numpy(), targets.numpy()
        found = self.task.measure(outputs, targets, WEIGHTS)
        assert found["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(truth, best))
        assert found["balanced_accuracy"] == pytest.approx(sklearn_metrics.balanced_accuracy_score(truth, best))
        assert found["macro_f1"] == pytest.approx(sklearn_metrics.f1_score(truth, best, average="macro"))
        expected = sklearn_metrics.roc_auc_score(truth, p.numpy(), multi_class="ovr", average="macro")
        assert found["auroc"] == pytest.approx(expected)
        assert found["loss"] == pytest.approx(sklearn_metrics.log_loss(truth, p.numpy()))
        assert found["brier"] == pytest.approx(float((p - F.one_hot(targets, 4)).square().sum(1).mean()))

    def test_one_class_has_no_auroc(self) -> None:
        outputs, _ = self.data()
        found = self.task.measure(outputs, torch.zeros(60, dtype=torch.int64))
        assert "auroc" not in found and "accuracy" in found

    def test_smoothed_and_weighted_losses(self) -> None:
        """Weights and smoothing change what is learned, and nothing that is measured."""
        (outputs, *_), targets = self.data()
        smoothed = self.task.smoothed(0.1)
        torch.testing.assert_close(
            smoothed.loss(outputs, targets), F.cross_entropy(outputs, targets, label_smoothing=0.1)
        )
        weights = (2.0, 1.0, 0.5, 0.5)
        weighted = Classification(self.task.names, class_weights=weights)
        each = F.cross_entropy(outputs, targets, reduction="none")
        expected = sum(weights[target] * float(loss) for target, loss in zip(targets.tolist(), each, strict=True)) / 60
        assert float(weighted.loss(outputs, targets)) == pytest.approx(expected)
        for other in (smoothed, weighted):
            assert other.measure(outputs[None], targets) == self.task.measure(outputs[None], targets)

    @given(st.lists(st.integers(0, 3), min_size=4, max_size=40).filter(lambda labels: set(labels) == {0, 1, 2, 3}))
    def test_balanced_weights_make_classes_count_alike(self, labels: list[int]) -> None:
        weights = balanced_weights(torch.tensor(labels), 4)
        totals = [weights[label] * labels.count(label) for label in range(4)]
        assert totals == pytest.approx([len(labels) / 4] * 4)

    def test_a_class_without_examples_has_no_weight(self) -> None:
        with pytest.raises(InvalidInput, match=r"every class to weigh them\. Got counts \[2\.0, 0\.0, 1\.0\]"):
            balanced_weights(torch.tensor([0, 0, 2]), 3)

    def test_calibration(self) -> None:
        outputs, targets = self.data()
        sure = 6 * outputs
        found = self.task.calibrate(sure, targets, WEIGHTS, flag=0.1)
        assert found.temperature == pytest.approx(fit_temperature(sure, targets, WEIGHTS, log_deviation=LOG_DEVIATION))
        assert found.temperature > 2 and found.conformal["coverage"] == 0.9
        right = torch.nn.functional.one_hot(targets, outputs.shape[-1]).to(outputs).expand_as(outputs)
        unsure = self.task.calibrate(right, targets, WEIGHTS, flag=0.1).temperature
        assert unsure == pytest.approx(fit_temperature(right, targets, WEIGHTS, log_deviation=SHARPENING_DEVIATION))
        assert fit_temperature(right, targets, WEIGHTS, log_deviation=LOG_DEVIATION) < unsure < 1
        assert self.task.calibrate(sure[:, :8], targets[:8], WEIGHTS, flag=0.1).conformal == {}  # nine would be needed

    @pytest.mark.parametrize("sets", ["lac", "aps", "raps"])
    def test_sets_cover_the_data_that_they_were_fitted_to(self, sets: str) -> None:
        task = Classification(self.task.names, sets=sets, coverage=0.8)  # type: ignore[arg-type]
        outputs, targets = self.data(200)
        calibration = task.calibrate(outputs, targets, WEIGHTS, flag=0.1)
        probabilities = task.read(task.tempered(outputs, calibration.temperature), WEIGHTS, calibration.conformal)[0]
        make = prediction_sets(calibration.conformal)
        assert make is not None
        inside = make(probabilities)[torch.arange(200), targets].double().mean()
        assert float(inside) >= 0.8


class TestRegression:
    task = Regression(("price", "weight"), (100.0, 3.0), (20.0, 0.5))
    location = torch.tensor([100.0, 3.0], dtype=torch.float64)
    scale = torch.tensor([20.0, 0.5], dtype=torch.float64)

    def data(self, count: int = 40) -> tuple[Tensor, Tensor]:
        return random(0, 3, count, 4), self.location + self.scale * random(1, count, 2)

    def normal(self, outputs: Tensor) -> Normal:
        mean, log_variance = outputs.chunk(2, -1)
        return Normal(self.location + self.scale * mean, self.scale * (log_variance / 2).exp())

    def test_likelihood(self) -> None:
        outputs, targets = self.data()
        expected = self.normal(outputs).log_prob(targets).sum(-1)
        torch.testing.assert_close(self.task.log_likelihood(outputs, targets), expected)
        with_gradient = self.task.log_likelihood(outputs.requires_grad_(), targets)
        torch.testing.assert_close(with_gradient, expected)

    def test_the_gradient_is_the_true_one_times_factors_of_the_variance(self) -> None:
        """Times exp(r) for the mean, min(1, exp(r)) for r, against central differences of the true log-likelihood."""
        outputs, targets = random(0, 1, 4), self.location + self.scale * random(1, 1, 2)
        outputs[0, 2:] = torch.tensor([-1.3, 0.8])  # a small and a large variance
        outputs.requires_grad_()
        self.task.log_likelihood(outputs, targets).sum().backward()
        step = 1e-5
        with torch.no_grad():
            for place in range(4):
                change = torch.zeros(1, 4, dtype=torch.float64)
                change[0, place] = step
                above, below = (self.task.log_likelihood(outputs + sign * change, targets) for sign in (1, -1))
                true = (above - below) / (2 * step)
                variance = outputs[0, 2 + place % 2].exp()
                factor = variance if place < 2 else variance.clamp_max(1)
                assert outputs.grad is not None
                assert float(outputs.grad[0, place]) == pytest.approx(float(true * factor), rel=1e-6)

    def test_the_gradient_of_the_mean_does_not_depend_on_the_variance(self) -> None:
        _, targets = self.data(5)
        gradients = []
        for log_variance in (-6.0, 0.0, 5.0):
            outputs = torch.cat([random(2, 5, 2), torch.full((5, 2), log_variance, dtype=torch.float64)], 1)
            outputs.requires_grad_()
            self.task.loss(outputs, targets).backward()
            assert outputs.grad is not None
            gradients.append(outputs.grad[:, :2])
        torch.testing.assert_close(gradients[0], gradients[1])
        torch.testing.assert_close(gradients[2], gradients[1])

    def test_a_mixture_has_the_mean_and_variance_of_its_members(self) -> None:
        outputs, _ = self.data()
        members = self.normal(outputs)
        parts = Normal(members.mean.permute(1, 2, 0), members.stddev.permute(1, 2, 0))
        mixture = MixtureSameFamily(Categorical(WEIGHTS.expand(40, 2, 3)), parts)
        mean, std, noise, disagreement, low, high = self.task.read(outputs, WEIGHTS, {})
        torch.testing.assert_close(mean, mixture.mean)
        torch.testing.assert_close(std.square(), mixture.variance)
        torch.testing.assert_close(noise.square() + disagreement.square(), mixture.variance)
        torch.testing.assert_close((high + low) / 2, mean)
        torch.testing.assert_close((high - low) / 2, 1.6448536269514722 * std)  # 90 % of a Gaussian
        mixed = self.normal(self.task.mix(outputs, WEIGHTS.log()))
        torch.testing.assert_close((mixed.mean, mixed.variance), (mixture.mean, mixture.variance))

    def test_metrics(self) -> None:
        """Errors of several targets count in units of their scale."""
        outputs, targets = self.data()
        means = torch.einsum("k,knt->nt", WEIGHTS, self.normal(outputs).mean)
        error = (means - targets) / self.scale
        found = self.task.measure(outputs, targets, WEIGHTS)
        assert found["rmse"] == pytest.approx(float(error.square().mean(0).sqrt().mean()))
        assert found["mae"] == pytest.approx(float(error.abs().mean()))
        assert found["r2"] == pytest.approx(sklearn_metrics.r2_score(targets, means))
        one = Regression(("price",), (100.0,), (20.0,))
        alone = one.measure(outputs[:1, :, ::2], targets[:, :1])
        expected = sklearn_metrics.root_mean_squared_error(targets[:, 0], self.normal(outputs[:1]).mean[0, :, 0])
        assert alone["rmse"] == pytest.approx(expected)

    def test_a_temperature_is_found_again(self) -> None:
        """Targets drawn from what is predicted, and twice that standard deviation said."""
        outputs = random(3, 1, 4000, 2)
        task = Regression(("price",), (100.0,), (20.0,))
        true = Normal(100 + 20 * outputs[0, :, :1], 20 * (outputs[0, :, 1:] / 2).exp())
        targets = true.mean + true.stddev * random(4, 4000, 1)
        said = outputs + torch.tensor([0.0, math.log(4)], dtype=torch.float64)
        found = task.calibrate(said, targets, torch.ones(1, dtype=torch.float64), flag=0.1)
        assert found.temperature == pytest.approx(0.25, rel=0.05)

    @pytest.mark.parametrize("intervals", ["scaled", "quantile"])
    def test_intervals_cover_the_data_that_they_were_fitted_to(self, intervals: str) -> None:
        task = Regression(self.task.names, self.task.location, self.task.scale, coverage=0.8, intervals=intervals)  # type: ignore[arg-type]
        outputs, targets = self.data(200)
        found = task.calibrate(outputs, targets, WEIGHTS, flag=0.1)
        *_, low, high = task.read(task.tempered(outputs, found.temperature), WEIGHTS, found.conformal)
        inside = ((low <= targets) & (targets <= high)).double().mean(0)
        assert (inside >= 0.8).all() and (inside < 0.85).all()

    def test_standardised(self) -> None:
        targets = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
        found = Regression(("a", "b"), (0.0, 0.0), (1.0, 1.0)).standardised(targets)
        assert (found.location, found.scale) == ((2.0, 5.0), (1.0, 1.0))  # a constant target has scale 1

    @given(st.floats(0.01, 100), st.floats(-1000, 1000))
    def test_units_do_not_matter(self, factor: float, shift: float) -> None:
        """In other units the loss is another by the logarithm of the factor, and errors scale with it."""
        outputs, targets = self.data(10)
        one = Regression(("price",), (100.0,), (20.0,))
        other = Regression(("price",), (100 * factor + shift,), (20 * factor,))
        outputs, targets = outputs[..., ::2], targets[:, :1]
        here, there = one.measure(outputs, targets), other.measure(outputs, targets * factor + shift)
        assert there["loss"] == pytest.approx(here["loss"] + math.log(factor), abs=1e-6)
        assert there["rmse"] == pytest.approx(here["rmse"] * factor, rel=1e-6)
        assert there["r2"] == pytest.approx(here["r2"], abs=1e-6)

    @pytest.mark.parametrize(
        ("location", "scale"), [((0.0,), (1.0, 1.0)), ((0.0, 0.0), (1.0,)), ((0.0, 0.0), (1.0, 0.0))]
    )
    def test_units_that_do_not_fit(self, location: tuple[float, ...], scale: tuple[float, ...]) -> None:
        with pytest.raises(InvalidInput, match="a location and a scale above 0 for each of 2 targets"):
            Regression(("a", "b"), location, scale)


class TestEnsemblesOfFolds:
    """Networks f_sk = x + 0.8 z_sk that are new to all examples, targets x + noise: what `held_out` only estimates."""

    task = Regression(("y",), location=(2.0,), scale=(3.0,))
    shares = torch.tensor([0.7, 0.3], dtype=torch.float64)
    weights = (shares / 4).repeat_interleave(4)

    def drawn(self, seed: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs (2, 4, N, 2), folds and targets."""
        truth = random(seed, count)
        means = truth + 0.8 * random(seed + 1, 2, 4, count)
        variance = torch.full_like(means, 0.25)
        targets = 2.0 + 3.0 * (truth + 0.5 * random(seed + 2, count))
        return torch.stack([means, variance.log()], -1), torch.arange(count) % 4, targets[:, None]

    def test_errors_and_disagreement_are_those_of_the_whole_ensemble(self) -> None:
        outputs, folds, targets = self.drawn(0, 40_000)
        found = self.task.held_out(outputs, folds, self.shares, targets)
        together = self.task.mixture(found, self.weights)
        known = self.task.mixture(outputs.flatten(0, 1), self.weights)
        assert found.shape == (8, 40_000, 2)
        assert float(together.disagreement.mean()) == pytest.approx(float(known.disagreement.mean()), rel=0.05)
        expected = (known.mean - targets).square().mean()  # 9 (0.25 + 0.64 (0.7^2 + 0.3^2) / 4)
        assert float(expected) == pytest.approx(9 * (0.25 + 0.64 * 0.58 / 4), rel=0.02)
        assert float((together.mean - targets).square().mean()) == pytest.approx(float(expected), rel=0.02)

    def test_intervals_cover_what_they_should(self) -> None:
        outputs, folds, targets = self.drawn(3, 20_000)
        fresh, _, new = self.drawn(6, 20_000)

        def coverage(valid: Tensor) -> float:
            calibration = self.task.calibrate(valid, targets, self.weights, flag=0.1)
            tempered = self.task.tempered(fresh.flatten(0, 1), calibration.temperature)
            *_, low, high = self.task.read(tempered, self.weights, calibration.conformal)
            return float(((low <= new) & (new <= high)).double().mean())

        assert coverage(self.task.held_out(outputs, folds, self.shares, targets)) == pytest.approx(0.9, abs=0.01)
        assert coverage(Task.held_out(self.task, outputs, folds, self.shares, targets)) > 0.95

    def test_equal_networks_say_what_each_says(self) -> None:
        outputs, folds, targets = self.drawn(9, 50)
        same = outputs[:1, :1].expand(2, 4, -1, -1)
        found = self.task.held_out(same, folds, self.shares, targets)
        torch.testing.assert_close(found, same.flatten(0, 1))

    def test_a_network_without_error_is_left_alone(self) -> None:
        """The ratio of no error to no error is no number."""
        outputs, folds, _ = self.drawn(9, 50)
        same = outputs[:1, :1].expand(1, 4, -1, -1)
        targets = 2.0 + 3.0 * same[0, 0, :, :1]
        torch.testing.assert_close(self.task.held_out(same, folds, self.shares[:1], targets), same.flatten(0, 1))

    def test_classes_take_the_network_that_an_example_is_new_to(self) -> None:
        outputs, folds = random(12, 2, 4, 12, 3), torch.arange(12) % 4
        found = Classification(("a", "b", "c")).held_out(outputs, folds, self.shares, torch.zeros(12).long())
        for row in range(12):
            torch.testing.assert_close(found[:4, row], outputs[0, row % 4, row].expand(4, -1))
            torch.testing.assert_close(found[4:, row], outputs[1, row % 4, row].expand(4, -1))


class TestMultiLabel:
    task = MultiLabel(("hot", "wet"))

    def data(self, count: int = 50) -> tuple[Tensor, Tensor]:
        return random(0, 3, count, 2), random(1, count, 2) > 0.3

    def test_likelihood(self) -> None:
        outputs, targets = self.data()
        expected = Bernoulli(logits=outputs).log_prob(targets.double()).sum(-1)
        torch.testing.assert_close(self.task.log_likelihood(outputs, targets), expected)

    def test_probabilities_of_all_label_sets_sum_to_one(self) -> None:
        outputs, _ = self.data(1)
        every = torch.tensor(list(itertools.product([False, True], repeat=2)))
        total = self.task.log_likelihood(outputs.expand(3, 4, 2), every).exp().sum(-1)
        torch.testing.assert_close(total, torch.ones(3, dtype=torch.float64))

    def test_a_mixture_is_right_about_every_label(self) -> None:
        outputs, _ = self.data()
        expected = torch.einsum("k,knl->nl", WEIGHTS, torch.sigmoid(outputs))
        torch.testing.assert_close(torch.sigmoid(self.task.mix(outputs, WEIGHTS.log())), expected)
        probabilities, entropy, information = self.task.read(outputs, WEIGHTS, {})
        torch.testing.assert_close(probabilities, expected)
        torch.testing.assert_close(entropy, Bernoulli(expected).entropy().sum(-1))
        inner = torch.einsum("k,kn->n", WEIGHTS, Bernoulli(logits=outputs).entropy().sum(-1))
        torch.testing.assert_close(information, entropy - inner)

    def test_metrics(self) -> None:
        outputs, targets = self.data()
        p = torch.einsum("k,knl->nl", WEIGHTS, torch.sigmoid(outputs))
        truth, found = targets.numpy(), self.task.measure(outputs, targets, WEIGHTS)
        present = (p >= 0.5).numpy()
        assert found["micro_f1"] == pytest.approx(sklearn_metrics.f1_score(truth, present, average="micro"))
        assert found["macro_f1"] == pytest.approx(sklearn_metrics.f1_score(truth, present, average="macro"))
        assert found["exact_match"] == pytest.approx(sklearn_metrics.accuracy_score(truth, present))
        assert found["label_accuracy"] == pytest.approx(float((present == truth).mean()))
        assert found["auroc"] == pytest.approx(sklearn_metrics.roc_auc_score(truth, p.numpy()))

    def test_labels_have_no_smoothing(self) -> None:
        with pytest.raises(InvalidInput, match=r"classes for label smoothing\. Got multi-label"):
            self.task.smoothed(0.1)


class TestOwnTask:
    def test_a_loss_that_ignores_its_target(self) -> None:
        task = OwnTask(lambda outputs, targets: outputs.square().sum(1), size=2)
        with pytest.raises(InvalidInput, match=r"depends on its targets\. Got the same losses for other targets"):
            task.check(random(0, 20, 2))

    def test_a_loss_that_is_no_number_per_example(self) -> None:
        mean = OwnTask(lambda outputs, targets: (outputs - targets).square().mean(), size=2)
        with pytest.raises(InvalidInput, match=r"a loss of shape \(20,\), per example\. Got \(\)"):
            mean.check(random(0, 20, 2))

    def test_equal_targets_cannot_tell(self) -> None:
        """What does not vary has no other targets to try."""
        OwnTask(lambda outputs, targets: outputs.square().sum(1), size=2).check(torch.zeros(20, 2))

    def test_without_measures_selection_goes_by_the_loss(self) -> None:
        task = OwnTask(lambda outputs, targets: (outputs - targets).abs().sum(1), size=1)
        assert (task.selection.name, task.selection.goal) == ("loss", "minimise")
        found = task.measure(torch.tensor([[[1.0]], [[4.0]]]), torch.tensor([[3.0]]), torch.tensor([0.75, 0.25]))
        assert found == {"loss": pytest.approx(1.25)}  # the members say 1.75 together

    def test_members_disagree_by_their_standard_deviation(self) -> None:
        task = OwnTask(lambda outputs, targets: (outputs - targets).abs().sum(1), size=2)
        outputs = random(0, 3, 5, 2)
        mean, disagreement = task.read(outputs, WEIGHTS, {})
        torch.testing.assert_close(mean, torch.einsum("k,kno->no", WEIGHTS, outputs))
        variance = torch.einsum("k,kno->no", WEIGHTS, outputs.square()) - mean.square()
        torch.testing.assert_close(disagreement, variance.sqrt().mean(-1))


class TestDistillation:
    """E_{y ~ teacher}[-log p(y | x)], by enumeration or by many draws."""

    def test_of_classes_is_the_expected_loss_of_drawn_labels(self) -> None:
        outputs, teacher = (torch.randn(6, 3, dtype=torch.float64, generator=generator_at(0, name)) for name in "ab")
        task, targets = Classification(("a", "b", "c")), torch.arange(6) % 3
        losses = torch.stack([-task.log_likelihood(outputs, torch.full((6,), label)) for label in range(3)], 1)
        expected = (teacher.softmax(1) * losses).sum(1)
        assert task.distillation(outputs, teacher, targets).item() == pytest.approx(expected.mean().item(), abs=1e-12)
        weighted = replace(task, class_weights=(1.0, 2.0, 3.0))
        weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)[targets]
        found = weighted.distillation(outputs, teacher, targets).item()
        assert found == pytest.approx((weights * expected).mean().item(), abs=1e-12)

    def test_of_labels_is_the_expected_loss_of_drawn_labels(self) -> None:
        outputs, teacher = (torch.randn(6, 2, dtype=torch.float64, generator=generator_at(0, name)) for name in "ab")
        p = torch.sigmoid(teacher)
        expected = -(p * torch.sigmoid(outputs).log() + (1 - p) * torch.sigmoid(-outputs).log()).mean()
        task = MultiLabel(("a", "b"))
        found = task.distillation(outputs, teacher, torch.ones(6, 2, dtype=torch.bool))
        assert found.item() == pytest.approx(expected.item(), abs=1e-12)

    def test_of_numbers_is_the_cross_entropy_of_gaussians(self) -> None:
        """Gauss-Hermite quadrature of the loss under the teacher's distribution is exact: it is a square."""
        outputs, teacher = (torch.randn(6, 2, dtype=torch.float64, generator=generator_at(0, name)) for name in "ab")
        task = Regression(("y",), location=(3.0,), scale=(2.0,))
        nodes, weights = np.polynomial.hermite_e.hermegauss(4)
        mean, deviation = 3 + 2 * teacher[:, :1], 2 * (teacher[:, 1:] / 2).exp()
        losses = [-task.log_likelihood(outputs, mean + deviation * node).mean().item() for node in nodes]
        expected = float(np.dot(weights, losses) / weights.sum())
        found = task.distillation(outputs, teacher, mean)
        assert found.item() == pytest.approx(expected, abs=1e-10)
        student = teacher.clone().requires_grad_()
        task.distillation(student, teacher, mean).backward()
        assert student.grad is not None and torch.allclose(student.grad, torch.zeros_like(teacher), atol=1e-12)

    def test_without_a_distribution_it_is_the_loss(self) -> None:
        task = OwnTask(lambda outputs, targets: (outputs - targets).abs().mean(1), size=1)
        outputs, targets = torch.zeros(3, 1), torch.ones(3, 1)
        assert task.distillation(outputs, torch.full((3, 1), 9.0), targets) == task.loss(outputs, targets)
