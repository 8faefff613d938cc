"""Objectives: expectations under q, the evidence lower bound, and gradients through training."""

from polyarch.objectives.curvature import dominant_eigenvalue
from polyarch.objectives.expectation import (
    ExactExpectation,
    Expectation,
    LogLikelihood,
    SampledExpectation,
    categorical_log_likelihood,
    elbo,
    log_marginal,
    log_posterior,
    marginal_log_probabilities,
    support,
)
from polyarch.objectives.spike_slab import SpikeSlab
from polyarch.objectives.unrolling import (
    InnerSGD,
    Tensors,
    TrainingLoss,
    Unrolled,
    direct_gradient,
    module_loss,
    plain_steps,
    unrolled_gradient,
)

__all__ = [
    "ExactExpectation",
    "Expectation",
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
    "log_marginal",
    "log_posterior",
    "marginal_log_probabilities",
    "module_loss",
    "plain_steps",
    "support",
    "unrolled_gradient",
]  # fmt: skip
