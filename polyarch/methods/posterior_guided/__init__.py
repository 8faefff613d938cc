"""Posterior-guided search: a posterior over kept and dropped channels of any network, learned with its weights."""

from polyarch.methods.posterior_guided.search import PosteriorSearch

__all__ = ["PosteriorSearch"]
