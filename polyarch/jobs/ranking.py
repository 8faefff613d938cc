"""The second stage: random architectures scored by several estimators."""

from __future__ import annotations

from typing import Any

from polyarch.benchmarks import NASBench201
from polyarch.estimators import Failure, Score
from polyarch.jobs.context import Context, ScoreMapper, score_records
from polyarch.jobs.journalled import run_missing
from polyarch.jobs.settings import RankSettings
from polyarch.ranking import rank_quality
from polyarch.results import RankingRecord, ScoredArchitecture, ScoreRecord

RESAMPLES = 500


def rank(context: Context, score: ScoreMapper) -> RankingRecord:
    """Scores random architectures by every estimator and compares the scores with the truth or with each other."""
    settings = context.parts.settings.rank
    architectures = context.draw(settings.architectures, "rank")
    items = {architecture.key: ("rank", architecture) for architecture in architectures}
    with context.display.stage("rank") as report:
        known = run_missing(items, context.workspace.journal("rank"), score, _to_record, report)
    table = NASBench201.load() if settings.truth else None
    scored = []
    for architecture in architectures:
        record = known[architecture.key]
        if "scores" in record:
            truth = table.value(architecture, settings.truth) if table and settings.truth else None
            scores = [ScoreRecord(**values) for values in record["scores"]]
            scored.append(
                ScoredArchitecture(
                    architecture=architecture.to_dict(),
                    scores=scores,
                    parameters=context.parts.net.parameter_count(architecture),
                    truth=truth,
                )
            )
    return RankingRecord(
        reference=settings.truth or settings.estimators[0],
        architectures=scored,
        quality=_quality(scored, settings, context.parts.settings.seed),
    )


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
