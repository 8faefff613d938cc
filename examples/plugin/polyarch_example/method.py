"""A method: score random architectures without any training, and train the best alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from polyarch.estimators import Failure, Score, Scoring
from polyarch.methods.method import Method
from polyarch.reports.section import Section, Tile
from polyarch.results import Record, Results
from polyarch.runs.checks import check_run
from polyarch.runs.comparison import compare
from polyarch.runs.plan import PlannedStage, Timings, planned_export, planned_retraining, time_steps
from polyarch.runs.run import Run
from polyarch.runs.stage import Outcome, Stage
from polyarch.runs.workspace import run_missing
from polyarch.settings import Settings
from polyarch.spaces import Architecture


class TrainingFreeSettings(Settings):
    """Which architectures are scored, and by what."""

    estimator: str = "gradient_norm"
    candidates: int = 50


class TrainingFreeRecord(Record):
    """The scores, the best first, by the key of the architecture."""

    estimator: str
    scores: dict[str, float]


class TrainingFree(Method):
    """The best of random architectures by an estimator that needs no trained supernet."""

    Settings = TrainingFreeSettings
    Record = TrainingFreeRecord
    section = "training_free"

    def check(self, run: Run) -> None:
        """Finds what is wrong before anything is written."""
        check_run(run)
        run.estimators([run.settings.section(TrainingFreeSettings).estimator])
        run.draw(1, "check")

    def measure(self, run: Run) -> Timings:
        """Times training steps, from which the plan knows what a network trained alone takes."""
        return time_steps(run)

    def plan(self, run: Run, timings: Timings) -> list[PlannedStage]:
        """Scores cost next to nothing; training the best takes the time."""
        chosen, examples = run.settings.section(TrainingFreeSettings), len(run.feed.train)
        work = f"{chosen.candidates} architectures by {chosen.estimator}"
        retraining = planned_retraining(run.settings, examples, timings.example(run.settings, examples))
        return [PlannedStage("score", work, 0.05 * chosen.candidates), retraining, planned_export()]

    def stages(self, run: Run) -> Sequence[Stage]:
        """Scores, then the comparison with random architectures."""
        best: list[Architecture] = []

        def score(outcome: Outcome) -> None:
            found = scored(run)
            best.extend(sorted(found, key=lambda one: -found[one])[: run.settings.retrain.members])
            ordered = sorted(found.items(), key=lambda pair: -pair[1])
            name = run.settings.section(TrainingFreeSettings).estimator
            outcome.record = TrainingFreeRecord(estimator=name, scores={one.key: value for one, value in ordered})

        return [Stage("score", score), Stage("retrain", lambda outcome: compare(run, outcome, best))]

    def report(self, results: Results) -> Section:
        """A table of the best scores."""
        found = results.found(TrainingFreeRecord)
        if found is None:
            return Section()
        tile = Tile("scored", str(len(found.scores)), "architectures, without any training")
        return Section(
            template=Path(__file__).with_name("report.html"),
            tiles=[tile],
            values={"estimator": found.estimator, "scores": list(found.scores.items())[:10]},
        )


def scored(run: Run) -> dict[Architecture, float]:
    """Scores by architecture; a journal keeps them, so that a killed run goes on where it was."""
    chosen = run.settings.section(TrainingFreeSettings)
    drawn = {one.key: one for one in run.draw(chosen.candidates, "training free")}
    task = Scoring(run.net, run.estimators([chosen.estimator]))
    with run.display.stage("score") as report, run.stop.at_once(), run.executor().open(task) as score:
        records = run_missing(drawn, run.workspace.journal("scores"), score, _record, report)
    return {drawn[key]: record["value"] for key, record in records.items() if record["value"] is not None}


def _record(scores: list[Score] | Failure) -> dict[str, float | None]:
    return {"value": None if isinstance(scores, Failure) else scores[0].value}
