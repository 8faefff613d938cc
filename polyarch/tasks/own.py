"""A task of the user's own: a loss per example, and metrics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive import threshold_at
from polyarch.predictive.metrics import Goal, Metric
from polyarch.randomness import generator_at
from polyarch.tasks.task import LOSS, Calibration, Task, member_weights

LossPerExample = Callable[[Tensor, Tensor], Tensor]
"""Outputs (B, O) and targets (B, ...) -> (B,)."""
Measure = Callable[[Tensor, Tensor], float]
"""Outputs (N, O) and targets (N, ...) -> a number."""

TRIED = 64
"""Targets on which a loss is tried."""


@dataclass(frozen=True)
class OwnTask(Task):
    """What a function says is lost on an example; -loss stands for the log-likelihood.

    Several networks predict by the weighted mean of their outputs, and disagree by its standard deviation, which is the
    measure of uncertainty. There is no calibration.

    Args:
        loss_per_example: what training minimises the mean of.
        size: O, how many numbers a network returns per example.
        measures: name -> the function and its goal; the first is what selection goes by. Without any it is the loss.
        names: of the outputs.
        metric: the name of another measure to select by.

    Example:
        >>> def quantile_loss(outputs, targets):
        ...     error = targets - outputs
        ...     return torch.maximum(0.9 * error, -0.1 * error).mean(1)
        >>> task = OwnTask(quantile_loss, size=1)
        >>> task.loss(torch.zeros(2, 1), torch.ones(2, 1)).item()
        0.8999999761581421
    """

    kind: ClassVar[str] = "own"
    readouts: ClassVar[Mapping[str, str]] = {
        "outputs": "(B, outputs): the mean of the members' outputs.",
        "disagreement": "(B,): the standard deviation of the members' outputs, averaged; 0 for one member.",
    }

    loss_per_example: LossPerExample
    size: int
    measures: Mapping[str, tuple[Measure, Goal]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    metric: str = ""

    @property
    def metrics(self) -> Sequence[Metric]:  # type: ignore[override]
        """The user's measures."""
        return [Metric(name, goal) for name, (_, goal) in self.measures.items()] or [LOSS]

    @property
    def outputs(self) -> int:
        """As many as the user says."""
        return self.size

    def check(self, targets: Tensor) -> None:
        """Refuses a loss that does not give a number per example, or ignores the targets."""
        some = targets[:TRIED]
        outputs = torch.randn(len(some), self.size, generator=generator_at(0, "own task"))
        losses = self.loss_per_example(outputs, some)
        if losses.shape != (len(some),):
            raise InvalidInput(f"Expected a loss of shape ({len(some)},), per example. Got {tuple(losses.shape)}.")
        others = targets[torch.randperm(len(targets), generator=generator_at(0, "other targets"))[: len(some)]]
        if bool((some != others).any()) and torch.equal(losses, self.loss_per_example(outputs, others)):
            raise InvalidInput("Expected a loss that depends on its targets. Got the same losses for other targets.")

    def log_likelihood(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """-loss: (..., B, O), (B, ...) -> (..., B)."""
        if outputs.dim() == 2:
            return -self.loss_per_example(outputs, targets)
        members = outputs.flatten(0, -3)
        found = torch.stack([-self.loss_per_example(one, targets) for one in members])
        return found.reshape(outputs.shape[:-1])

    def mix(self, outputs: Tensor, log_weights: Tensor) -> Tensor:
        """sum_k w_k outputs_k."""
        return torch.einsum("k,kbo->bo", log_weights.exp().to(outputs), outputs)

    def mix_members(self, outputs: Tensor) -> Tensor:
        """The mean of the outputs."""
        return outputs.mean(0)

    def tempered(self, outputs: Tensor, temperature: Tensor | float) -> Tensor:
        """The outputs as they are."""
        return outputs

    def read(self, outputs: Tensor, weights: Tensor, conformal: Mapping[str, Any]) -> tuple[Tensor, ...]:
        """The mean of the outputs, and how far members disagree."""
        mean = torch.einsum("k,kbo->bo", weights.to(outputs), outputs)
        variance = torch.einsum("k,kbo->bo", weights.to(outputs), (outputs - mean).square())
        return mean, variance.sqrt().mean(-1)

    def uncertainty(self, read: Sequence[Tensor]) -> Tensor:
        """The disagreement."""
        return read[1]

    def errors(self, read: Sequence[Tensor], targets: Tensor) -> Tensor:
        """The loss, moved so that the smallest is 0."""
        losses = self.loss_per_example(read[0], targets)
        return losses - losses.min()

    def calibrate(self, outputs: Tensor, targets: Tensor, weights: Tensor, *, flag: float) -> Calibration:
        """A threshold of the disagreement."""
        return Calibration(threshold=threshold_at(self.uncertainty(self.read(outputs, weights, {})), flag))

    def measure(
        self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None, *, names: Sequence[str] | None = None
    ) -> dict[str, float]:
        """The mean loss, and the user's measures, of the mean outputs."""
        mixed = self.mix(outputs, member_weights(weights, outputs).log())
        found: dict[str, Callable[[], float]] = {"loss": lambda: float(self.loss(mixed, targets))}
        for name, (measure, _) in self.measures.items():
            found[name] = lambda measure=measure: float(measure(mixed, targets))  # type: ignore[misc]
        return {name: found[name]() for name in names or found}
