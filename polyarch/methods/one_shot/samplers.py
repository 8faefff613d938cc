"""The search methods that settings can name."""

from __future__ import annotations

from polyarch.errors import ConfigError
from polyarch.runs.settings import SearchSettings
from polyarch.searchers import evolution, exhaustive_search, nsga2, random_search
from polyarch.searchers.searcher import MakeSampler


def sampler(search: SearchSettings, goals: int) -> MakeSampler:
    """The search method by name."""
    if goals > 1 and search.sampler not in ("nsga2", "random", "exhaustive"):
        raise ConfigError(f"Expected sampler nsga2, random or exhaustive for {goals} goals. Got {search.sampler!r}.")
    match search.sampler:
        case "random":
            return random_search
        case "exhaustive":
            return exhaustive_search
        case "evolution":
            return evolution(search.population, min(search.tournament, search.population))
        case "nsga2":
            return nsga2(search.population)
