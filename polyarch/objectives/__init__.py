"""Objectives: expectations under q and the evidence lower bound."""

from polyarch.objectives.elbo import elbo, log_evidence, log_posterior
from polyarch.objectives.expectation import (
    Exact,
    Expectation,
    LogLikelihood,
    Sampled,
    categorical_log_likelihood,
    support,
)
from polyarch.objectives.mixture import mixed, mixture_log_probabilities

__all__ = [
    "Exact",
    "Expectation",
    "LogLikelihood",
    "Sampled",
    "categorical_log_likelihood",
    "elbo",
    "log_evidence",
    "log_posterior",
    "mixed",
    "mixture_log_probabilities",
    "support",
]
