"""What the members of a mixture say about validation and test examples, each and together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyarch.objectives import log_marginal
from polyarch.predictive import calibration_error
from polyarch.runs.retraining import outputs
from polyarch.runs.run import Run


@dataclass(frozen=True)
class MemberLogits:
    """The logits (K, N, C) of all members on validation and on test examples, with their targets (N,)."""

    valid: Tensor
    valid_targets: Tensor
    test: Tensor
    targets: Tensor

    @classmethod
    def of(cls, run: Run, networks: Callable[[Tensor], Tensor]) -> MemberLogits:
        """From one pass over the data.

        Args:
            networks: (B, ...) -> (K, B, C), in evaluation mode.
        """
        pairs = (outputs(networks, run.feed.in_order(data)) for data in (run.feed.valid, run.feed.data.test))
        (valid, valid_targets), (test, targets) = pairs
        return cls(valid, valid_targets, test, targets)

    def at(self, members: Sequence[int]) -> MemberLogits:
        """Those of the members at these positions, in this order."""
        rows = list(members)
        return MemberLogits(self.valid[rows], self.valid_targets, self.test[rows], self.targets)

    def measure(self, weights: Tensor) -> dict[str, float]:
        """Of the mixture of the first members with these weights, (k,)."""
        found: dict[str, float] = {}
        sides = (("valid_", self.valid, self.valid_targets), ("", self.test, self.targets))
        for prefix, logits, targets in sides:
            log_probs = log_marginal(torch.log_softmax(logits[: len(weights)], -1), weights.log())
            true = log_probs.gather(1, targets[:, None])
            found |= {
                f"{prefix}accuracy": float((log_probs.argmax(1) == targets).double().mean()),
                f"{prefix}loss": float(-true.mean()),
                f"{prefix}mean_probability": float(true.exp().mean()),
                f"{prefix}calibration_error": calibration_error(log_probs.exp(), targets),
            }
        return found

    def alone(self, member: int) -> dict[str, float]:
        """Of one member."""
        return self.at([member]).measure(torch.ones(1, dtype=self.valid.dtype))
