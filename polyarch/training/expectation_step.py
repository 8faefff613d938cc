"""The E step of expectation maximisation over architectures."""

from __future__ import annotations

import torch

from polyarch.data import BatchSource
from polyarch.distributions import ArchDistribution, Categorical
from polyarch.errors import InvalidInput
from polyarch.objectives import categorical_log_likelihood, log_posterior
from polyarch.randomness import global_seed
from polyarch.supernets import Supernet
from polyarch.training.callbacks import Callback, Run


class ExpectationStep(Callback):
    """Sets q to its optimum for the weights as they are, at the start of every epoch from one on.

    q(a) = softmax_a( sum_n log p(y_n | x_n, a) + log prior(a) ), over the whole training set, with the batch statistics
    that training uses; the running averages stay as they are. The M step is the epoch of weight updates that follows.

    Before that q is the prior. The posterior of weights that have not learned anything excludes whatever is a little
    worse than the rest, and what q excludes does not learn: with E steps from the start the first choice is the last.

    Args:
        q: a distribution that no optimiser moves.
        train: all training examples, in order and not augmented.
        after: the share of the epochs before the first E step, from 0 to 1.
    """

    def __init__(
        self, net: Supernet, q: Categorical, prior: ArchDistribution, train: BatchSource, *, after: float
    ) -> None:
        if not 0 <= after <= 1:
            raise InvalidInput(f"Expected the first E step after a share of the epochs in 0..1. Got {after}.")
        self.net = net
        self.q = q
        self.prior = prior
        self.train = train
        self.after = after

    def on_step_start(self, run: Run) -> None:
        """At the first step of an epoch."""
        if run.step == 0:
            with torch.no_grad():
                self.q.logits.copy_(self.prior.log_prob(self.q.architectures))
        if run.step % run.steps_per_epoch == 0 and run.epoch >= self.after * run.epochs:
            with global_seed(run.step, "expectation step"):  # for layers that draw, e.g. dropout
                self.apply()

    @torch.no_grad()
    def apply(self) -> None:
        """One E step."""
        self.net.train()
        before = {name: buffer.clone() for name, buffer in self.net.named_buffers()}
        architectures = self.q.architectures
        totals = torch.zeros(len(architectures), dtype=torch.float64, device=self.q.logits.device)
        for inputs, targets in self.train.epoch(0):
            values = categorical_log_likelihood(self.net.forward_many(inputs, architectures), targets)  # (A, B)
            totals += values.double().sum(-1)
        for name, buffer in self.net.named_buffers():
            buffer.copy_(before[name])
        self.q.logits.copy_(log_posterior(totals, self.prior.log_prob(architectures).to(totals)))
