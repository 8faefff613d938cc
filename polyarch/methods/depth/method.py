"""The methods that look for a depth: learned in one training, or the best of several fixed ones."""

import math
from collections.abc import Iterable, Sequence

from rich.table import Table

from polyarch.data import Dataset
from polyarch.errors import ConfigError
from polyarch.methods.depth.choice import choose, require_depths
from polyarch.methods.depth.fixed import MOST_DEPTHS, allowed_depths, compare_depths
from polyarch.methods.depth.record import DepthRecord
from polyarch.methods.depth.settings import DepthSettings
from polyarch.methods.depth.strategy import variational
from polyarch.methods.depth.suggestion import SHARE_OF_WORK, suggest_depth
from polyarch.methods.method import Method
from polyarch.reports.section import Section
from polyarch.results import Results
from polyarch.runs.checks import check_run, refuse_searching
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import START_SECONDS, PlannedStage, Timings, planned_export
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import Outcome, Stage
from polyarch.runs.suggestion import Suggestion
from polyarch.runs.training import Training, train_supernet

EXPORT = "choice, calibration, artifacts and report"


class DepthMethod(Method):
    """What both have in common."""

    Settings = DepthSettings
    Record = DepthRecord
    section = "depth"

    def check(self, run: Run) -> None:
        """Among the rest, that the only choice is a depth."""
        require_depths(run)
        refuse_searching(run)
        check_run(run)
        run.draw(1, "check")

    def training(self, run: Run) -> Training:
        return variational(run)

    def summary(self, results: Results) -> Iterable[str | Table]:
        found = results.found(DepthRecord)
        if found:
            deepest = max(one.depth for one in found.depths)
            yield f"Depth: {found.chosen} of {deepest} by rule {found.rule}"
            if found.divergence is not None:
                yield f"KL(learned q || exact posterior): {found.divergence:.3f} nats"

    def report(self, results: Results) -> Section:
        from polyarch.methods.depth.report import section

        return section(results)


class VariationalDepth(DepthMethod):
    """Learns q(depth) with the weights, prunes, and predicts with the mixture of depths.

    Antorán, Allingham and Hernández-Lobato (2020), Variational Depth Search in ResNets, arXiv:2002.02797.
    """

    def suggest(self, asked: RunSettings, data: Dataset, builder: Builder | None) -> Suggestion:
        return suggest_depth(asked, data, builder, learned=True)

    def check(self, run: Run) -> None:
        """Among the rest, that the prior fits the depths."""
        super().check(run)
        if run.settings.train.strategy != "variational":
            raise ConfigError(
                f"Expected train.strategy variational for {self.name}. Got {run.settings.train.strategy!r}."
            )
        self.training(run)

    def plan(self, run: Run, timings: Timings) -> list[PlannedStage]:
        settings, examples = run.settings, len(run.feed.train)
        epochs = settings.train.epochs
        work = f"{settings.space.kind}, weights and posterior, up to {several(epochs, 'epoch')} of {examples} examples"
        seconds = timings.example(settings, examples) * examples * epochs
        planned = [PlannedStage("train", work, seconds), planned_export(work=EXPORT)]
        return planned[:1] if run.until == "train" else planned

    def schedule_in_words(self, settings: RunSettings) -> str:
        return f"up to {several(settings.train.epochs, 'epoch')}"

    def stages(self, run: Run) -> Sequence[Stage]:
        def train(outcome: Outcome) -> None:
            outcome.training = train_supernet(run)

        return [Stage("train", train), Stage("choose", lambda outcome: choose(run, outcome))]


class DeterministicDepth(DepthMethod):
    """The baseline: networks of several depths, each trained alone; validation data choose."""

    def suggest(self, asked: RunSettings, data: Dataset, builder: Builder | None) -> Suggestion:
        return suggest_depth(asked, data, builder, learned=False)

    def check(self, run: Run) -> None:
        """Among the rest, that some depth keeps the limits."""
        super().check(run)
        allowed_depths(run)

    def plan(self, run: Run, timings: Timings) -> list[PlannedStage]:
        settings, examples = run.settings, len(run.feed.train)
        retrain, depths = settings.retrain, settings.section(DepthSettings).depths
        count = (len(depths) or MOST_DEPTHS) * retrain.seeds
        example = timings.example(settings, examples) * SHARE_OF_WORK
        seconds = START_SECONDS + math.ceil(count / settings.workers) * example * examples * retrain.epochs
        work = f"{count} networks of fixed depth, {several(retrain.epochs, 'epoch')}"
        return [PlannedStage("retrain", work, seconds), planned_export(work=EXPORT)]

    def schedule_in_words(self, settings: RunSettings) -> str:
        return f"{several(settings.retrain.epochs, 'epoch')} for each network"

    def stages(self, run: Run) -> Sequence[Stage]:
        return [Stage("retrain", lambda outcome: compare_depths(run, outcome))]
