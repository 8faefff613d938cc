"""Independent choices whose option weights are drawn from learned Dirichlet distributions.

Chen et al. (2021), "DrNAS: Dirichlet Neural Architecture Search", arXiv:2006.10355. Gradients of the draws: Jankowiak &
Obermeyer (2018), "Pathwise Derivatives Beyond the Reparameterization Trick", arXiv:1806.01851.
"""

from collections.abc import Mapping

import torch
from torch import Generator, Tensor
from torch.distributions import Dirichlet, kl_divergence

from polyarch.distributions.distribution import DrawMode, drawn_gates
from polyarch.distributions.factorised import Factorised, vectors_of_choices
from polyarch.spaces import Gates, Space


class FactorisedDirichlet(Factorised):
    """theta_c ~ Dirichlet(concentration_c) for every choice c, with concentration = elu(beta) + 1.

    A relaxed draw consists of the weights theta themselves. As a distribution over architectures, q draws options with
    probabilities theta and integrates theta out:
    q(a) = prod_c E[theta_c,a_c] = prod_c concentration_c,a_c / sum_o concentration_c,o.

    Args:
        betas: choice -> (O,) start values; with zeros, the default, theta is uniform on the simplex.
    """

    def __init__(self, space: Space, betas: Mapping[str, Tensor] | None = None) -> None:
        super().__init__(space)
        self.betas = vectors_of_choices(space, betas or {}, "betas")

    def scores(self) -> list[Tensor]:
        """log concentration, which is beta if beta <= 0, else log(1 + beta)."""
        # In single precision elu(beta) + 1 is 0 for beta < -17, so its logarithm is not taken.
        return [torch.where(beta > 0, beta.clamp(min=0).log1p(), beta) for beta in self.betas]

    def concentrations(self) -> dict[str, Tensor]:
        """choice -> (O,), including dropped options, which take no part in draws."""
        pairs = zip(self.space.choice_names, self.scores(), strict=True)
        return {name: scores.exp() for name, scores in pairs}

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """Draws theta of every choice with its pathwise gradient, which can be differentiated once.

        Concentrations control how sharp the draws are; the temperature is ignored. Modes other than ``soft`` draw an
        option with probabilities theta, so that one-hot draws follow q.
        """
        gates: dict[str, Tensor] = {}
        for (name, concentration), kept in zip(self.concentrations().items(), self._masks(), strict=True):
            # Normalised gamma draws; torch differentiates a gamma draw with respect to its concentration.
            gamma = torch._standard_gamma(concentration.double().cpu(), generator=generator)
            theta = (
                gamma.log().masked_fill(~kept.cpu(), -torch.inf).softmax(dim=0)
            )  # in logarithms, so that tiny draws do not underflow
            index = theta.detach().multinomial(1, generator=generator).squeeze(0)
            gates[name] = drawn_gates(theta.to(concentration), index.to(concentration.device), mode)
        return gates

    def penalty(self) -> Tensor:
        """sum_c KL(Dirichlet(concentration_c) || Dirichlet(1)) over the kept options, in nats, a scalar."""
        terms = []
        for concentration, kept in zip(self.concentrations().values(), self._masks(), strict=True):
            own = concentration[kept]
            terms.append(kl_divergence(Dirichlet(own), Dirichlet(torch.ones_like(own))))
        return torch.stack(terms).sum()
