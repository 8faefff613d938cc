"""What a search saw, best first, and what of it is worth its size."""

from __future__ import annotations

from collections.abc import Sequence

from polyarch.reports.words import MINIMISED, key_of
from polyarch.results import Results, ScoredArchitecture, SearchRecord


def objective_of(search: SearchRecord) -> str:
    """The first objective that is not the size itself, which has an axis of its own."""
    return next((name for name in search.objectives if name != "params"), search.objectives[0])


def is_maximised(objective: str) -> bool:
    """Whether more is better: of everything but costs."""
    return objective not in MINIMISED


def ordered(search: SearchRecord) -> list[ScoredArchitecture]:
    """Every architecture once, by the first objective, the best first."""
    objective = search.objectives[0]
    unique = {key_of(item.architecture): item for item in search.evaluated}
    return sorted(unique.values(), key=lambda item: item.score(objective), reverse=is_maximised(objective))


def best_quarter(items: Sequence[ScoredArchitecture]) -> Sequence[ScoredArchitecture]:
    """The first quarter of what is ordered, at least one."""
    return items[: max(-(-len(items) // 4), 1)]


def front(sizes: Sequence[float], scores: Sequence[float], *, maximise: bool) -> list[int]:
    """The Pareto front by increasing size: positions of points that no smaller or equal one beats or equals in score.

    Of equal points the first stands for all.
    """
    sign = -1.0 if maximise else 1.0
    order = sorted(range(len(sizes)), key=lambda index: (sizes[index], sign * scores[index]))
    kept: list[int] = []
    for index in order:
        if not kept or sign * scores[index] < sign * scores[kept[-1]]:
            kept.append(index)
    return kept


def is_spelled_out(results: Results) -> bool:
    """Whether architectures can be written down; after a posterior-guided search they have a choice per channel."""
    return results.guided is None and results.settings.get("method") != "posterior-guided"


def best_architecture(results: Results) -> dict[str, str] | None:
    """The one in the artifact, or else the one that was retrained, or the first of the search."""
    if results.artifact is not None and "architecture" in results.artifact:
        chosen: dict[str, str] = results.artifact["architecture"]
        return chosen
    if results.comparison and results.comparison[0].runs:
        return results.comparison[0].runs[0].architecture
    if results.search is not None and results.search.best:
        return results.search.best[0].architecture
    return None


def best_parameters(results: Results) -> int | None:
    """The size of that one, where it is known."""
    if results.artifact is not None and "parameters" in results.artifact:
        return int(results.artifact["parameters"])
    return counted_parameters(results)


def counted_parameters(results: Results) -> int | None:
    """What the search counted for it, which includes operations that do not reach the output."""
    best = best_architecture(results)
    evaluated = results.search.evaluated if results.search is not None else []
    return next((item.parameters for item in evaluated if item.architecture == best), None)
