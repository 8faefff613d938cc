"""How far the ranking of a run may be trusted: agreement of two estimators and of two supernets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyarch.estimators import Estimator
from polyarch.methods.one_shot.record import ScoredArchitecture, TrustRecord
from polyarch.ranking import trust

LEAST = 4
"""Fewer architectures say nothing."""


def judges(estimators: Sequence[Estimator]) -> list[str]:
    """The estimators that say how good an architecture is, not what it costs; the first is the one in question."""
    return [estimator.name for estimator in estimators if estimator.goal == "maximise"]


def trust_record(
    scored: Sequence[ScoredArchitecture], names: Sequence[str], second: Mapping[str, float], *, seed: int
) -> TrustRecord | None:
    """The agreements over the scored architectures; None with fewer than two judges or very few architectures.

    Args:
        names: the estimators that are compared, the one in question first.
        second: its scores by the second supernet, by the key of the architecture; may be empty.
    """
    if len(names) < 2 or len(scored) < LEAST:
        return None
    both = [item for item in scored if item.key in second]
    seeds = [[item.score(names[0]) for item in both], [second[item.key] for item in both]]
    found = trust(
        {name: [item.score(name) for item in scored] for name in names},
        seeds if len(both) >= LEAST else None,
        seed=seed,
    )
    content = found.to_dict()
    content["top_architecture"] = scored[content.pop("top")].architecture
    return TrustRecord.model_validate(content)
