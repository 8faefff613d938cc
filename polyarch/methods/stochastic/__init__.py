"""Networks with stochastic architectures: one set of weights under many wirings, an ensemble from one training."""

from polyarch.methods.stochastic.recipes import nsa, nsa_i, nsa_id

__all__ = ["nsa", "nsa_i", "nsa_id"]
