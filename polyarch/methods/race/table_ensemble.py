"""Which networks predict a table best together, chosen on validation data that may be few."""

from collections.abc import Sequence

import torch
from torch import Tensor

from polyarch.methods.race.candidates import Candidate
from polyarch.methods.race.rungs import Lane
from polyarch.methods.race.training import CandidateTraining
from polyarch.predictive.greedy_selection import bagged_weights
from polyarch.randomness import generator_at
from polyarch.runs.retraining import outputs
from polyarch.runs.run import Run

MOST_MEMBERS = 8
"""Networks in the ensemble: more would make programs large and slow, and hardly better."""


class MemberLikelihoods:
    """p_k(y_n | x_n) of candidates k on validation examples n, each computed once."""

    def __init__(self, run: Run, task: CandidateTraining) -> None:
        self.run = run
        self.task = task
        self._found: dict[Candidate, Tensor] = {}

    def of(self, lanes: Sequence[Lane]) -> Tensor:
        """log p_k(y_n | x_n): (K, N)."""
        valid = self.run.feed.in_order(self.run.feed.valid)
        for lane in lanes:
            if lane.candidate not in self._found:
                found, targets = outputs(self.task.network(lane.candidate), valid)
                self._found[lane.candidate] = self.run.task.log_likelihood(found, targets)
        return torch.stack([self._found[lane.candidate] for lane in lanes])

    def shares(self, lanes: Sequence[Lane]) -> Tensor:
        """The share of every candidate in the ensemble, (K,); only the largest are kept."""
        found = bagged_weights(self.of(lanes), generator=generator_at(self.run.settings.seed, "ensemble"))
        kept = torch.zeros_like(found)
        largest = found.topk(min(MOST_MEMBERS, len(found))).indices
        kept[largest] = found[largest]
        return kept / kept.sum()

    def loss(self, lanes: Sequence[Lane]) -> float:
        """-(1/N) sum_n log sum_k w_k p_k(y_n | x_n) of the ensemble."""
        log_shares = self.shares(lanes).log()
        return float(-torch.logsumexp(self.of(lanes) + log_shares[:, None], 0).mean())
