"""Inputs moved a little, in the direction that hurts most: adversarial examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.predictive.checks import check_labels, check_outputs

Predict = Callable[[Tensor], Tensor]
"""Inputs (B, ...) -> logits or log-probabilities (B, C), differentiable."""


@dataclass(frozen=True)
class PGD:
    """Projected gradient descent within an L-infinity ball around every input.

        x_0 = x,    x_{t+1} = clip(x_t + s sign(grad_x -log p(y | x_t)), [x - r, x + r] and [low, high])

    Inputs are what the range holds for, such as images in 0..1: normalisation belongs into what is attacked. The loss
    of log-probabilities is that of logits, so a mixture is attacked as a whole by passing log sum_k w_k p_k:

        def predict(x):
            logits = mixture.member_outputs(normalise(x)) / mixture.temperature
            return mixed(torch.log_softmax(logits, -1), mixture.weights.log())

    Where the predictor rounds the probability of the label to 1, its gradient is 0 and the input stays.

    Args:
        radius: r, how far a number may be moved.
        steps: how many gradients are followed.
        step_size: s.
        low, high: the range of valid inputs.
    """

    radius: float
    steps: int
    step_size: float
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (self.radius > 0 and self.step_size > 0 and self.steps >= 1):
            raise InvalidInput(
                "Expected a radius and a step size above 0, and 1 or more steps. "
                f"Got {self.radius}, {self.step_size} and {self.steps}."
            )
        if not self.low < self.high:
            raise InvalidInput(f"Expected a range of inputs with low below high. Got {self.low} and {self.high}.")

    @classmethod
    def in_bytes(cls, radius: float, steps: int, step_size: float) -> PGD:
        """For images in 0..1, with radius and step size in units of 1/255: 1-2-1 is ``PGD.in_bytes(1, 2, 1)``."""
        return cls(radius / 255, steps, step_size / 255)

    def __call__(
        self, predict: Predict, inputs: Tensor, labels: Tensor, *, generator: Generator | None = None
    ) -> Tensor:
        """Adversarial examples (B, ...) for inputs of the same shape and labels (B,).

        Args:
            predict: in evaluation mode, so that examples do not depend on each other. Its parameters get no gradient.
            generator: starts every input at a uniformly random place in its ball; without one at the input itself.
        """
        lowest, highest = self._bounds(inputs)
        x = inputs.detach()
        if generator is not None:
            noise = torch.rand(x.shape, dtype=x.dtype, generator=generator).to(x.device)
            x = (x + self.radius * (2 * noise - 1)).clamp(lowest, highest)
        for _ in range(self.steps):
            x = (x + self.step_size * _direction(predict, x, labels)).clamp(lowest, highest)
        return x

    def _bounds(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Where every number may go, the ball cut by the range."""
        if not inputs.is_floating_point():
            raise InvalidInput(f"Expected floats to move. Got {inputs.dtype}.")
        if not ((inputs >= self.low) & (inputs <= self.high)).all():  # written so that NaN is refused, too
            raise InvalidInput(
                f"Expected inputs in {self.low:g}..{self.high:g}. "
                f"Got {inputs.min().item():g}..{inputs.max().item():g}: normalisation belongs into what is attacked."
            )
        centre = inputs.detach()
        return (centre - self.radius).clamp_min(self.low), (centre + self.radius).clamp_max(self.high)


def _direction(predict: Predict, x: Tensor, labels: Tensor) -> Tensor:
    """sign(grad_x sum_n -log p(y_n | x_n)): the sum, so that every example has its own gradient."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        logits = predict(x)
        check_outputs(logits.detach(), "(B, C)")
        loss = F.cross_entropy(logits, check_labels(labels, *logits.shape), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
    if not gradient.isfinite().all():
        raise NotFiniteError("Expected a finite gradient of the inputs. Got NaN or infinity.")
    return gradient.sign()
