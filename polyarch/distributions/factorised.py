"""Independent choices: q(a) is the product over choices of a categorical."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Generator, Tensor, nn

from polyarch.distributions.distribution import ArchDistribution, draw_indices, relaxed_one_hot
from polyarch.distributions.uniform import Uniform
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Gates, Space


class FactorisedCategorical(ArchDistribution):
    """q(a) = prod_c softmax(logits_c)[a_c], one learned categorical per choice.

    Args:
        logits: choice -> (O,) start values; zeros (uniform) by default.
        learnable: whether the logits are parameters.
    """

    def __init__(self, space: Space, logits: Mapping[str, Tensor] | None = None, *, learnable: bool = True) -> None:
        super().__init__(space)
        if space.constraints:
            raise InvalidInput(
                f"Expected a space without constraints: independent choices cannot keep them. Got {space.name!r} "
                f"with {space.constraints[0].description!r}."
            )
        start = logits or {}
        for name, value in start.items():
            if value.shape != (len(space[name]),) or not value.isfinite().all():
                raise InvalidInput(f"Expected {len(space[name])} finite logits for choice {name!r}. Got {value}.")
        # A ParameterList by position: the keys of a ParameterDict cannot contain dots.
        self.logits = nn.ParameterList(
            nn.Parameter(start.get(choice.name, torch.zeros(len(choice))).detach().clone(), requires_grad=learnable)
            for choice in space.choices
        )

    def log_marginals(self) -> list[Tensor]:
        """log q_c for every choice, each (O,)."""
        return [torch.log_softmax(logits, dim=0) for logits in self.logits]

    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """n independent draws."""
        columns = [draw_indices(log_q, n, generator=generator) for log_q in self.log_marginals()]
        return [Architecture(self.space, indices) for indices in zip(*columns, strict=True)]

    def rsample(self, *, temperature: float, hard: bool = False, generator: Generator) -> Gates:
        """An independent relaxed draw per choice."""
        return {
            name: relaxed_one_hot(log_q, temperature=temperature, hard=hard, generator=generator)
            for name, log_q in zip(self.space.choice_names, self.log_marginals(), strict=True)
        }

    def mean(self) -> Gates:
        """The probabilities of every choice, choice -> (O,)."""
        pairs = zip(self.space.choice_names, self.log_marginals(), strict=True)
        return {name: log_q.exp() for name, log_q in pairs}

    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """sum_c log q_c(a_c), shape (S,)."""
        indices = torch.tensor([self.space.validate(a).indices for a in architectures])  # (S, C)
        columns = [log_q[indices[:, c]] for c, log_q in enumerate(self.log_marginals())]
        return torch.stack(columns).sum(0)

    def kl(self, prior: ArchDistribution) -> Tensor:
        """sum_c KL(q_c || p_c) when the prior factorises too, log |space| - H[q] when it is uniform.

        Against any other prior, by enumeration of the space.
        """
        if prior.space != self.space:
            raise InvalidInput(f"Expected a prior over space {self.space.name!r}. Got one over {prior.space.name!r}.")
        if isinstance(prior, FactorisedCategorical):
            pairs = zip(self.log_marginals(), prior.log_marginals(), strict=True)
            return torch.stack([(log_q.exp() * (log_q - log_p.to(log_q))).sum() for log_q, log_p in pairs]).sum()
        if isinstance(prior, Uniform) and not prior.space.constraints:
            return prior.log_count - self.entropy()
        architectures = list(self.space.enumerate())
        log_q = self.log_prob(architectures)
        return (log_q.exp() * (log_q - prior.log_prob(architectures).to(log_q))).sum()

    def entropy(self) -> Tensor:
        """sum_c H[q_c]."""
        return -torch.stack([(log_q.exp() * log_q).sum() for log_q in self.log_marginals()]).sum()

    def mode(self) -> Architecture:
        """The most probable option of every choice."""
        return Architecture(self.space, tuple(int(log_q.argmax()) for log_q in self.log_marginals()))
