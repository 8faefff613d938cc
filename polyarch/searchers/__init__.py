"""Ask-and-tell searchers, their samplers, and hard limits on costs."""

from polyarch.searchers.judged_draws import DrawScoring, JudgedDraw, best_draw
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
    "DrawScoring", "Evaluated", "ExhaustiveSampler", "JudgedDraw", "Limit", "LimitedDraws", "Limits", "RandomSampler",
    "RegularisedEvolution", "Searcher", "StudySearcher", "best_draw", "evolution", "exhaustive_search", "nsga2",
    "random_search",
]  # fmt: skip
