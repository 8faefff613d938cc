"""Size limits that already hold while the posterior over networks is learned.

An addition to Zhou, Sun, Luo, Zha and Zeng (2020), "Posterior-Guided Neural Architecture Search", arXiv:1906.09557.
"""

from polyarch.errors import InvalidInput
from polyarch.searchers import Limit, LimitedDraws, Limits
from polyarch.strategies import PosteriorGuided
from polyarch.training.callbacks import Callback, FitState

DESCENT = 0.8
"""The share of the epochs in which the limits come down: later, kernels have learned more; earlier, they adapt longer
to small networks."""


class WithinLimits(Callback):
    """Keeps the posterior of posterior-guided training within limits.

    Without it, draws within a tight limit are networks that never trained. At the start of an epoch, if fewer than a
    tenth of the draws from q are within the limits, q is tilted to q(a) exp(-s cost(a)), of which about half are; see
    `LimitedDraws`. Between these moments q learns as usual.

    The limits descend from the cost of the whole network: after a share r of the descent a limit is
    whole^(1 - r) limit^r, so that q learns on the way which channels are useful. After the descent the drop
    probabilities are frozen: the likelihood would prefer larger networks, but the kernels must learn for the final
    draws. A resume needs only q from the checkpoint; everything else follows from the step.

    Args:
        limits: on parameters and operations, not on latency, which varies between measurements. Limits that the whole
            network meets have no effect.
        descent: the share of the epochs in which the limits come down, from 0 to 1.
    """

    def __init__(self, strategy: PosteriorGuided, limits: Limits, *, seed: int, descent: float = DESCENT) -> None:
        if not 0 <= descent <= 1:
            raise InvalidInput(f"Expected the descent of the limits as a share of the epochs in 0..1. Got {descent}.")
        space = strategy.net.space
        if not limits.allows(space.architecture([choice.options[0] for choice in space.choices])):  # everything dropped
            raise limits.impossible()
        self.strategy = strategy
        self.limits = Limits(strategy.net) if limits.allows(strategy.net.whole()) else limits
        self.seed = seed
        self.descent = descent

    def on_step_start(self, state: FitState) -> None:
        """Tilts q at the first step of an epoch; sets at every step, so also after a resume, whether q learns."""
        if not self.limits.limits:
            return
        self.strategy.q.requires_grad_(state.epoch < max(self.descent, DESCENT) * state.epochs)
        if state.step % state.steps_per_epoch == 0:
            net, q = self.strategy.net, self.strategy.posterior
            limits = Limits(net, [self._at(limit, state) for limit in self.limits.limits])
            draws = LimitedDraws(net, q, limits, seed=self.seed, stream=f"limits of epoch {state.epoch}")
            if draws.strength:
                q.tilt(draws.costs, draws.strength)

    def on_end(self, state: FitState) -> None:
        """Lets q learn again, in case another training continues with it."""
        self.strategy.q.requires_grad_(True)

    def _at(self, limit: Limit, state: FitState) -> Limit:
        """The limit of the current epoch; the descent ends with the limit itself."""
        net, last = self.strategy.net, self.descent * state.epochs
        done = min((state.epoch + 1) / last, 1.0) if last else 1.0
        whole = max(self.limits.measure(limit, net.whole()), limit.at_most)
        return Limit(limit.cost, float(whole ** (1 - done) * limit.at_most**done))
