"""Independent keep/drop choices that share drop probabilities by group.

The posterior of Zhou et al. (2020), "Posterior-Guided Neural Architecture Search", arXiv:1906.09557, relaxed as in Gal,
Hron & Kendall (2017), "Concrete Dropout", arXiv:1705.07832. Tilting: Csiszar (1975), "I-Divergence Geometry of
Probability Distributions and Minimization Problems".
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from polyarch.distributions.distribution import ArchDistribution, DrawMode, drawn_gates
from polyarch.distributions.uniform import divergence
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Gates, Space

SMALLEST = 1e-6
"""The drop probability of a distribution that keeps everything."""
FARTHEST = 6.0
"""The largest log p - log(1 - p) that a tilt moves a group to; gradients are proportional to p (1 - p), so a group
farther off could not learn its way back."""


class KeepDrop(ArchDistribution):
    """q(a) = prod over choices c of p_g(c) if c is dropped, 1 - p_g(c) if it is kept; one learned p per group g.

    A relaxed draw uses the concrete distribution, independently for every choice and example:

        drop = sigmoid((log p - log(1 - p) + log u - log(1 - u)) / temperature),  u uniform,  keep = 1 - drop

    Unlike dropout, nothing is divided by 1 - p: networks are drawn from q both in training and afterwards, so no pass
    without a draw needs a matching scale.

    Args:
        space: choices of two options each, the first to drop, the second to keep.
        groups: group -> its choices; every choice belongs to one group.
        drop: the initial p of all groups, or by group.
        learnable: whether log p - log(1 - p), (G,), is a parameter.
    """

    logits: Tensor
    _group: Tensor

    def __init__(
        self,
        space: Space,
        groups: Mapping[str, Iterable[str]],
        *,
        drop: float | Mapping[str, float] = 0.1,
        learnable: bool = True,
    ) -> None:
        super().__init__(space)
        if space.constraints or any(len(choice) != 2 for choice in space.choices):
            raise InvalidInput(f"Expected choices with two options and no constraints. Got space {space.name!r}.")
        listed = {group: list(names) for group, names in groups.items()}
        members = {name: position for position, group in enumerate(listed.values()) for name in group}
        if members.keys() != set(space.choice_names):
            odd = sorted(members.keys() ^ set(space.choice_names))
            raise InvalidInput(f"Expected every choice of {space.name!r} in a group, and no others. Got {odd[:3]}.")
        if not all(listed.values()) or sum(map(len, listed.values())) != len(members):
            raise InvalidInput(f"Expected groups of one or more choices, and every choice in one group. Got {listed}.")
        start = [drop[group] if isinstance(drop, Mapping) else drop for group in listed]
        if not all(0 < value < 1 for value in start):
            raise InvalidInput(f"Expected drop probabilities between 0 and 1. Got {start}.")
        self.groups = tuple(listed)
        logits = torch.tensor([math.log(value) - math.log1p(-value) for value in start])
        if learnable:
            self.logits = nn.Parameter(logits)
        else:
            self.register_buffer("logits", logits)
        index = torch.tensor([members[name] for name in space.choice_names])
        self.register_buffer("_group", index, persistent=False)

    @property
    def drop(self) -> Tensor:
        """p of every group, (G,)."""
        return torch.sigmoid(self.logits)

    @property
    def keep_rate(self) -> float:
        """The expected share of kept choices, sum_g K_g (1 - p_g) / sum_g K_g."""
        with torch.no_grad():
            return float((self.sizes * torch.sigmoid(-self.logits)).sum() / self.sizes.sum())

    @property
    def sizes(self) -> Tensor:
        """K, the number of choices in every group, (G,)."""
        return torch.bincount(self._group, minlength=len(self.groups))

    def tilted(self, costs: Tensor, strength: float) -> "KeepDrop":
        """r(a) proportional to q(a) exp(-strength * cost(a)), where cost(a) sums the costs (C,) of the kept choices.

        Among all distributions with the same mean cost, r has the smallest KL(r || q). Its choices are independent,
        with strength * cost added to log p - log(1 - p); each is its own group and not learnable.
        """
        logits = self.logits.detach()[self._group] + strength * costs.to(self.logits)
        found = KeepDrop(self.space, {name: [name] for name in self.space.choice_names}, learnable=False)
        found = found.to(self.logits.device)
        found.logits = logits
        return found

    @torch.no_grad()
    def tilt(self, costs: Tensor, strength: float) -> None:
        """Changes q in place like `tilted`, but by group: a group moves by the mean of its choices' costs (C,) >= 0.

        It moves to p = 0.9975 at most, from where it can learn its way back.
        """
        totals = torch.zeros_like(self.logits).index_add(0, self._group, costs.to(self.logits))
        moved = self.logits + strength * totals / self.sizes
        self.logits.copy_(torch.minimum(moved, self.logits.clamp(min=FARTHEST)))

    def flat(self) -> "KeepDrop":
        """The distribution with the same keep rate and one probability for all choices; not learnable."""
        drop = min(max(1 - self.keep_rate, SMALLEST), 1 - SMALLEST)  # p of a confident posterior may round to 0 or 1
        return KeepDrop(self.space, {"all": self.space.choice_names}, drop=drop, learnable=False).to(self.logits)

    def sample_slices(self, n: int, *, generator: Generator) -> Tensor:
        """Draws (n, C) numbers: 1 for a kept choice, 0 for a dropped one."""
        return (self._perturbed((n,), generator) <= 0).to(self.logits)

    def rsample_slices(self, n: int, *, temperature: float, generator: Generator) -> Tensor:
        """Draws (n, C) relaxed numbers between 0 (dropped) and 1 (kept)."""
        return torch.sigmoid(-self._perturbed((n,), generator) / temperature)

    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """Draws n architectures independently."""
        rows: list[list[int]] = self.sample_slices(n, generator=generator).int().tolist()
        return [Architecture(self.space, tuple(row)) for row in rows]

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """Draws relaxed gates (drop, keep) for every choice."""
        perturbed = self._perturbed((), generator)
        soft = torch.stack([torch.sigmoid(perturbed / temperature), torch.sigmoid(-perturbed / temperature)], dim=-1)
        return self._by_choice(drawn_gates(soft, (perturbed <= 0).long(), mode))

    def mean(self) -> Gates:
        """The probabilities (p, 1 - p) of every choice."""
        return self._by_choice(torch.stack([self.drop, torch.sigmoid(-self.logits)], dim=-1)[self._group])

    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """log q(a) = sum_c log q_c(a_c), shape (S,)."""
        indices = torch.tensor([self.space.validate(a).indices for a in architectures]).to(self._group)  # (S, C)
        return F.logsigmoid(self.logits[self._group] * (1 - 2 * indices)).sum(-1)

    def kl(self, prior: ArchDistribution) -> Tensor:
        """sum_c KL(q_c || p_c) if the prior is a `KeepDrop`, too; otherwise see `divergence`."""
        if isinstance(prior, KeepDrop) and prior.space == self.space:
            ours, theirs = self.logits[self._group], prior.logits[prior._group].to(self.logits)
            dropped = self.drop[self._group] * (F.logsigmoid(ours) - F.logsigmoid(theirs))
            kept = torch.sigmoid(-ours) * (F.logsigmoid(-ours) - F.logsigmoid(-theirs))
            return (dropped + kept).sum()
        return divergence(self, prior)

    def entropy(self) -> Tensor:
        """H[q] = sum_g K_g H(p_g), where H(p) = -p log p - (1 - p) log(1 - p)."""
        dropped = -self.drop * F.logsigmoid(self.logits)
        return (self.sizes * (dropped - torch.sigmoid(-self.logits) * F.logsigmoid(-self.logits))).sum()

    def mode(self) -> Architecture:
        """Keeps the choices whose probability to be kept is above 1/2."""
        kept: list[int] = (self.logits < 0)[self._group].int().tolist()
        return Architecture(self.space, tuple(kept))

    def _perturbed(self, shape: tuple[int, ...], generator: Generator) -> Tensor:
        """log p - log(1 - p) + log u - log(1 - u), (\\*shape, C): above 0 with probability p."""
        uniform = torch.rand((*shape, len(self._group)), generator=generator, dtype=torch.float64)
        return self.logits[self._group] + torch.logit(uniform, eps=1e-12).to(self.logits)

    def _by_choice(self, rows: Tensor) -> Gates:
        return dict(zip(self.space.choice_names, rows.unbind(0), strict=True))
