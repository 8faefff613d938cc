"""Independent choices whose option weights are drawn from learned Dirichlet distributions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Generator, Tensor
from torch.distributions import Dirichlet, kl_divergence

from polyarch.distributions.distribution import DrawMode, drawn_gates
from polyarch.distributions.factorised import Factorised, vectors_of_choices
from polyarch.spaces import Gates, Space


class FactorisedDirichlet(Factorised):
    """theta_c ~ Dirichlet(concentration_c) for every choice c, with concentration = elu(beta) + 1.

    A relaxed draw is the weights theta themselves. As a distribution over architectures, q is what is left when an
    option is drawn with the probabilities theta and theta is integrated out:
    q(a) = prod_c E[theta_c,a_c] = prod_c concentration_c,a_c / sum_o concentration_c,o.

    Args:
        betas: choice -> (O,) start values; zeros by default, for which theta is uniform on the simplex.
    """

    def __init__(self, space: Space, betas: Mapping[str, Tensor] | None = None) -> None:
        super().__init__(space)
        self.betas = vectors_of_choices(space, betas or {}, "betas")

    def scores(self) -> list[Tensor]:
        """log concentration = beta where beta <= 0, else log(1 + beta)."""
        # Not the logarithm of elu(beta) + 1, which in single precision is 0 from beta = -17 on.
        return [torch.where(beta > 0, beta.clamp(min=0).log1p(), beta) for beta in self.betas]

    def concentrations(self) -> dict[str, Tensor]:
        """choice -> (O,); dropped options have one, too, but take no part in draws."""
        pairs = zip(self.space.choice_names, self.scores(), strict=True)
        return {name: scores.exp() for name, scores in pairs}

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """theta of every choice, with the pathwise gradient of the draw; it can be differentiated once.

        The temperature does not matter: concentrations say how sharp the draws are. Other modes than ``soft`` draw an
        option with the probabilities theta, so that one-hot draws are draws from q.
        """
        gates: dict[str, Tensor] = {}
        for (name, concentration), kept in zip(self.concentrations().items(), self._masks(), strict=True):
            # Gamma draws divided by their sum; torch knows the derivative of a gamma draw by its concentration.
            gamma = torch._standard_gamma(concentration.double().cpu(), generator=generator)
            theta = gamma.log().masked_fill(~kept.cpu(), -torch.inf).softmax(dim=0)  # no overflow for tiny draws
            index = theta.detach().multinomial(1, generator=generator).squeeze(0)
            gates[name] = drawn_gates(theta.to(concentration), index.to(concentration.device), mode)
        return gates

    def penalty(self) -> Tensor:
        """sum_c KL(Dirichlet(concentration_c) || Dirichlet(1)) over the options that are kept, in nats, a scalar."""
        terms = []
        for concentration, kept in zip(self.concentrations().values(), self._masks(), strict=True):
            own = concentration[kept]
            terms.append(kl_divergence(Dirichlet(own), Dirichlet(torch.ones_like(own))))
        return torch.stack(terms).sum()
