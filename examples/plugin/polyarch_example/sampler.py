"""A sampler: hill climbing, as evolution whose tournament is the whole population."""

from __future__ import annotations

from polyarch import searchers
from polyarch.runs.sections import SearchSettings
from polyarch.searchers.searcher import MakeSampler


def hill_climbing(settings: SearchSettings) -> MakeSampler:
    """Mutates the best of the last architectures."""
    return searchers.evolution(settings.population, settings.population)
