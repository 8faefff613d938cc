"""Every task keeps the contract."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from polyarch.tasks import Classification, MultiLabel, OwnTask, Regression, Task
from polyarch.testing import TaskContract


def classes(task: Task, count: int, generator: Generator) -> Tensor:
    return torch.randint(len(task.names), (count,), generator=generator)


class TestClassification(TaskContract):
    def make_task(self) -> Task:
        return Classification(("a", "b", "c", "d"))

    def make_targets(self, task: Task, count: int, generator: Generator) -> Tensor:
        return classes(task, count, generator)

    def wrong_targets(self) -> Sequence[Tensor]:
        return [
            torch.rand(5),
            torch.rand(5, 1),
            torch.zeros(5, 4, dtype=torch.int64),
            torch.zeros(5, dtype=torch.int32),
        ]


class TestTwoClasses(TestClassification):
    """By another metric, with sets of another kind."""

    def make_task(self) -> Task:
        return Classification(("no", "yes"), metric="balanced_accuracy", sets="aps", coverage=0.8)


class TestRegression(TaskContract):
    def make_task(self) -> Task:
        return Regression(("price",), (1e5,), (2e4,), coverage=0.8)

    def make_targets(self, task: Task, count: int, generator: Generator) -> Tensor:
        assert isinstance(task, Regression)
        location, scale = (torch.tensor(values, dtype=torch.float64) for values in (task.location, task.scale))
        return location + scale * torch.randn(count, len(scale), generator=generator, dtype=torch.float64)

    def wrong_targets(self) -> Sequence[Tensor]:
        width = len(self.make_task().names)
        gap = torch.zeros(5, width)
        gap[3] = torch.nan
        return [torch.rand(5), torch.rand(5, width + 1), torch.zeros(5, width, dtype=torch.int64), gap]


class TestThreeNumbers(TestRegression):
    def make_task(self) -> Task:
        return Regression(("a", "b", "c"), (0.0, -3.0, 1e3), (1.0, 0.01, 50.0), intervals="quantile")


class TestMultiLabel(TaskContract):
    loss_terms = 3

    def make_task(self) -> Task:
        return MultiLabel(("hot", "wet", "loud"))

    def make_targets(self, task: Task, count: int, generator: Generator) -> Tensor:
        return torch.rand(count, 3, generator=generator) < 0.4

    def wrong_targets(self) -> Sequence[Tensor]:
        return [torch.rand(5, 3), torch.rand(5, 2) > 0.5, torch.rand(5) > 0.5, torch.zeros(5, dtype=torch.int64)]


def quantile_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    error = targets - outputs
    return torch.maximum(0.9 * error, -0.1 * error).mean(1)


def distance(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs - targets).abs().mean())


class TestOwnTask(TaskContract):
    has_likelihood = False

    def make_task(self) -> Task:
        return OwnTask(quantile_loss, size=2, measures={"distance": (distance, "minimise")}, names=("low", "high"))

    def make_targets(self, task: Task, count: int, generator: Generator) -> Tensor:
        return torch.randn(count, 2, generator=generator, dtype=torch.float64)

    def wrong_targets(self) -> Sequence[Tensor]:
        """Targets for which the loss is no number per example are found by trying; the loss may refuse others."""
        return []
