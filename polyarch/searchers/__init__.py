"""Searchers: ask and tell, samplers, hard limits."""

from polyarch.searchers.limits import Limit, Limits
from polyarch.searchers.samplers import ExhaustiveSampler, RandomSampler, RegularisedEvolution
from polyarch.searchers.searcher import (
    Evaluated,
    Searcher,
    StudySearcher,
    evolution,
    exhaustive_search,
    nsga2,
    random_search,
)

__all__ = [
    "Evaluated",
    "ExhaustiveSampler",
    "Limit",
    "Limits",
    "RandomSampler",
    "RegularisedEvolution",
    "Searcher",
    "StudySearcher",
    "evolution",
    "exhaustive_search",
    "nsga2",
    "random_search",
]
