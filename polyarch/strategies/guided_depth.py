"""Joint training of kernels, the probabilities of dropping their slices, and a posterior over the depth.

Combines posterior-guided search over channels (Zhou et al. 2020, arXiv:1906.09557) with variational depth search
(Antorán et al. 2020, arXiv:2002.02797).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Generator, Tensor

from polyarch.data import Batch
from polyarch.distributions import Categorical, DepthAndChannels
from polyarch.errors import InvalidInput
from polyarch.objectives import SpikeSlab, categorical_log_likelihood, log_marginal
from polyarch.strategies.posterior_guided import PosteriorGuided
from polyarch.strategies.strategy import measure
from polyarch.supernets import GatedDepthSupernet


class GuidedDepth(PosteriorGuided):
    """Minimises -(1/B) sum_n sum_d q(d) log p(y_n | x_n, d, keep_n) + KL(q(d) || prior) / N + penalty of channels.

    The sum over depths is exact, from one pass; every example has its own relaxed draw of channels.

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
        """The learned distribution over depth and channels."""
        return self.joint

    def objective(self, inputs: Tensor, targets: Tensor, keep: Tensor) -> Tensor:
        """The negative log-likelihood expected over depths, plus the divergence of q(d), a scalar."""
        values = categorical_log_likelihood(self.net.forward_slices(inputs, keep), targets)  # (D+1, B)
        expected = (self.joint.depth.log_probabilities().exp().to(values) * values.mean(-1)).sum()
        return self.joint.depth.kl(self.prior).to(expected) / self.penalty.num_data - expected

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Loss and accuracy of predictions averaged over depths, with one hard draw of channels per example."""
        self.net.eval()
        log_q = self.joint.depth.log_probabilities().detach()

        def predict(inputs: Tensor) -> Tensor:
            logits = self.drawn_logits(inputs, generator)  # (D+1, B, C)
            return log_marginal(torch.log_softmax(logits, -1), log_q.to(logits))

        return measure(predict, batches)
