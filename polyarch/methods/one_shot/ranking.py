"""Architectures scored by several estimators, random ones or those of a table, and how far to trust the ranking."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from polyarch.estimators import Estimator, Failure, Score, Scoring, ValAcc, ValAccAfter
from polyarch.executors import Mapper
from polyarch.methods.one_shot.record import (
    EliminatedArchitecture,
    EliminationRecord,
    IntervalRecord,
    OneShotRecord,
    RankingRecord,
    ScoredArchitecture,
    ScoreRecord,
    TopRecord,
    TrustRecord,
)
from polyarch.ranking import (
    compare_estimators,
    geometric_rungs,
    halving_counts,
    rank_quality,
    successive_halving,
    trust,
)
from polyarch.ranking.halving import Curve
from polyarch.ranking.quality import AccuracyUnit
from polyarch.results import Results
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import run_missing
from polyarch.spaces import Architecture
from polyarch.tables import Truth
from polyarch.tables.lookup import known_members, truth_for
from polyarch.tasks import Task

LEAST = 4
"""Fewer architectures say nothing."""


def judges(estimators: Sequence[Estimator]) -> list[str]:
    """The estimators that say how good an architecture is, not what it costs; the first is the one in question."""
    return [estimator.name for estimator in estimators if estimator.goal == "maximise"]


def trust_record(
    scored: Sequence[ScoredArchitecture], names: Sequence[str], again: Sequence[Mapping[str, float]], *, seed: int
) -> TrustRecord | None:
    """The agreements over the scored architectures; None with fewer than two judges or very few architectures.

    Args:
        names: the estimators that are compared, the one in question first.
        again: its scores by every further supernet, by the key of the architecture.
    """
    if len(names) < 2 or len(scored) < LEAST:
        return None
    common = [item for item in scored if all(item.key in scores for scores in again)]
    seeds = [[item.score(names[0]) for item in common], *([scores[item.key] for item in common] for scores in again)]
    found = trust(
        {name: [item.score(name) for item in scored] for name in names},
        seeds if again and len(common) >= LEAST else None,
        seed=seed,
    )
    content = found.to_dict()
    content["top_architecture"] = scored[content.pop("top")].architecture
    return TrustRecord.model_validate(content)


@dataclass(frozen=True)
class StagedScoring:
    """Scores an architecture by the estimators of a task."""

    tasks: Mapping[str, Scoring]

    def __call__(self, item: tuple[str, Architecture]) -> list[Score] | Failure:
        """The scores of one (task, architecture)."""
        task, architecture = item
        return self.tasks[task](architecture)


ScoreMapper = Mapper[tuple[str, Architecture], list[Score] | Failure]


def score_records(scores: list[Score]) -> list[dict[str, Any]]:
    """Scores as plain values, without the time they took."""
    return [
        ScoreRecord(estimator=score.estimator, value=score.value, policy=score.policy).model_dump() for score in scores
    ]


RESAMPLES = 500


def scoring_tasks(run: Run, others: Sequence[Run]) -> dict[str, Scoring]:
    """What scores by which supernet: ``rank`` by that of the run, and others by those of further seeds.

    With several ``rank.seeds`` all estimators score by all supernets, each with batches and fresh weights of its seed.
    Otherwise the estimator in question scores by the second supernet alike, to see how far to trust the ranking.
    """
    names = run.settings.rank.estimators
    tasks = {"rank": Scoring(run.net, run.estimators(names))}
    for place, other in enumerate(others, start=2):
        if run.settings.rank.seeds > 1:
            tasks[f"rank-seed-{place}"] = Scoring(other.net, other.estimators(names))
        else:
            tasks["rank-second"] = Scoring(other.net, run.estimators(judges(tasks["rank"].estimators)[:1]))
    return tasks


def rank(run: Run, tasks: Mapping[str, Scoring]) -> RankingRecord:
    """Scores architectures by every estimator and compares the scores with the truth or with each other.

    With several ``rank.seeds``, architectures without a score by one of the supernets are left out.

    Args:
        tasks: those of `scoring_tasks`.
    """
    settings, seed = run.settings.rank, run.settings.seed
    truth = None if settings.truth is None else truth_for(settings.truth, run.net.space)
    architectures = _ranked(run, truth)
    with run.stop.at_once(), run.executor().open(StagedScoring(tasks)) as score:
        known, *again = (_scored(run, task, score, architectures) for task in tasks)
    further = again if settings.seeds > 1 else []
    scored = [
        ScoredArchitecture(
            architecture=architecture.to_dict(),
            scores=known[architecture.key],
            parameters=run.alone.parameter_count(architecture),
            truth=None if truth is None else truth.accuracy(architecture),
            further_seeds=[scores[architecture.key] for scores in further],
        )
        for architecture in architectures
        if all(architecture.key in scores for scores in (known, *further))
    ]
    estimators = tasks["rank"].estimators
    names, judging = [estimator.name for estimator in estimators], judges(estimators)
    repeated = [
        {key: score.value for key, scores in one.items() for score in scores if score.estimator == judging[0]}
        for one in again
    ]
    unit = "percent" if truth is not None else unit_of(estimators[0], run.task)
    return RankingRecord(
        reference=names[0] if truth is None else truth.name,
        architectures=scored,
        quality=_quality(scored, names, known_truth=truth is not None, unit=unit, seed=seed),
        seeds=1 + len(further),
        trust=trust_record(scored, judging, repeated, seed=seed),
        **({} if truth is None else _comparison(scored, names, seed=seed)),
    )


def _scored(
    run: Run, task: str, score: ScoreMapper, architectures: Sequence[Architecture]
) -> dict[str, list[ScoreRecord]]:
    """The scores of one task by the key of the architecture; those that failed are left out."""
    items = {architecture.key: (task, architecture) for architecture in architectures}
    with run.display.stage("rank" if task == "rank" else "rank again") as report:
        known = run_missing(items, run.workspace.journal(task), score, _to_record, report)
    found = {key: record["scores"] for key, record in known.items() if "scores" in record}
    return {key: [ScoreRecord(**values) for values in scores] for key, scores in found.items()}


def _ranked(run: Run, truth: Truth | None) -> list[Architecture]:
    """Random architectures that the truth knows, or its own, where it does not know the whole space."""
    count = run.settings.rank.architectures
    members = None if truth is None else known_members(truth, run.net.space)
    if members is None:
        return [member for member in run.draw(count, "rank") if truth is None or member in truth]
    return [member for member in members if run.limits.allows(member)][:count]


def _to_record(outcome: list[Score] | Failure) -> dict[str, Any]:
    return {"failure": outcome.reason} if isinstance(outcome, Failure) else {"scores": score_records(outcome)}


def unit_of(estimator: Estimator, task: Task) -> AccuracyUnit | None:
    """The unit of an estimator's scores, if they are accuracies."""
    is_accuracy = isinstance(estimator, (ValAcc, ValAccAfter)) and task.selection.name == "accuracy"
    return "fraction" if is_accuracy else None


def _quality(
    scored: list[ScoredArchitecture], names: Sequence[str], *, known_truth: bool, unit: AccuracyUnit | None, seed: int
) -> dict[str, Any]:
    """Agreement of every estimator with the truth, or with the first estimator."""
    if len(scored) < 3:
        return {}
    reference = None if known_truth else names[0]
    truth = _true_values(scored) if reference is None else _rows(scored, reference)
    return {
        name: rank_quality(_rows(scored, name), truth, unit=unit, resamples=RESAMPLES, seed=seed).to_dict()
        for name in names
        if name != reference
    }


def _comparison(scored: list[ScoredArchitecture], names: Sequence[str], *, seed: int) -> dict[str, Any]:
    """The true values on top of every estimator, and the differences of every two, as fields of the record."""
    if len(scored) < 3:
        return {}
    scores = {name: _rows(scored, name) for name in names}
    return compare_estimators(scores, _true_values(scored), resamples=RESAMPLES, seed=seed).to_dict()


def _rows(scored: list[ScoredArchitecture], name: str) -> list[list[float]]:
    """The scores by one estimator: (seeds, n)."""
    return [list(row) for row in zip(*(item.scores_by_seed(name) for item in scored), strict=True)]


def _true_values(scored: list[ScoredArchitecture]) -> list[float]:
    return [item.truth for item in scored if item.truth is not None]


def summary(results: Results) -> Iterator[str | Table]:
    """The agreement of estimators, and what early elimination saved."""
    found = results.found(OneShotRecord) or OneShotRecord()
    if found.ranking:
        yield from _ranking(found.ranking)
    if found.elimination:
        yield from _elimination(found.elimination)


def _ranking(found: RankingRecord) -> Iterator[str | Table]:
    """The agreement of every estimator with the reference, what it puts on top, and their differences."""
    tops = [f"truth of the top {one.k}" for one in list(found.top.values())[:1]]
    table = Table("estimator", f"Spearman with {found.reference}", "95 % interval", *tops)
    for name, quality in found.quality.items():
        table.add_row(
            name, *_shown(IntervalRecord(**quality["spearman"]), ".2f"), *(top_text(found.top[name]) for _ in tops)
        )
    yield table
    if found.differences:
        heads = [head for _ in tops for head in ("top", "95 % interval")]
        differences = Table("difference", "Spearman", "95 % interval", *heads)
        for one in found.differences:
            top = () if one.top is None else _shown(one.top, "+.4f")
            differences.add_row(f"{one.first} - {one.second}", *_shown(one.spearman, "+.2f"), *top)
        yield differences
    if found.seeds > 1:
        yield f"Means over {found.seeds} supernets; intervals over supernets and architectures."


def top_text(top: TopRecord) -> str:
    """Mean and standard deviation: 93.1 ± 0.42."""
    return f"{top.mean.value:.4g} ± {top.spread:.2g}"


def _shown(interval: IntervalRecord, form: str) -> tuple[str, str]:
    """The value, and from where to where."""
    value, low, high = (
        "-" if one is None else format(one, form) for one in (interval.value, interval.low, interval.high)
    )
    return value, f"{low} to {high}"


def _elimination(found: EliminationRecord) -> Iterator[str | Table]:
    """The best ten, and the steps that were saved."""
    table = Table("rank", Column("architecture", overflow="fold"), "steps", "sum of losses")
    for place, one in enumerate(found.architectures[:10], 1):
        loss = "diverged" if one.value is None else f"{-one.value:.2f}"
        table.add_row(str(place), Text("|".join(one.architecture.values())), str(one.steps), loss)
    yield table
    yield f"Steps: {found.spent:,} instead of {found.full_steps:,} ({found.spent / found.full_steps:.0%})."


FIRST_SHARE = 8
"""The first rung is at this part of the steps; from rung to rung the steps double and the architectures halve."""


def rungs_of(settings: RunSettings) -> tuple[int, ...]:
    """The steps after which the worse half is eliminated, the whole short run last."""
    steps = settings.scores.steps
    return geometric_rungs(steps, first=max(steps // FIRST_SHARE, 1))


def eliminate(run: Run) -> EliminationRecord:
    """Ranks random architectures by successive halving; losses go to a journal, and a killed run reads them there."""
    architectures = run.draw(run.settings.rank.architectures, "rank")
    rungs = rungs_of(run.settings)
    journal = run.workspace.journal("halving")
    known = {record["key"]: tuple(_from_json(loss) for loss in record["losses"]) for record in journal.records}
    total = sum(halving_counts(len(architectures), rungs))
    with run.display.stage("rank") as report:

        def note(key: str, curve: Curve) -> None:
            journal.append({"key": key, "losses": [None if math.isnan(loss) else loss for loss in curve]})
            report(len(journal.records), total, "")

        report(len(journal.records), total, "")
        with run.stop.at_once():
            found = successive_halving(
                run.net, architectures, run.scores.short_run(), run.executor(), rungs=rungs, known=known, note=note
            )
    ranked = [
        EliminatedArchitecture(
            architecture=architectures[position].to_dict(),
            parameters=run.alone.parameter_count(architectures[position]),
            steps=found.steps[position],
            value=found.values[position] if math.isfinite(found.values[position]) else None,
        )
        for position in found.order
    ]
    return EliminationRecord(rungs=list(rungs), architectures=ranked, spent=found.spent, full_steps=found.full_steps)


def _from_json(loss: float | None) -> float:
    return math.nan if loss is None else loss
