"""The second stage: architectures scored by several estimators, random ones or those of a truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyarch.estimators import Failure, Score
from polyarch.methods.one_shot.trust import judges, trust_record
from polyarch.ranking import rank_quality
from polyarch.results import RankingRecord, ScoredArchitecture, ScoreRecord
from polyarch.runs.journal import run_missing
from polyarch.runs.run import Context, ScoreMapper, score_records
from polyarch.runs.settings import RankSettings
from polyarch.spaces import Architecture
from polyarch.tables import Truth
from polyarch.truths.lookup import known_members, truth_for

RESAMPLES = 500


def rank(context: Context, score: ScoreMapper, *, second: bool) -> RankingRecord:
    """Scores architectures by every estimator and compares the scores with the truth or with each other.

    Args:
        second: whether a second supernet scores them too, to see how far the ranking may be trusted.
    """
    settings = context.parts.settings.rank
    truth = None if settings.truth is None else truth_for(settings.truth, context.parts.net.space)
    architectures = _ranked(context, truth)
    items = {architecture.key: ("rank", architecture) for architecture in architectures}
    with context.display.stage("rank") as report:
        known = run_missing(items, context.workspace.journal("rank"), score, _to_record, report)
    scored = []
    for architecture in architectures:
        record = known[architecture.key]
        if "scores" in record:
            scores = [ScoreRecord(**values) for values in record["scores"]]
            scored.append(
                ScoredArchitecture(
                    architecture=architecture.to_dict(),
                    scores=scores,
                    parameters=context.parts.net.parameter_count(architecture),
                    truth=None if truth is None else truth.accuracy(architecture),
                )
            )
    names = judges(context.parts.estimators(settings.estimators))
    again = _second_scores(context, score, architectures) if second else {}
    return RankingRecord(
        reference=settings.estimators[0] if truth is None else truth.name,
        architectures=scored,
        quality=_quality(scored, settings, context.parts.settings.seed),
        trust=trust_record(scored, names, again, seed=context.parts.settings.seed),
    )


def _second_scores(context: Context, score: ScoreMapper, architectures: Sequence[Architecture]) -> dict[str, float]:
    """The scores by the second supernet, by key."""
    items = {architecture.key: ("second", architecture) for architecture in architectures}
    with context.display.stage("rank again") as report:
        known = run_missing(items, context.workspace.journal("rank-second"), score, _to_record, report)
    return {key: record["scores"][0]["value"] for key, record in known.items() if "scores" in record}


def _ranked(context: Context, truth: Truth | None) -> list[Architecture]:
    """Random architectures that the truth knows, or its own, where it does not know the whole space."""
    count = context.parts.settings.rank.architectures
    members = None if truth is None else known_members(truth, context.parts.net.space)
    if members is None:
        return [member for member in context.draw(count, "rank") if truth is None or member in truth]
    return [member for member in members if context.limits.allows(member)][:count]


def _to_record(outcome: list[Score] | Failure) -> dict[str, Any]:
    return {"failure": outcome.reason} if isinstance(outcome, Failure) else {"scores": score_records(outcome)}


def _quality(scored: list[ScoredArchitecture], settings: RankSettings, seed: int) -> dict[str, Any]:
    """Agreement of every estimator with the truth, or with the first estimator."""
    if len(scored) < 3:
        return {}
    reference = None if settings.truth else settings.estimators[0]
    if reference is None:
        truth = [item.truth for item in scored if item.truth is not None]
    else:
        truth = [item.score(reference) for item in scored]
    return {
        name: rank_quality([item.score(name) for item in scored], truth, resamples=RESAMPLES, seed=seed).to_dict()
        for name in settings.estimators
        if name != reference
    }
