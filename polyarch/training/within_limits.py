"""Limits on the size of networks that hold while a posterior over them is learned."""

from __future__ import annotations

from polyarch.errors import InvalidInput
from polyarch.searchers import Limit, LimitedDraws, Limits
from polyarch.strategies import PosteriorGuided
from polyarch.training.callbacks import Callback, Run

DESCENT = 0.8
"""The share of a training in which limits come down. Where it is larger, kernels have learned more,
where it is smaller they have learned it for small networks."""


class WithinLimits(Callback):
    """Keeps the posterior of posterior-guided training within limits.

    Where a posterior is learned without them, draws that keep a tight limit are networks that were never trained. Here,
    at the start of an epoch, q moves to the nearest distribution of which half of the draws keep the limits,
    q(a) exp(-s cost(a)), if fewer than a tenth of its own do; see `LimitedDraws`. In between it moves as it learns.

    Limits come down from the cost of the whole network to what they are: after a share r of their descent a limit is
    whole^(1 - r) limit^r. Which channels are of use is learned on the way. When they are down, the drop probabilities
    stay: the likelihood would have larger networks, and kernels are to learn for those that are drawn in the end. A
    resume needs nothing: q is in the checkpoint, and everything else follows from the position.

    Args:
        limits: on what can be counted; what is timed differs from time to time. Those that the whole network keeps
            change nothing.
        descent: the share of the epochs in which limits come down, from 0 to 1.
    """

    def __init__(self, strategy: PosteriorGuided, limits: Limits, *, seed: int, descent: float = DESCENT) -> None:
        if not 0 <= descent <= 1:
            raise InvalidInput(f"Expected limits to come down in a share of the epochs in 0..1. Got {descent}.")
        space = strategy.net.space
        if not limits.allows(space.architecture([choice.options[0] for choice in space.choices])):  # all is dropped
            raise limits.impossible()
        self.strategy = strategy
        self.limits = Limits(strategy.net) if limits.allows(strategy.net.whole()) else limits
        self.seed = seed
        self.descent = descent

    def on_step_start(self, run: Run) -> None:
        """At the first step of an epoch q moves; at every step, as after a resume, it learns or not."""
        if not self.limits.limits:
            return
        self.strategy.q.requires_grad_(run.epoch < max(self.descent, DESCENT) * run.epochs)
        if run.step % run.steps_per_epoch == 0:
            net, q = self.strategy.net, self.strategy.posterior
            limits = Limits(net, [self._at(limit, run) for limit in self.limits.limits])
            draws = LimitedDraws(net, q, limits, seed=self.seed, stream=f"limits of epoch {run.epoch}")
            if draws.strength:
                q.tilt(draws.costs, draws.strength)

    def on_end(self, run: Run) -> None:
        """Another training may go on with q."""
        self.strategy.q.requires_grad_(True)

    def _at(self, limit: Limit, run: Run) -> Limit:
        """The limit of the epoch that begins; the last of the descent has it as it is."""
        net, last = self.strategy.net, self.descent * run.epochs
        done = min((run.epoch + 1) / last, 1.0) if last else 1.0
        whole = max(self.limits.measure(limit, net.whole()), limit.at_most)
        return Limit(limit.cost, float(whole ** (1 - done) * limit.at_most**done))
