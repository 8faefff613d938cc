"""Mixtures over the exits of one network that stop early: an example exits once the exits so far are confident.

p_d = sum_{i<=d} w_i p_i / sum_{i<=d} w_i is the mixture of the exits so far, with p_i = softmax(logits_i / T). An
example exits where max_c p_d >= confidence for the first time, or at the last exit, where p_d is the full mixture.
Exits by confidence: Teerapittayanon, McDanel and Kung (2016), "BranchyNet: Fast Inference via Early Exiting from Deep
Neural Networks", arXiv:1709.01686.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import Exits
from polyarch.predictive.calibration import negative_log_likelihood
from polyarch.predictive.checks import check_labels, check_outputs, check_temperature, normalised_weights
from polyarch.predictive.classification_metrics import accuracy
from polyarch.predictive.uncertainty import entropy_of_logs, log_probabilities

LEAST_MASS = 0.01
"""No example exits until the exits so far hold this share of the mixture weight.

The confidence of an exit that q all but excludes means nothing, because it was hardly trained.
"""

TOLERANCE = 0.01
"""Nats of log-likelihood per example that early exit may cost."""


class ExitOutput(NamedTuple):
    """The predictions for B examples, each from the mixture of the exits up to the one it used."""

    probabilities: Tensor  # (B, C)
    entropy: Tensor  # (B,) in nats
    mutual_information: Tensor  # (B,) in nats, how much those exits disagree
    positions: Tensor  # (B,) the exit used, 0..K-1


class EarlyExit(nn.Module):
    """Predicts with as many exits as an example needs and skips later stages for examples that have exited.

    Args:
        exits: the network, in evaluation mode, because batch statistics would depend on which examples remain.
        weights: (K,) of 0 or more, normalised here.
        confidence: the top-class probability at which an example exits; above 1 no example exits early.
        temperature: T, which divides the logits of every exit.
    """

    mass: Tensor
    log_old: Tensor
    log_new: Tensor

    def __init__(
        self, exits: Exits, weights: Tensor | Sequence[float], confidence: float, temperature: float = 1.0
    ) -> None:
        super().__init__()
        check_temperature(temperature)
        if not confidence > 0:  # written so that NaN is refused as well
            raise InvalidInput(f"Expected a confidence above 0. Got {confidence}.")
        self.exits = exits
        self.confidence = confidence
        self.temperature = temperature
        shares = normalised_weights(weights, len(exits.heads))
        mass = shares.cumsum(0)
        before = torch.cat([mass.new_zeros(1), mass[:-1]])
        self.register_buffer("mass", mass)
        # The weights of the mixture so far and of the new exit; without any weight so far, the new exit counts alone.
        self.register_buffer("log_old", (before / mass).nan_to_num(0.0).log())
        self.register_buffer("log_new", (shares / mass).nan_to_num(1.0).log())

    def forward(self, x: Tensor) -> ExitOutput:
        """(B, ...) -> the predictions for every example, in the order of the batch."""
        rows = torch.arange(len(x), device=x.device)
        log_mixture, expected = torch.zeros(()), torch.zeros(())  # log p_d, (B, C), and sum_i w_i H[p_i] / mass, (B,)
        order, outputs = [], []
        for position, (stage, head) in enumerate(zip(self.exits.stages, self.exits.heads, strict=True)):
            x = stage(x)
            log_member = log_probabilities(head(x), self.temperature)
            log_old, log_new = self.log_old[position].to(log_member), self.log_new[position].to(log_member)
            log_mixture = torch.logaddexp(log_old + log_mixture, log_new + log_member)
            expected = log_old.exp() * expected + log_new.exp() * entropy_of_logs(log_member)
            exiting = self._exiting(log_mixture, position)
            if exiting.any() or not len(rows):
                gone, stay = exiting.nonzero().flatten(), (~exiting).nonzero().flatten()
                log_final = log_mixture[gone]
                entropy = entropy_of_logs(log_final)
                information = (entropy - expected[gone]).clamp_min(0)
                outputs.append((log_final.exp(), entropy, information, torch.full_like(gone, position)))
                order.append(rows[gone])
                x, log_mixture, expected, rows = (
                    part.index_select(0, stay) for part in (x, log_mixture, expected, rows)
                )
            if not len(rows):
                break
        back = torch.cat(order).argsort()
        return ExitOutput(*(torch.cat(parts)[back] for parts in zip(*outputs, strict=True)))

    def _exiting(self, log_mixture: Tensor, position: int) -> Tensor:
        """Which examples use this exit, (B,) bool."""
        top = log_mixture.exp().amax(-1)
        if position == len(self.exits.heads) - 1:
            return torch.ones_like(top, dtype=torch.bool)
        return (top >= self.confidence) & (self.mass[position] >= LEAST_MASS)


@dataclass(frozen=True)
class ExitMeasure:
    """The cost and quality of early exit at one confidence."""

    confidence: float
    mean_depth: float  # of the exits used
    accuracy: float
    negative_log_likelihood: float  # in nats per example


def exit_curve(
    logits: Tensor,
    labels: Tensor,
    weights: Tensor | Sequence[float],
    depths: Sequence[int],
    confidences: Sequence[float],
    temperature: float = 1.0,
) -> list[ExitMeasure]:
    """The measures of `EarlyExit` at every confidence, from stored logits alone.

    Args:
        logits: (K, N, C) of every exit, before any temperature.
        labels: (N,).
        depths: of the K exits.
        confidences: infinity gives the full mixture.
    """
    check_outputs(logits, "(K, N, C)")
    count, examples, classes = logits.shape
    y = check_labels(labels, examples, classes)
    if len(depths) != count:
        raise InvalidInput(f"Expected one depth per exit, ({count},). Got {len(depths)}.")
    # Stored logits act as exits without computation between them; an example is represented by its number.
    exits = Exits([nn.Identity()] * count, [_Stored(values) for values in logits.detach()])
    depth = torch.tensor(depths, dtype=torch.float64)
    found = []
    for confidence in confidences:
        output = EarlyExit(exits, weights, confidence, temperature)(torch.arange(examples, device=logits.device))
        found.append(
            ExitMeasure(
                confidence,
                mean_depth=float(depth[output.positions.cpu()].mean()),
                accuracy=accuracy(output.probabilities, y),
                negative_log_likelihood=negative_log_likelihood(output.probabilities, y),
            )
        )
    return found


def choose_confidence(curve: Sequence[ExitMeasure], full: ExitMeasure) -> float | None:
    """The lowest confidence, hence the largest saving, at which nothing is lost; None if every confidence loses.

    Nothing is lost if the accuracy is at least that of the full mixture and the negative log-likelihood at most
    `TOLERANCE` above it: on a few easy examples, accuracy alone would let all of them use the first exit. Take the
    curve on validation examples.

    Args:
        full: the full mixture on the same examples, the point of `exit_curve` at infinity.
    """
    enough = (
        point.confidence
        for point in curve
        if point.accuracy >= full.accuracy and point.negative_log_likelihood <= full.negative_log_likelihood + TOLERANCE
    )
    return min(enough, default=None)


class _Stored(nn.Module):
    """The stored logits of one exit, by the numbers of examples: (B,) -> (B, C)."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.register_buffer("logits", logits)

    def forward(self, rows: Tensor) -> Tensor:
        return self.get_buffer("logits")[rows]
