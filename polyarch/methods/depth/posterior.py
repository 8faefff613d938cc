"""The posterior over depths after training: as it was learned, and exactly for the final weights."""

from dataclasses import dataclass

import torch

from polyarch.distributions import Categorical
from polyarch.methods.depth.search import depth_prior, exact_posterior
from polyarch.methods.depth.settings import DepthSettings
from polyarch.results import TrainingRecord
from polyarch.runs.run import Run

LEAST = torch.finfo(torch.float32).tiny
"""Probabilities that were written down as 0 were smaller than this."""


@dataclass(frozen=True)
class DepthPosterior:
    """Prior, learned q and exact posterior over the depths of one network, all in float64."""

    prior: Categorical
    learned: Categorical
    exact: Categorical

    @classmethod
    def of(cls, run: Run, training: TrainingRecord) -> "DepthPosterior":
        """Of a trained network, from one pass over its training examples."""
        space, settings = run.net.space, run.settings.section(DepthSettings)
        prior = depth_prior(space, settings.prior, run.settings.train.prior_ratio).double()
        (probabilities,) = (training.q or {}).values()
        logits = torch.tensor(probabilities, dtype=torch.float64).clamp_min(LEAST).log()
        train = run.feed.for_statistics(run.feed.train)
        exact = exact_posterior(run.net, prior.to(run.settings.device), train, run.task)
        return cls(prior.cpu(), Categorical(space, logits, learnable=False), exact.cpu())

    @property
    def divergence(self) -> float:
        """KL(learned || exact) in nats: how far training was from the optimum of q when it stopped."""
        return max(0.0, float(self.learned.kl(self.exact)))
