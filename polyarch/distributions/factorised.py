"""Distributions with independent choices: q(a) is a product of categoricals, one per choice."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Generator, Tensor, nn

from polyarch.distributions.distribution import ArchDistribution, DrawMode, draw_indices, expectation, relaxed_one_hot
from polyarch.distributions.uniform import divergence
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Gates, Space


class Factorised(ArchDistribution):
    """q(a) = prod_c softmax(scores_c)[a_c], with scores from a subclass.

    `keep` can drop options during learning; the state dictionary records which are left.
    """

    _kept: Tensor

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        if space.constraints:
            raise InvalidInput(
                f"Expected a space without constraints, because choices are drawn independently. Got {space.name!r} "
                f"with {space.constraints[0].description!r}."
            )
        self._sizes = [len(choice) for choice in space.choices]
        self.register_buffer("_kept", torch.ones(sum(self._sizes), dtype=torch.bool))

    @abstractmethod
    def scores(self) -> list[Tensor]:
        """Unnormalised log probabilities of every choice's options, each (O,), including dropped ones."""

    def keep(self, choice: str, options: Sequence[int]) -> None:
        """Drops all other options of a choice for good: they get probability 0 and no gradient."""
        here, asked = self.kept(choice), set(options)
        if not asked or not asked <= set(here):
            raise InvalidInput(
                f"Expected one or more of the options {list(here)} that choice {choice!r} still has. "
                f"Got {list(options)}."
            )
        mask = self._masks()[self.space.choice_names.index(choice)]
        mask[[index for index in here if index not in asked]] = False

    def kept(self, choice: str) -> tuple[int, ...]:
        """The options of a choice that have not been dropped."""
        mask = self._masks()[self.space.choice_names.index(self.space[choice].name)]
        return tuple(mask.nonzero().flatten().tolist())

    def log_marginals(self) -> list[Tensor]:
        """log q_c of every choice, each (O,); minus infinity for dropped options."""
        pairs = zip(self.scores(), self._masks(), strict=True)
        return [torch.log_softmax(scores.masked_fill(~kept, -torch.inf), dim=0) for scores, kept in pairs]

    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """Draws n architectures independently."""
        columns = [draw_indices(log_q, n, generator=generator) for log_q in self.log_marginals()]
        return [Architecture(self.space, indices) for indices in zip(*columns, strict=True)]

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """Draws gates for every choice independently: choice -> (O,)."""
        return {
            name: relaxed_one_hot(log_q, temperature=temperature, mode=mode, generator=generator)
            for name, log_q in zip(self.space.choice_names, self.log_marginals(), strict=True)
        }

    def mean(self) -> Gates:
        """The probabilities q_c of every choice: choice -> (O,)."""
        pairs = zip(self.space.choice_names, self.log_marginals(), strict=True)
        return {name: log_q.exp() for name, log_q in pairs}

    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """sum_c log q_c(a_c), shape (S,)."""
        indices = torch.tensor([self.space.validate(a).indices for a in architectures])  # (S, C)
        columns = [log_q[indices[:, c]] for c, log_q in enumerate(self.log_marginals())]
        return torch.stack(columns).sum(0)

    def kl(self, prior: ArchDistribution) -> Tensor:
        """sum_c KL(q_c || p_c) if the prior factorises, too; otherwise see `divergence`."""
        if isinstance(prior, Factorised) and prior.space == self.space:
            pairs = zip(self.log_marginals(), prior.log_marginals(), strict=True)
            return torch.stack([expectation(log_q, log_q - log_p.to(log_q)) for log_q, log_p in pairs]).sum()
        return divergence(self, prior)

    def entropy(self) -> Tensor:
        """H[q] = sum_c H[q_c]."""
        return -torch.stack([expectation(log_q, log_q) for log_q in self.log_marginals()]).sum()

    def mode(self) -> Architecture:
        """The most probable option of every choice."""
        return Architecture(self.space, tuple(int(log_q.argmax()) for log_q in self.log_marginals()))

    def _masks(self) -> tuple[Tensor, ...]:
        """Which options of every choice are kept, each (O,); views of the buffer."""
        return tuple(torch.split(self._kept, self._sizes))


class FactorisedCategorical(Factorised):
    """q(a) = prod_c softmax(logits_c)[a_c], one learned categorical per choice.

    Args:
        logits: choice -> (O,) start values; zeros (uniform) by default.
        learnable: whether the logits receive gradients.
    """

    def __init__(self, space: Space, logits: Mapping[str, Tensor] | None = None, *, learnable: bool = True) -> None:
        super().__init__(space)
        self.logits = vectors_of_choices(space, logits or {}, "logits", learnable=learnable)

    def scores(self) -> list[Tensor]:
        """The logits themselves serve as scores."""
        return list(self.logits)


def vectors_of_choices(
    space: Space, start: Mapping[str, Tensor], what: str, *, learnable: bool = True
) -> nn.ParameterList:
    """A parameter (O,) for every choice, in a list because the keys of a ParameterDict cannot contain dots.

    Args:
        start: choice -> (O,) start values; zeros for the other choices.
        what: how error messages refer to the values.
    """
    for name, value in start.items():
        if value.shape != (len(space[name]),) or not value.isfinite().all():
            raise InvalidInput(f"Expected {len(space[name])} finite {what} for choice {name!r}. Got {value}.")
    return nn.ParameterList(
        nn.Parameter(start.get(choice.name, torch.zeros(len(choice))).detach().clone(), requires_grad=learnable)
        for choice in space.choices
    )
