"""The samplers that ``search.sampler`` can name, made from the settings of a search."""

from __future__ import annotations

from polyarch import searchers
from polyarch.errors import ConfigError
from polyarch.runs.sections import SearchSettings
from polyarch.searchers.searcher import MakeSampler


def random(settings: SearchSettings) -> MakeSampler:
    """Random architectures."""
    return searchers.random_search


def exhaustive(settings: SearchSettings) -> MakeSampler:
    """Every architecture once."""
    return searchers.exhaustive_search


def evolution(settings: SearchSettings) -> MakeSampler:
    """Regularised evolution, for one objective."""
    if len(settings.objectives) > 1:
        raise ConfigError(
            f"Expected sampler nsga2, random or exhaustive for {len(settings.objectives)} goals. Got 'evolution'."
        )
    return searchers.evolution(settings.population, min(settings.tournament, settings.population))


def nsga2(settings: SearchSettings) -> MakeSampler:
    """NSGA-II, for several objectives."""
    return searchers.nsga2(settings.population)
