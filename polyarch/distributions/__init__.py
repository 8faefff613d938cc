"""Distributions over architectures: sample, log probability, divergence, marginals."""

from polyarch.distributions.distribution import ArchDistribution
from polyarch.distributions.factorised import FactorisedCategorical
from polyarch.distributions.finite import Categorical, Empirical, FiniteDistribution, geometric_prior
from polyarch.distributions.uniform import Uniform

__all__ = [
    "ArchDistribution",
    "Categorical",
    "Empirical",
    "FactorisedCategorical",
    "FiniteDistribution",
    "Uniform",
    "geometric_prior",
]
