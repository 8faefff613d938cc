"""Objectives: expectations under q and the evidence lower bound."""

from polyarch.objectives.curvature import dominant_eigenvalue, flat_gradient, hessian_vector_product
from polyarch.objectives.elbo import elbo, log_evidence, log_posterior
from polyarch.objectives.expectation import (
    ExactExpectation,
    Expectation,
    LogLikelihood,
    SampledExpectation,
    categorical_log_likelihood,
    support,
)
from polyarch.objectives.marginal import log_marginal, marginal_log_probabilities
from polyarch.objectives.spike_slab import SpikeSlab
from polyarch.objectives.unrolling import (
    FinalLoss,
    InnerSGD,
    Tensors,
    TrainingLoss,
    Unrolled,
    direct_gradient,
    module_loss,
    unrolled_gradient,
)

__all__ = [
    "ExactExpectation",
    "Expectation",
    "FinalLoss",
    "InnerSGD",
    "LogLikelihood",
    "SampledExpectation",
    "SpikeSlab",
    "Tensors",
    "TrainingLoss",
    "Unrolled",
    "categorical_log_likelihood",
    "direct_gradient",
    "dominant_eigenvalue",
    "elbo",
    "flat_gradient",
    "hessian_vector_product",
    "log_evidence",
    "log_posterior",
    "log_marginal",
    "marginal_log_probabilities",
    "module_loss",
    "support",
    "unrolled_gradient",
]
