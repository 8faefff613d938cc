"""The contract of tasks."""

import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from polyarch.errors import InvalidInput, UnknownName
from polyarch.randomness import generator_at
from polyarch.tasks import Task

EXAMPLES = 24
MEMBERS = 3


class TaskContract:
    """Inherit, and return a task, targets for it, and targets that are not for it.

    Attributes:
        has_likelihood: whether ``log_likelihood`` is that of a distribution over targets, which mixes and has a
            temperature.
        loss_terms: by how many the negative log-likelihood is divided to give the loss.
    """

    has_likelihood: bool = True
    loss_terms: int = 1

    def make_task(self) -> Task:
        """The task under test; all calls return equal ones."""
        raise NotImplementedError

    def make_targets(self, task: Task, count: int, generator: Generator) -> Tensor:
        """Targets (count, ...), in float64 if they are numbers; not all the same."""
        raise NotImplementedError

    def wrong_targets(self) -> Sequence[Tensor]:
        """Targets that the task refuses."""
        raise NotImplementedError

    def test_outputs_of_many_members_are_read_member_by_member(self) -> None:
        """log_likelihood takes (..., B, O)."""
        task, outputs, targets, _ = self._made()
        found = task.log_likelihood(outputs, targets)
        assert found.shape == (MEMBERS, EXAMPLES)
        for member, expected in zip(outputs, found, strict=True):
            _assert_close(task.log_likelihood(member, targets), expected)
        nested = task.log_likelihood(outputs[None].expand(2, -1, -1, -1), targets)
        _assert_close(nested, found[None].expand(2, -1, -1))

    def test_the_loss_is_the_negative_log_likelihood(self) -> None:
        """Its mean over the batch, with a finite gradient."""
        task, outputs, targets, _ = self._made()
        member = outputs[0].clone().requires_grad_()
        loss = task.loss(member, targets)
        _assert_close(loss, -task.log_likelihood(member, targets).mean() / self.loss_terms)
        loss.backward()
        assert member.grad is not None and member.grad.isfinite().all() and member.grad.abs().sum() > 0

    def test_a_mixture_of_equal_members_is_the_member(self) -> None:
        """Whatever the weights; its members do not disagree."""
        task, outputs, targets, weights = self._made()
        equal = outputs[:1].expand(MEMBERS, -1, -1)
        mixed = task.mix(equal, weights.log())
        _assert_close(task.log_likelihood(mixed, targets), task.log_likelihood(outputs[0], targets))
        alone = task.read(outputs[:1], torch.ones(1, dtype=torch.float64), {})
        for found, expected in zip(task.read(equal, weights, {}), alone, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)

    def test_the_order_of_members_does_not_matter(self) -> None:
        """Neither to mixed outputs nor to what is read or measured."""
        task, outputs, targets, weights = self._made()
        turned, shares = outputs.flip(0), weights.flip(0)
        _assert_close(task.mix(turned, shares.log()), task.mix(outputs, weights.log()))
        for found, expected in zip(task.read(turned, shares, {}), task.read(outputs, weights, {}), strict=True):
            _assert_close(found, expected)
        assert _close(task.measure(turned, targets, shares), task.measure(outputs, targets, weights))

    def test_a_temperature_is_a_power_of_the_likelihood(self) -> None:
        """log p_T(y) - log p_T(z) = (log p(y) - log p(z)) / T for all targets y and z; T = 1 changes nothing."""
        task, outputs, targets, _ = self._made()
        _assert_close(task.tempered(outputs, 1.0), outputs)
        if not self.has_likelihood:
            return
        others = targets.roll(1, 0)
        difference = task.log_likelihood(outputs, targets) - task.log_likelihood(outputs, others)
        assert difference.abs().max() > 0.1
        for temperature in (0.3, 2.5):
            tempered = task.tempered(outputs, torch.tensor(temperature))
            found = task.log_likelihood(tempered, targets) - task.log_likelihood(tempered, others)
            torch.testing.assert_close(found, difference / temperature, rtol=1e-6, atol=1e-6)

    def test_the_loss_of_a_mixture_is_that_of_its_likelihood(self) -> None:
        """-(1/N) sum_n log sum_k w_k p_k(y_n | x_n); equal weights by default."""
        task, outputs, targets, weights = self._made()
        if not self.has_likelihood:
            return
        likelihoods = task.log_likelihood(outputs, targets).exp()
        for shares in (weights, None):
            used = torch.full_like(weights, 1 / MEMBERS) if shares is None else shares
            expected = -torch.einsum("k,kn->n", used, likelihoods).log().mean()
            assert abs(task.measure(outputs, targets, shares)["loss"] - float(expected)) < 1e-9

    def test_what_is_measured(self) -> None:
        """The loss and every metric by name, or those that are asked for; selection goes by one of them."""
        task, outputs, targets, weights = self._made()
        every = task.measure(outputs, targets, weights)
        assert set(every) == {"loss", *(metric.name for metric in task.metrics)}
        assert all(type(value) is float and abs(value) < float("inf") for value in every.values())
        for name, value in every.items():
            assert task.measure(outputs, targets, weights, names=[name]) == {name: value}
            assert task.by_metric(name).selection.name == name
        assert set(task.scores(outputs, targets, weights)) == {"loss", task.selection.name}
        assert task.selection in task.metrics
        try:
            task.by_metric("no such metric")
        except UnknownName:
            return
        raise AssertionError("Expected an unknown metric to be refused.")

    def test_what_is_read(self) -> None:
        """Readouts have the documented shapes; uncertainty and errors are a number of 0 or more per example."""
        task, outputs, targets, weights = self._made()
        read = task.read(outputs, weights, {})
        width = len(task.names) or task.outputs
        for value, text in zip(read, task.readouts.values(), strict=True):
            assert value.shape == ((EXAMPLES,) if text.startswith("(B,)") else (EXAMPLES, width))
            assert value.isfinite().all()
        for found in (task.uncertainty(read), task.errors(read, targets)):
            assert found.shape == (EXAMPLES,) and found.min() >= 0

    def test_calibration_does_not_lower_the_likelihood(self) -> None:
        """Of the data that it was fitted to; it flags no more of them than it was asked to."""
        task, outputs, targets, weights = self._made()
        for scale in (1.0, 4.0):
            calibration = task.calibrate(scale * outputs, targets, weights, flag=0.25)
            tempered = task.tempered(scale * outputs, calibration.temperature)
            before = task.measure(scale * outputs, targets, weights)["loss"]
            assert task.measure(tempered, targets, weights)["loss"] <= before + 1e-9
            uncertainty = task.uncertainty(task.read(tempered, weights, calibration.conformal))
            assert (uncertainty > calibration.threshold + 1e-9).double().mean() <= 0.25

    def test_reading_can_be_exported(self) -> None:
        """For any batch size, with the values of a calibration."""
        task, outputs, targets, weights = self._made(torch.float32)
        calibration = task.calibrate(outputs, targets, weights, flag=0.1)
        module = _Reading(task, weights, calibration.temperature, calibration.conformal)
        shapes = ({1: torch.export.Dim("batch")},)
        example = outputs[:, :5].contiguous()
        program = torch.export.export(module, (example,), dynamic_shapes=shapes, strict=False).module()
        for count in (1, 7, EXAMPLES):
            for found, expected in zip(program(outputs[:, :count]), module(outputs[:, :count]), strict=True):
                torch.testing.assert_close(found, expected)

    def test_wrong_targets_are_refused(self) -> None:
        """In one sentence; its own are not."""
        task, _, targets, _ = self._made()
        task.check(targets)
        for wrong in self.wrong_targets():
            try:
                task.check(wrong)
            except InvalidInput as error:
                assert "\n" not in str(error)
            else:
                raise AssertionError(f"Expected targets {wrong.dtype}, {tuple(wrong.shape)} to be refused.")

    def test_it_is_a_value(self) -> None:
        """Equal tasks are equal, also after pickling, which takes them to worker processes."""
        task = self.make_task()
        assert task == self.make_task() == pickle.loads(pickle.dumps(task))
        assert task.smoothed(0.0) == task

    def _made(self, dtype: torch.dtype = torch.float64) -> tuple[Task, Tensor, Tensor, Tensor]:
        """The task, outputs (K, N, O), targets (N, ...) and weights (K,)."""
        task, generator = self.make_task(), generator_at(0, "contract")
        outputs = torch.randn(MEMBERS, EXAMPLES, task.outputs, generator=generator, dtype=torch.float64)
        targets = self.make_targets(task, EXAMPLES, generator)
        weights = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
        numbers = targets.to(dtype) if targets.is_floating_point() else targets
        return task, outputs.to(dtype), numbers, weights.to(dtype)


class _Reading(nn.Module):
    """What an exported program ends with."""

    def __init__(self, task: Task, weights: Tensor, temperature: float, conformal: Any) -> None:
        super().__init__()
        self.read = task.reading(conformal)
        self.register_buffer("weights", weights)
        self.register_buffer("temperature", torch.tensor(temperature, dtype=weights.dtype))

    def forward(self, outputs: Tensor) -> tuple[Tensor, ...]:
        return self.read(outputs, self.get_buffer("weights"), self.get_buffer("temperature"))


def _assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def _close(first: dict[str, float], second: dict[str, float]) -> bool:
    """Whether the same names have nearly the same values."""
    return first.keys() == second.keys() and all(abs(first[name] - second[name]) < 1e-9 for name in first)
