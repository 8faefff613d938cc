"""Differentiable search: DARTS and its relatives, by gradients of held-out losses or of sums of training losses."""

from polyarch.methods.differentiable.recipes import (
    RECIPES,
    bilevel,
    differentiable_search,
    hypergradient,
    mixed_supernet,
)
from polyarch.methods.differentiable.tuning import Tuner

__all__ = ["RECIPES", "Tuner", "bilevel", "differentiable_search", "hypergradient", "mixed_supernet"]
