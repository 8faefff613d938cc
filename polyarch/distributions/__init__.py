"""Distributions over architectures: draws, log probabilities, divergences and marginals."""

from polyarch.distributions.depth_and_channels import DepthAndChannels
from polyarch.distributions.dirichlet import FactorisedDirichlet
from polyarch.distributions.distribution import ArchDistribution, DrawMode
from polyarch.distributions.factorised import Factorised, FactorisedCategorical
from polyarch.distributions.finite import Categorical, Empirical, FiniteDistribution, geometric_prior
from polyarch.distributions.keep_drop import KeepDrop
from polyarch.distributions.uniform import Uniform

__all__ = [
    "ArchDistribution", "Categorical", "DepthAndChannels", "DrawMode", "Empirical", "Factorised",
    "FactorisedCategorical", "FactorisedDirichlet", "FiniteDistribution", "KeepDrop", "Uniform", "geometric_prior",
]  # fmt: skip
