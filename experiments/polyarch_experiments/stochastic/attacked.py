"""Whether a predictor under attack still gets it right, and whether it notices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from polyarch.errors import InvalidInput
from polyarch.objectives import log_marginal
from polyarch.predictive.checks import check_outputs, normalised_weights
from polyarch.predictive.uncertainty import Detection, detect, log_probabilities, uncertainty_scores
from polyarch_experiments.stochastic.attacks import PGD

Members = Callable[[Tensor], Tensor]
"""Inputs (B, ...) -> logits or log-probabilities (K, B, C) of every member, differentiable."""


@dataclass(frozen=True)
class Attacked:
    """A mixture on attacked inputs, and how well scores tell these from the inputs as they were.

    Args:
        accuracy: on attacked inputs.
        entropy: detection by the entropy of the mixture.
        mutual_information: by what the members disagree about; ``None`` for one member, which has nobody to disagree.
        max_probability: by 1 - max probability.
    """

    accuracy: float
    entropy: Detection
    mutual_information: Detection | None
    max_probability: Detection


def under_attack(
    members: Members,
    attack: PGD,
    inputs: Tensor,
    labels: Tensor,
    weights: Tensor | Sequence[float] | None = None,
    *,
    batch_size: int = 256,
    generator: Generator | None = None,
) -> Attacked:
    """Moves every input against log sum_k w_k p_k(y | x), the mixture as a whole, and compares before and after.

    For a `Mixture` pass its weights, and as members

        lambda x: mixture.member_outputs(normalise(x)) / mixture.temperature

    Args:
        members: in evaluation mode, for inputs in the range of the attack: normalisation belongs inside.
        inputs: (N, ...), as they are.
        labels: (N,).
        weights: (K,) of 0 or more, normalised here; equal by default.
        batch_size: inputs that are attacked at a time.
        generator: gives attacks a random start; without one they start at the input.
    """
    if not 0 < len(inputs) == len(labels):
        raise InvalidInput(f"Expected one or more inputs, each with a label. Got {len(inputs)} and {len(labels)}.")
    if batch_size < 1:
        raise InvalidInput(f"Expected a batch size of 1 or more. Got {batch_size}.")

    def predict(x: Tensor) -> Tensor:
        outputs = members(x)
        check_outputs(outputs.detach(), "(K, B, C)")
        return log_marginal(log_probabilities(outputs, 1.0), normalised_weights(weights, len(outputs)).log())

    right = 0
    known: list[dict[str, Tensor]] = []
    foreign: list[dict[str, Tensor]] = []
    for x, y in zip(inputs.split(batch_size), labels.split(batch_size), strict=True):
        moved = attack(predict, x, y, generator=generator)
        with torch.no_grad():
            before, after = (torch.softmax(members(part).double(), -1) for part in (x, moved))
        known.append(uncertainty_scores(before, weights))
        foreign.append(uncertainty_scores(after, weights))
        shares = normalised_weights(weights, len(after)).to(after)
        right += int((torch.einsum("k,kbc->bc", shares, after).argmax(-1) == y).sum())
    found = {
        name: detect(*(torch.cat([part[name] for part in side]) for side in (known, foreign))) for name in known[0]
    }
    return Attacked(
        accuracy=right / len(labels),
        entropy=found["entropy"],
        mutual_information=found.get("mutual_information"),
        max_probability=found["max_probability"],
    )
