"""The method: train one elastic network, measure all its sizes, deliver the best."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from polyarch.data import Dataset
from polyarch.errors import ConfigError
from polyarch.methods.front.delivery import deliver
from polyarch.methods.front.extraction import extract
from polyarch.methods.front.record import FrontRecord
from polyarch.methods.front.settings import FrontSettings
from polyarch.methods.front.sizes import end_seconds, sizes_of
from polyarch.methods.front.suggestion import suggest_front
from polyarch.methods.front.training import ElasticTraining
from polyarch.methods.method import Method
from polyarch.reports.section import Section
from polyarch.results import PredictorRecord, Results, SizeRecord, TrainingRecord
from polyarch.runs.checks import check_run
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import PlannedStage, Timings
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import Outcome, Stage
from polyarch.runs.suggestion import Suggestion
from polyarch.training.laps import thinned


class Front(Method):
    """Trains one elastic network so that subnetworks of every size are good with the weights they inherit.

    The sandwich rule with distillation in place, and statistics of its own for every size.
    """

    Settings = FrontSettings
    Record = FrontRecord
    section = "front"
    can_finish_now = True
    plans_its_time = True

    def suggest(self, asked: RunSettings, data: Dataset, builder: Builder | None) -> Suggestion:
        return suggest_front(asked, data, builder)

    def check(self, run: Run) -> None:
        check_run(run)
        if not sizes_of(run):
            limits = " within the limits" if run.counted_limits.limits else ""
            raise ConfigError(
                f"Expected a space whose networks share weights and differ in size{limits}, such as resnet, mobile or "
                f"mlp with elastic = true. Got {run.settings.space.kind!r}."
            )

    def measure(self, run: Run) -> Timings:
        return Timings(0.0)

    def plan(self, run: Run, timings: Timings) -> list[PlannedStage]:
        seconds = run.settings.section(FrontSettings).seconds
        assert seconds is not None
        sizes = sizes_of(run)
        work = f"{several(len(sizes), 'size')} at once, {len(run.feed.train):,} examples"
        end = "every size measured, calibration, artifact and report"
        return [PlannedStage("train", work, seconds), PlannedStage("deliver", end, end_seconds(run, sizes))]

    def stages(self, run: Run) -> Sequence[Stage]:
        def train(outcome: Outcome) -> None:
            rows = ElasticTraining(run).train().rows
            points = [{"epoch": float(place), **point} for place, point in enumerate(thinned(rows))]
            outcome.training = TrainingRecord(strategy="sandwich", history=points)
            steps.append(int(rows[-1]["step"]) if rows else 0)  # stopped in its first lap

        steps: list[int] = []
        return [Stage("train", train), Stage("deliver", lambda outcome: deliver(run, outcome, steps[-1]))]

    def summary(self, results: Results) -> Iterable[str | Table]:
        found = results.found(FrontRecord)
        if found is not None:
            best = found.sizes[found.best]
            yield f"Sizes: {len(found.sizes)}, the best of them {found.best} ({best.macs:,.0f} multiply-accumulates)."
            yield "`polyarch front` lists them, and `polyarch extract` takes one."

    def report(self, results: Results) -> Section:
        from polyarch.methods.front.report import section

        return section(results)

    def sizes(self, results: Results) -> list[SizeRecord]:
        return self._record(results).sizes

    def extract(self, run: Run, results: Results, index: int, folder: Path, minutes: float | None) -> PredictorRecord:
        return extract(run, self._record(results), index, folder, minutes)

    def _record(self, results: Results) -> FrontRecord:
        found = results.found(FrontRecord)
        if found is None:
            raise ConfigError("Expected a finished run. Got one whose sizes are not measured yet; go on with --resume.")
        return found
