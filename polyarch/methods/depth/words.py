"""What a search for a depth found, as the parts of its report need it."""

from __future__ import annotations

from polyarch.results import DepthMeasure, DepthPredictor, DepthRecord, Results

MIXTURE = "mixture of all depths"
PRUNED_MIXTURE = "pruned mixture"
"""Names of ways to predict that the headline compares."""

RULES = {
    "argmax": "the most probable depth",
    "95%": "the smallest depth with at least 95 % of the highest probability",
    "expected": "the mean depth, rounded",
}
UPDATES = {
    "gradient": "by gradient steps, together with the weights",
    "em": "by its closed form, in turns with the weights (EM)",
}


def deepest(record: DepthRecord) -> int:
    """The largest depth on offer."""
    return max(one.depth for one in record.depths)


def at_depth(record: DepthRecord, depth: int) -> DepthMeasure:
    """One depth alone."""
    return next(one for one in record.depths if one.depth == depth)


def named(record: DepthRecord, name: str) -> DepthPredictor | None:
    """A way to predict, where it was measured."""
    return next((one for one in record.predictors if one.name == name), None)


def is_learned(record: DepthRecord) -> bool:
    """Whether there is a posterior; the baseline trains every depth alone and has none."""
    return all(one.q is not None for one in record.depths)


def likely(record: DepthRecord, share: float = 0.9) -> tuple[int, int]:
    """The shortest range of depths that has this share of the posterior."""
    depths, q = [one.depth for one in record.depths], [one.q or 0.0 for one in record.depths]
    ranges = [
        (depths[first], depths[last])
        for first in range(len(q))
        for last in range(first, len(q))
        if sum(q[first : last + 1]) >= share
    ]
    return min(ranges, key=lambda ends: ends[1] - ends[0])


def relative_time(results: Results) -> float | None:
    """The seconds of a pruned forward pass over those of all blocks, where both were measured."""
    full, pruned = (results.seconds.get(name) for name in ("forward_full", "forward_pruned"))
    return pruned / full if full and pruned else None


def time_of(predictor: DepthPredictor, results: Results, record: DepthRecord) -> float | None:
    """The relative time of a forward pass that computes as many blocks as this way to predict."""
    ratio = relative_time(results)
    return {record.chosen: ratio, deepest(record): ratio and 1.0}.get(predictor.blocks)


def rule_name(rule: str) -> str:
    """95% -> 95 %."""
    return rule.replace("%", "\u00a0%")
