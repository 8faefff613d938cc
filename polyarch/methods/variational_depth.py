"""Variational depth search: learn q(depth) with the weights, choose a depth, prune.

Maximises (N/B) sum_n sum_d q(d) log p(y_n | x_n, d) - KL(q || prior), prior(d) proportional to ratio^(1+d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from polyarch.data import BatchSource
from polyarch.distributions import Categorical, Empirical, geometric_prior
from polyarch.strategies import Variational
from polyarch.supernets import DepthSupernet
from polyarch.training import EarlyStopping, History, fit

Rule = Literal["argmax", "95%", "expected"]


@dataclass(frozen=True)
class DepthSearch:
    """The protocol of the document for spirals and tables.

    Args:
        max_iterations: epochs at most; with full batches an epoch is an iteration.
        patience: epochs without a better bound before training stops; the best state is kept.
        prior_ratio: gamma of the prior.
    """

    max_iterations: int = 5000
    patience: int = 500
    learning_rate: float = 0.1
    momentum: float = 0.5
    prior_ratio: float = 0.85

    def fit(self, net: DepthSupernet, train: BatchSource, *, seed: int) -> tuple[Categorical, History]:
        """Trains the weights of ``net`` in place and returns the learned q with what was measured."""
        q = Categorical(net.space).to(next(net.parameters()).device)
        prior = geometric_prior(net.space, self.prior_ratio).to(q.logits.device)
        optimizer = torch.optim.SGD([*net.parameters(), *q.parameters()], lr=self.learning_rate, momentum=self.momentum)
        strategy = Variational(net, q, prior, optimizer, num_data=train.num_examples)
        stopping = EarlyStopping("elbo", maximise=True, patience=self.patience)
        history = fit(strategy, train, epochs=self.max_iterations, seed=seed, callbacks=[stopping])
        return q, history


def choose_depth(q: Categorical, rule: Rule = "argmax") -> int:
    """The depth to keep.

    ``argmax``: the most probable (small data). ``95%``: the smallest with at least 0.95 times the highest
    probability (medium and large data). ``expected``: the mean, rounded.
    """
    probabilities = q.log_probabilities().detach().exp()
    match rule:
        case "argmax":
            return int(probabilities.argmax())
        case "95%":
            return int((probabilities >= 0.95 * probabilities.max()).nonzero()[0])
        case "expected":
            depths = torch.arange(len(probabilities)).to(probabilities)
            return round(float((probabilities * depths).sum()))


def prune(q: Categorical, depth: int) -> Empirical:
    """q over the depths 0..depth, with the mass of deeper ones moved onto ``depth``."""
    probabilities = q.log_probabilities().detach().exp().tolist()
    weights = [*probabilities[:depth], sum(probabilities[depth:])]
    return Empirical(q.space, q.architectures[: depth + 1], weights)
