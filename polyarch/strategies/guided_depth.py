"""Joint training of kernels, of the probabilities of dropping their slices, and of a posterior over the depth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Generator, Tensor

from polyarch.data import Batch
from polyarch.distributions import Categorical, DepthAndChannels
from polyarch.errors import InvalidInput
from polyarch.objectives import SpikeSlab, log_marginal
from polyarch.objectives.expectation import categorical_log_likelihood
from polyarch.strategies.posterior_guided import PosteriorGuided
from polyarch.strategies.strategy import Stateful, Tally
from polyarch.supernets import GatedDepthSupernet


class GuidedDepth(PosteriorGuided):
    """Minimises -(1/B) sum_n sum_d q(d) log p(y_n | x_n, d, keep_n) + KL(q(d) || prior) / N + the penalty of channels.

    The sum over depths is exact, from one walk; every example has its own relaxed draw of channels.

    Args:
        q: over depth and channels.
        prior: over the depth.
    """

    net: GatedDepthSupernet

    def __init__(
        self,
        net: GatedDepthSupernet,
        q: DepthAndChannels,
        prior: Categorical,
        optimizer: torch.optim.Optimizer,
        *,
        penalty: SpikeSlab,
        temperature: float = 0.2,
    ) -> None:
        super().__init__(net, q.channels, optimizer, penalty=penalty, temperature=temperature)
        if q.space != net.space or prior.space != q.depth.space:
            raise InvalidInput(
                f"Expected q over {net.space.name!r} and a prior over its depths. "
                f"Got {q.space.name!r} and {prior.space.name!r}."
            )
        self.joint = q
        self.prior = prior

    @property
    def posterior(self) -> DepthAndChannels:
        """Over depth and channels."""
        return self.joint

    def objective(self, inputs: Tensor, targets: Tensor, keep: Tensor) -> Tensor:
        """The expected negative log-likelihood over depths and the divergence of q(d), a scalar."""
        values = categorical_log_likelihood(self.net.forward_slices(inputs, keep), targets)  # (D+1, B)
        expected = (self.joint.depth.log_probabilities().exp().to(values) * values.mean(-1)).sum()
        return self.joint.depth.kl(self.prior).to(expected) / self.penalty.num_data - expected

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Of the mixture over depths, where every example has one hard draw of channels."""
        self.net.eval()
        tally = Tally()
        with torch.no_grad():
            log_q = self.joint.depth.log_probabilities()
            for inputs, targets in batches:
                keep = self.q.sample_slices(len(inputs), generator=generator)
                logits = self.net.forward_slices(inputs, keep)
                tally.add(log_marginal(torch.log_softmax(logits, -1), log_q.to(logits)), targets)
        return tally.means()

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet, q and optimiser."""
        return {"net": self.net, "q": self.joint, "optimizer": self.optimizer}
