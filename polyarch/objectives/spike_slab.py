"""The divergence of a keep/drop posterior over kernels from a spike-and-slab prior.

Zhou, Sun, Luo, Zha and Zeng (2020), "Posterior-Guided Neural Architecture Search", arXiv:1906.09557.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from polyarch.distributions import KeepDrop
from polyarch.errors import InvalidInput


@dataclass(frozen=True)
class SpikeSlab:
    """The penalty added to the mean negative log-likelihood of a training example.

    A kernel is m times keep, with m a point and keep ~ Bernoulli(1 - p). The prior keeps everything and has a Gaussian
    slab of length scale d. Up to constants their divergence, divided by the N training examples, is

        sum_g d^2 (1 - p_g) / (2N) ||m_g||^2  -  sum_g (K_g / N) H(p_g),   H(p) = -p log p - (1 - p) log(1 - p)

    over the groups g of K_g input-channel slices. A larger d makes smaller networks: keeping a slice costs d^2 / 2
    times its squared norm. For given kernels the penalty is smallest at log p - log(1 - p) = d^2 ||m_g||^2 / (2 K_g).

    Args:
        num_data: N, the number of training examples.
        length_scale: d.
        weight_decay: a constant in place of d^2 (1 - p) / (2N), an ablation in which only the likelihood ties p to
            the kernels.
    """

    num_data: int
    length_scale: float
    weight_decay: float | None = None

    def __post_init__(self) -> None:
        if self.num_data < 1 or not self.length_scale >= 0 or not (self.weight_decay is None or self.weight_decay >= 0):
            raise InvalidInput(
                "Expected 1 or more training examples, a length scale and a weight decay of 0 or more. "
                f"Got {self.num_data}, {self.length_scale} and {self.weight_decay}."
            )

    def __call__(self, square_norms: Tensor, q: KeepDrop) -> Tensor:
        """The penalty from ||m||^2 of every group, (G,); a scalar differentiable in both."""
        return (self.factors(q) * square_norms).sum() - q.entropy() / self.num_data

    def factors(self, q: KeepDrop) -> Tensor:
        """The factor of ||m||^2 in the penalty for every group, (G,)."""
        if self.weight_decay is not None:
            return torch.full_like(q.drop, self.weight_decay)
        return self.length_scale**2 * (1 - q.drop) / (2 * self.num_data)
