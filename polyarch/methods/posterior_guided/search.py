"""Posterior-guided search: learn kernels and drop probabilities together, draw networks, keep the best.

Minimises, per training example, the negative log-likelihood of a network drawn from q plus the divergence of q from a
spike-and-slab prior (`polyarch.objectives.SpikeSlab`). Networks are then drawn from q and judged with the weights that
they come with: nothing has to be trained again. Zhou et al. (2020), "Posterior-Guided Neural Architecture Search",
AAAI, arXiv:1906.09557.
"""

from dataclasses import dataclass
from typing import Any

import torch

from polyarch.distributions import ArchDistribution, Categorical, DepthAndChannels, KeepDrop, geometric_prior
from polyarch.objectives import SpikeSlab
from polyarch.strategies import GuidedDepth, PosteriorGuided
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import GatedDepthSupernet, GatedSupernet
from polyarch.tasks import Task

DEFAULT_LENGTH_SCALE = round(50**0.5, 2)
"""d of the paper for its plain network, the multi-branch ResNet M."""
PRIOR_EXAMPLES = 500_000
"""N of the paper's prior on CIFAR, ten times the number of images: a posterior colder than that of Bayes' rule."""

Q_RATE_FACTOR = 25.0
"""How much faster q learns than the kernels: trainings of some thousand steps are short for it."""


@dataclass(frozen=True)
class PosteriorSearch:
    """How kernels and drop probabilities are learned together by SGD.

    Args:
        length_scale: d of the prior; a larger one makes smaller networks.
        prior_examples: N of the penalty; the number of training examples by default, as in Bayes' rule.
        drop: the drop probability of all groups at the start.
        temperature: of the relaxed draws.
        constant_decay: a constant in place of d^2 (1 - p) / (2N), the ablation of the paper.
        learned: whether drop probabilities are learned; otherwise they stay at ``drop``, the random baseline.
        q_rate_factor: by which the learning rate of q differs from that of the kernels.
        weight_decay: of what has no gate; the prior is the decay of gated kernels.
        depth_ratio: of the geometric prior over depths, where the depth is a choice, too.
    """

    length_scale: float = DEFAULT_LENGTH_SCALE
    prior_examples: int | None = None
    drop: float = 0.1
    temperature: float = 0.2
    constant_decay: float | None = None
    learned: bool = True
    learning_rate: float = 0.05
    q_rate_factor: float = Q_RATE_FACTOR
    momentum: float = 0.9
    weight_decay: float = 5e-4
    depth_ratio: float = 0.85

    def strategy(self, net: GatedSupernet, *, num_data: int, task: Task = CLASSES) -> PosteriorGuided:
        """The strategy with a fresh q, for ``num_data`` training examples.

        Where the depth is a choice, too, q has a posterior over depths and the loss is the negative log-likelihood.
        """
        device = next(net.parameters()).device
        q = KeepDrop(net.slice_space, net.groups, drop=self.drop, learnable=self.learned).to(device)
        penalty = SpikeSlab(self.prior_examples or num_data, self.length_scale, weight_decay=self.constant_decay)
        settings: dict[str, Any] = {"penalty": penalty, "temperature": self.temperature, "task": task}
        if isinstance(net, GatedDepthSupernet):
            depth = Categorical(net.depths.space).to(device)
            joint = DepthAndChannels(net.space, depth, q)
            prior = geometric_prior(net.depths.space, self.depth_ratio).to(device)
            optimizer = self.optimizer(net, joint)
            return GuidedDepth(net, joint, prior, optimizer, num_data=num_data, **settings)
        return PosteriorGuided(net, q, self.optimizer(net, q), **settings)

    def optimizer(self, net: GatedSupernet, q: ArchDistribution) -> torch.optim.SGD:
        """SGD with Nesterov's momentum over gated kernels, everything else, and q."""
        kernels = net.gated_kernels()
        gated = set(kernels)
        rest = [parameter for parameter in net.parameters() if parameter not in gated]
        groups: list[dict[str, Any]] = [
            {"params": kernels},
            {"params": rest, "weight_decay": self.weight_decay},
            {
                "params": list(q.parameters()),
                "lr": self.learning_rate * self.q_rate_factor,
                "rate_factor": self.q_rate_factor,  # for a schedule, which sets all rates
            },
        ]
        return torch.optim.SGD(
            [group for group in groups if group["params"]],
            lr=self.learning_rate,
            momentum=self.momentum,
            nesterov=self.momentum > 0,
            foreach=True,
        )
