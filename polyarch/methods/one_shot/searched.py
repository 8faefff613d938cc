"""What a search saw, best first, and which of it is worth its size."""

from collections.abc import Sequence

from polyarch.methods.one_shot.record import ScoredArchitecture, SearchRecord

MINIMISED = ("params", "macs", "latency")
"""Costs, of which less is better."""


def objective_of(search: SearchRecord) -> str:
    """The first objective that is not the size, which has an axis of its own."""
    return next((name for name in search.objectives if name != "params"), search.objectives[0])


def ordered(search: SearchRecord) -> list[ScoredArchitecture]:
    """Every architecture once, by the first objective, the best first."""
    objective = search.objectives[0]
    unique = {item.key: item for item in search.evaluated}
    return sorted(unique.values(), key=lambda item: item.score(objective), reverse=objective not in MINIMISED)


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


def counted_parameters(search: SearchRecord, best: dict[str, str] | None) -> int | None:
    """What the search counted for the best, which includes operations that do not reach the output."""
    return next((item.parameters for item in search.evaluated if item.architecture == best), None)
