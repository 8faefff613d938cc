"""Searchers: ask and tell, samplers, hard limits."""

from polyarch.searchers.candidates import Candidate, CandidateScoring, best_candidate
from polyarch.searchers.limited_draws import LimitedDraws
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
    "Candidate",
    "CandidateScoring",
    "Evaluated",
    "ExhaustiveSampler",
    "Limit",
    "LimitedDraws",
    "Limits",
    "RandomSampler",
    "RegularisedEvolution",
    "Searcher",
    "StudySearcher",
    "best_candidate",
    "evolution",
    "exhaustive_search",
    "nsga2",
    "random_search",
]
