"""Independent choices: q(a) is the product over choices of a categorical."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Generator, Tensor, nn

from polyarch.distributions.distribution import (
    ArchDistribution,
    DrawMode,
    draw_indices,
    expectation,
    relaxed_one_hot,
)
from polyarch.distributions.uniform import Uniform
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Gates, Space


class Factorised(ArchDistribution):
    """q(a) = prod_c softmax(scores_c)[a_c]; subclasses say what the scores of an option are.

    Options can be dropped while q is learned, see `keep`. Which are kept is part of the state dictionary.
    """

    _kept: Tensor

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        if space.constraints:
            raise InvalidInput(
                f"Expected a space without constraints: independent choices cannot keep them. Got {space.name!r} "
                f"with {space.constraints[0].description!r}."
            )
        self._sizes = [len(choice) for choice in space.choices]
        self.register_buffer("_kept", torch.ones(sum(self._sizes), dtype=torch.bool))

    @abstractmethod
    def scores(self) -> list[Tensor]:
        """The unnormalised log probabilities of every choice's options, each (O,); also of dropped ones."""

    def keep(self, choice: str, options: Sequence[int]) -> None:
        """Drops all other options of a choice, for good: their probability is 0, and their scores get no gradient."""
        here, asked = self.kept(choice), set(options)
        if not asked or not asked <= set(here):
            raise InvalidInput(
                f"Expected one or more of the options {list(here)} that choice {choice!r} still has. "
                f"Got {list(options)}."
            )
        mask = self._masks()[self.space.choice_names.index(choice)]
        mask[[index for index in here if index not in asked]] = False

    def kept(self, choice: str) -> tuple[int, ...]:
        """The options of a choice that were not dropped."""
        mask = self._masks()[self.space.choice_names.index(self.space[choice].name)]
        return tuple(mask.nonzero().flatten().tolist())

    def log_marginals(self) -> list[Tensor]:
        """log q_c for every choice, each (O,); minus infinity for dropped options."""
        pairs = zip(self.scores(), self._masks(), strict=True)
        return [torch.log_softmax(scores.masked_fill(~kept, -torch.inf), dim=0) for scores, kept in pairs]

    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """n independent draws."""
        columns = [draw_indices(log_q, n, generator=generator) for log_q in self.log_marginals()]
        return [Architecture(self.space, indices) for indices in zip(*columns, strict=True)]

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """An independent relaxed draw per choice."""
        return {
            name: relaxed_one_hot(log_q, temperature=temperature, mode=mode, generator=generator)
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
        if isinstance(prior, Factorised):
            pairs = zip(self.log_marginals(), prior.log_marginals(), strict=True)
            return torch.stack([expectation(log_q, log_q - log_p.to(log_q)) for log_q, log_p in pairs]).sum()
        if isinstance(prior, Uniform) and not prior.space.constraints:
            return prior.log_count - self.entropy()
        architectures = list(self.space.enumerate())
        log_q = self.log_prob(architectures)
        return expectation(log_q, log_q - prior.log_prob(architectures).to(log_q))

    def entropy(self) -> Tensor:
        """sum_c H[q_c]."""
        return -torch.stack([expectation(log_q, log_q) for log_q in self.log_marginals()]).sum()

    def mode(self) -> Architecture:
        """The most probable option of every choice."""
        return Architecture(self.space, tuple(int(log_q.argmax()) for log_q in self.log_marginals()))

    def _masks(self) -> tuple[Tensor, ...]:
        """For every choice which options are kept, (O,); views of the buffer."""
        return tuple(torch.split(self._kept, self._sizes))


class FactorisedCategorical(Factorised):
    """q(a) = prod_c softmax(logits_c)[a_c], one learned categorical per choice.

    Args:
        logits: choice -> (O,) start values; zeros (uniform) by default.
        learnable: whether the logits are parameters.
    """

    def __init__(self, space: Space, logits: Mapping[str, Tensor] | None = None, *, learnable: bool = True) -> None:
        super().__init__(space)
        self.logits = vectors_of_choices(space, logits or {}, "logits", learnable=learnable)

    def scores(self) -> list[Tensor]:
        """The logits."""
        return list(self.logits)


def vectors_of_choices(
    space: Space, start: Mapping[str, Tensor], what: str, *, learnable: bool = True
) -> nn.ParameterList:
    """A parameter (O,) for every choice, in their order: the keys of a ParameterDict cannot contain dots.

    Args:
        start: choice -> (O,) start values; zeros where there are none.
        what: they are, for errors.
    """
    for name, value in start.items():
        if value.shape != (len(space[name]),) or not value.isfinite().all():
            raise InvalidInput(f"Expected {len(space[name])} finite {what} for choice {name!r}. Got {value}.")
    return nn.ParameterList(
        nn.Parameter(start.get(choice.name, torch.zeros(len(choice))).detach().clone(), requires_grad=learnable)
        for choice in space.choices
    )
