"""One-shot search: train a supernet by sampled paths, rank, search, train the best alone and compare."""

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from rich.table import Table

from polyarch.errors import ConfigError
from polyarch.estimators import Scoring
from polyarch.methods.method import Method
from polyarch.methods.one_shot.further_supernets import further_count, further_supernets
from polyarch.methods.one_shot.ranking import eliminate, rank, rungs_of, scoring_tasks, summary
from polyarch.methods.one_shot.record import OneShotRecord
from polyarch.methods.one_shot.searching import ensemble_members, sampler_of, search
from polyarch.ranking import halving_steps
from polyarch.reports.section import Section
from polyarch.results import Results
from polyarch.runs.comparison import compare
from polyarch.runs.display import several
from polyarch.runs.plan import PlannedStage, Timings, planned_export, planned_retraining, start_seconds, time_steps
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import Outcome, Stage
from polyarch.runs.training import train_supernet
from polyarch.tables.lookup import known_members, truth_for


@dataclass(frozen=True)
class ScoreTimings(Timings):
    """Also the seconds of scoring one architecture when ranking and when searching."""

    rank: float = 0.0
    search: float = 0.0


class OneShot(Method):
    """Weight sharing with an estimator of training speed.

    Ru et al. (2021), Speedy Performance Estimation for Neural Architecture Search, arXiv:2006.04492; Guo et al. (2020),
    Single Path One-Shot Neural Architecture Search with Uniform Sampling, arXiv:1904.00420.
    """

    Record = OneShotRecord
    takes = frozenset({"evaluation"})
    always_suggests = False

    def adapted(self, run: Run, asked: RunSettings) -> tuple[RunSettings, str | None]:
        """A truth that knows only some architectures has all of them ranked, unless a number was asked for."""
        settings = run.settings
        if settings.rank.truth is None or "architectures" in asked.rank.model_fields_set:
            return settings, None
        truth = truth_for(settings.rank.truth, run.net.space)
        members = known_members(truth, run.net.space)
        if members is None:
            return settings, None
        changed = settings.changed({"rank": {"architectures": len(members)}})
        return changed, f"rank: the {len(members)} architectures of {truth.name}"

    def check(self, run: Run) -> None:
        """Among the rest, that the truth is about the space and the sampler fits the objectives."""
        settings = run.settings
        if run.until != "train" and settings.rank.truth is not None:
            if settings.rank.halving:
                raise ConfigError(
                    "Expected rank.halving or rank.truth. Got both; eliminated architectures have no score."
                )
            truth_for(settings.rank.truth, run.net.space)
        if settings.rank.halving and settings.rank.seeds > 1:
            raise ConfigError(
                f"Expected rank.halving or several rank.seeds. Got both, with {settings.rank.seeds} seeds; eliminated "
                "architectures have no score."
            )
        if run.until is None:
            sampler_of(settings.search)
        super().check(run)

    def measure(self, run: Run) -> ScoreTimings:
        steps, settings = time_steps(run), run.settings
        return ScoreTimings(
            steps.step,
            steps.paths,
            steps.batches,
            steps.alone,
            rank=_rank_seconds(run) if run.until != "train" else 0.0,
            search=_score_seconds(run, settings.search.objectives) if run.until is None else 0.0,
        )

    def plan(self, run: Run, timings: Timings) -> list[PlannedStage]:
        assert isinstance(timings, ScoreTimings)
        settings, examples = run.settings, len(run.feed.train)
        train, workers, count = settings.train, settings.workers, settings.rank.architectures
        further = further_count(settings) if run.until != "train" else 0
        waves = math.ceil(count / workers)
        trained = PlannedStage(
            "train",
            f"{_supernets(1 + further)} of {settings.space.kind}, {train.strategy}, "
            f"{several(train.epochs, 'epoch')} of {examples} examples",
            timings.step
            * timings.steps(settings, examples)
            * train.epochs
            * (1 + further if workers == 1 else max(further, 1)),
        )
        by = "sotl with early elimination" if settings.rank.halving else ", ".join(settings.rank.estimators)
        again = timings.rank * further if settings.rank.seeds > 1 else timings.search * further
        score = timings.rank + again
        ranked = PlannedStage(
            "rank", f"{count} architectures by {by}", start_seconds(settings) + score * waves if waves else 0.0
        )
        budget, objectives = settings.search.budget, ", ".join(settings.search.objectives)
        searched = PlannedStage(
            "search",
            f"{budget} architectures by {settings.search.sampler} on {objectives}",
            timings.search * math.ceil(budget / workers),
        )
        retrained = planned_retraining(settings, examples, timings.example(settings, examples))
        planned = [trained, ranked, searched, retrained, planned_export()]
        return planned[: {"train": 1, "rank": 2, None: 5}[run.until]]

    def stages(self, run: Run) -> Sequence[Stage]:
        record = OneShotRecord()
        others: list[Run] = []

        def train(outcome: Outcome) -> None:
            """Trains the supernet and, beside it, those of further seeds by which the ranking is checked."""
            with further_supernets(run) if run.until != "train" else nullcontext() as further:
                outcome.training = train_supernet(run)
                others.extend(further() if further else [])

        def rank_random(outcome: Outcome) -> None:
            """Ranks random architectures, all to the end or with early elimination."""
            outcome.record = record
            if run.settings.rank.architectures and run.settings.rank.halving:
                record.elimination = eliminate(run)
            elif run.settings.rank.architectures:
                record.ranking = rank(run, scoring_tasks(run, others))

        def look_for_best(outcome: Outcome) -> None:
            record.search = search(run)

        def retrain(outcome: Outcome) -> None:
            assert record.search is not None
            compare(run, outcome, ensemble_members(run, record.search), outcome.training.q)

        return [
            Stage("train", train),
            Stage("rank", rank_random),
            Stage("search", look_for_best),
            Stage("retrain", retrain),
        ]

    def summary(self, results: Results) -> Iterable[str | Table]:
        yield from summary(results)
        yield from super().summary(results)

    def report(self, results: Results) -> Section:
        from polyarch.methods.one_shot.report import section

        return section(results)


def _supernets(count: int) -> str:
    return {1: "supernet", 2: "two supernets"}.get(count, f"{count} supernets")


def _score_seconds(run: Run, names: Sequence[str]) -> float:
    """The time of one score of one random architecture."""
    (architecture,) = run.draw(1, "plan")
    started = time.perf_counter()
    Scoring(run.net, run.estimators(names))(architecture)
    return time.perf_counter() - started


def _rank_seconds(run: Run) -> float:
    """The mean time per architecture that is ranked."""
    settings = run.settings
    if not settings.rank.halving:
        return _score_seconds(run, settings.rank.estimators)
    rungs, count = rungs_of(settings), max(settings.rank.architectures, 1)
    return _score_seconds(run, ("sotl",)) * halving_steps(count, rungs) / (count * rungs[-1])
