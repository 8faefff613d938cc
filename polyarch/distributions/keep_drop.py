"""Independent keep/drop choices that share drop probabilities by group."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from polyarch.distributions.distribution import ArchDistribution, DrawMode, drawn_gates, expectation
from polyarch.distributions.uniform import Uniform
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Gates, Space

SMALLEST = 1e-6
"""Drop probability of a distribution that keeps everything."""
FARTHEST = 6.0
"""log p - log(1 - p) to which a tilt moves a group at most: gradients are p (1 - p) times something, so that a group
farther off would never learn again."""


class KeepDrop(ArchDistribution):
    """q(a) = prod over choices c of p_g(c) if c is dropped, 1 - p_g(c) if it is kept; one learned p per group g.

    A relaxed draw is the concrete relaxation, independent for every choice, and for every example if there are several:

        drop = sigmoid((log p - log(1 - p) + log u - log(1 - u)) / temperature),  u uniform,  keep = 1 - drop

    Nothing is divided by 1 - p, as dropout does to keep an expected sum: networks are drawn from q in training and
    after it alike, so there is no pass without a draw whose scale would have to fit.

    Args:
        space: choices of two options each, the first to drop, the second to keep.
        groups: group -> its choices; every choice is in one group.
        drop: the p of all groups at the start, or by group.
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
            raise InvalidInput(
                f"Expected a space of choices with two options, without constraints. Got space {space.name!r}."
            )
        listed = {group: list(names) for group, names in groups.items()}
        members = {name: position for position, group in enumerate(listed.values()) for name in group}
        if members.keys() != set(space.choice_names):
            odd = sorted(members.keys() ^ set(space.choice_names))
            raise InvalidInput(f"Expected every choice of {space.name!r} in a group, and no others. Got {odd[:3]}.")
        if not all(listed.values()) or sum(map(len, listed.values())) != len(members):
            raise InvalidInput(f"Expected groups of one choice or more, and every choice in one of them. Got {listed}.")
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
        """The expected share of choices that are kept, sum_g K_g (1 - p_g) / sum_g K_g."""
        with torch.no_grad():
            return float((self.sizes * torch.sigmoid(-self.logits)).sum() / self.sizes.sum())

    @property
    def sizes(self) -> Tensor:
        """K, the number of choices of every group, (G,)."""
        return torch.bincount(self._group, minlength=len(self.groups))

    def tilted(self, costs: Tensor, strength: float) -> KeepDrop:
        """r(a) proportional to q(a) exp(-strength * cost(a)), where cost(a) sums those of the choices that are kept.

        Of all distributions with the same mean cost it is the one with the smallest KL(r || q). Its choices are
        independent again, with strength * cost added to log p - log(1 - p); each is a group of its own, not learnt.

        Args:
            costs: of the choices, (C,).
        """
        logits = self.logits.detach()[self._group] + strength * costs.to(self.logits)
        found = KeepDrop(self.space, {name: [name] for name in self.space.choice_names}, learnable=False)
        found = found.to(self.logits.device)
        found.logits = logits
        return found

    @torch.no_grad()
    def tilt(self, costs: Tensor, strength: float) -> None:
        """Becomes what `tilted` gives, as far as groups allow: a group moves by the mean cost of its choices.

        It moves to a p of 0.9975 at most, from where it can learn to come back.

        Args:
            costs: of the choices, (C,), 0 or more.
        """
        totals = torch.zeros_like(self.logits).index_add(0, self._group, costs.to(self.logits))
        moved = self.logits + strength * totals / self.sizes
        self.logits.copy_(torch.minimum(moved, self.logits.clamp(min=FARTHEST)))

    def flat(self) -> KeepDrop:
        """The distribution with the same keep rate in which all choices have the same probability; not learnt."""
        drop = min(max(1 - self.keep_rate, SMALLEST), 1 - SMALLEST)  # a posterior may be sure, as far as numbers go
        return KeepDrop(self.space, {"all": self.space.choice_names}, drop=drop, learnable=False).to(self.logits)

    def sample_slices(self, n: int, *, generator: Generator) -> Tensor:
        """n draws as one tensor: 1 where a choice is kept, 0 where it is dropped, (n, C)."""
        return (self._perturbed((n,), generator) <= 0).to(self.logits)

    def rsample_slices(self, n: int, *, temperature: float, generator: Generator) -> Tensor:
        """n relaxed draws as one tensor: how much of every choice is kept, (n, C)."""
        return torch.sigmoid(-self._perturbed((n,), generator) / temperature)

    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """n independent draws."""
        rows: list[list[int]] = self.sample_slices(n, generator=generator).int().tolist()
        return [Architecture(self.space, tuple(row)) for row in rows]

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """One relaxed draw, (drop, keep) of every choice."""
        perturbed = self._perturbed((), generator)
        soft = torch.stack([torch.sigmoid(perturbed / temperature), torch.sigmoid(-perturbed / temperature)], dim=-1)
        return self._by_choice(drawn_gates(soft, (perturbed <= 0).long(), mode))

    def mean(self) -> Gates:
        """(p, 1 - p) of every choice."""
        return self._by_choice(torch.stack([self.drop, torch.sigmoid(-self.logits)], dim=-1)[self._group])

    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """sum_c log q_c(a_c), shape (S,)."""
        indices = torch.tensor([self.space.validate(a).indices for a in architectures]).to(self._group)  # (S, C)
        return F.logsigmoid(self.logits[self._group] * (1 - 2 * indices)).sum(-1)

    def kl(self, prior: ArchDistribution) -> Tensor:
        """sum_c KL(q_c || p_c) when the prior is of this kind, log |space| - H[q] when it is uniform.

        Against any other prior, by enumeration of the space.
        """
        if prior.space != self.space:
            raise InvalidInput(f"Expected a prior over space {self.space.name!r}. Got one over {prior.space.name!r}.")
        if isinstance(prior, KeepDrop):
            ours, theirs = self.logits[self._group], prior.logits[prior._group].to(self.logits)
            dropped = self.drop[self._group] * (F.logsigmoid(ours) - F.logsigmoid(theirs))
            kept = torch.sigmoid(-ours) * (F.logsigmoid(-ours) - F.logsigmoid(-theirs))
            return (dropped + kept).sum()
        if isinstance(prior, Uniform) and not prior.space.constraints:
            return prior.log_count - self.entropy()
        architectures = list(self.space.enumerate())
        log_q = self.log_prob(architectures)
        return expectation(log_q, log_q - prior.log_prob(architectures).to(log_q))

    def entropies(self) -> Tensor:
        """H(p) = -p log p - (1 - p) log(1 - p) of every group, (G,)."""
        return -self.drop * F.logsigmoid(self.logits) - torch.sigmoid(-self.logits) * F.logsigmoid(-self.logits)

    def entropy(self) -> Tensor:
        """sum_g K_g H(p_g)."""
        return (self.sizes * self.entropies()).sum()

    def mode(self) -> Architecture:
        """Keeps what is kept with a probability above 1/2."""
        kept: list[int] = (self.logits < 0)[self._group].int().tolist()
        return Architecture(self.space, tuple(kept))

    def _perturbed(self, shape: tuple[int, ...], generator: Generator) -> Tensor:
        """log p - log(1 - p) + log u - log(1 - u), (\\*shape, C): above 0 with probability p."""
        uniform = torch.rand((*shape, len(self._group)), generator=generator, dtype=torch.float64)
        return self.logits[self._group] + torch.logit(uniform, eps=1e-12).to(self.logits)

    def _by_choice(self, rows: Tensor) -> Gates:
        return dict(zip(self.space.choice_names, rows.unbind(0), strict=True))
