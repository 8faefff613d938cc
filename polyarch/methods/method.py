"""What a method is: one object that says how an answer is found.

A run goes through a method in this order: `suggest` -> `check` -> `measure` and `plan` -> `stages` -> `report`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.table import Table

from polyarch.data import Dataset
from polyarch.errors import ConfigError
from polyarch.reports.section import Section
from polyarch.results import PredictorRecord, Record, Results, SizeRecord
from polyarch.runs.checks import check_run, check_training
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import PlannedStage, Timings, planned_export, planned_retraining, supernet_epochs, time_steps
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import Stage
from polyarch.runs.suggestion import Suggestion, suggest
from polyarch.runs.training import Training, named_training
from polyarch.settings import Settings


class Method(ABC):
    """How an answer is found; everything but `stages` has a default that fits a search in a trained supernet.

    Args:
        name: the name under which it is registered; one class may serve several.

    Attributes:
        section: what its settings are called in a run description; empty if it has none.
        takes: which of ``gates``, ``wirings``, ``unlabelled`` examples and a space's ``evaluation`` it can use.
        always_suggests: whether `suggest` is asked for a schedule even where the user names a space.
        baseline_trains_as_long: whether networks that are trained alone to compare with take as many epochs.
        can_finish_now: whether a resumed run can end with the best so far.
        plans_its_time: whether `suggest` has fitted the run into the minutes that were asked for.
    """

    Settings: ClassVar[type[Settings]] = Settings
    Record: ClassVar[type[Record]] = Record
    section: ClassVar[str] = ""
    takes: ClassVar[frozenset[str]] = frozenset()
    always_suggests: ClassVar[bool] = True
    baseline_trains_as_long: ClassVar[bool] = False
    can_finish_now: ClassVar[bool] = False
    plans_its_time: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name

    def suggest(self, asked: RunSettings, data: Dataset, builder: Builder | None) -> Suggestion:
        """A space and a schedule for the data, with reasons; what was asked for stays."""
        return suggest(asked, data, builder)

    def adapted(self, run: Run, asked: RunSettings) -> tuple[RunSettings, str | None]:
        """The settings once the space is known, and what was changed, in words."""
        return run.settings, None

    def check(self, run: Run) -> None:
        """Refuses what cannot work before anything is written."""
        check_run(run)
        check_training(run)
        run.draw(1, "check")

    def training(self, run: Run) -> Training:
        """How the supernet is trained: by ``train.strategy``, unless the method has its own way."""
        return named_training(run)

    def measure(self, run: Run) -> Timings:
        """Times what the plan needs to know."""
        return time_steps(run)

    def plan(self, run: Run, timings: Timings) -> list[PlannedStage]:
        """What will be done, with estimates in seconds."""
        settings, examples = run.settings, len(run.feed.train)
        seconds = timings.step * timings.steps(settings, examples) * settings.train.epochs
        work = f"{self.name} on {settings.space.kind}, {several(settings.train.epochs, 'epoch')} of {examples} examples"
        retraining = planned_retraining(settings, examples, timings.example(settings, examples))
        planned = [PlannedStage("train", work, seconds), retraining, planned_export()]
        return planned[:1] if run.until == "train" else planned

    def schedule_in_words(self, settings: RunSettings) -> str:
        """The epochs of a schedule that was fitted into a number of minutes."""
        epochs = several(settings.train.epochs, "epoch")
        return f"{epochs} for the supernet and {settings.retrain.epochs} for each network trained alone"

    def fewest_epochs(self, settings: RunSettings) -> int:
        """The least that a short time may leave of ``train.epochs``."""
        return supernet_epochs(settings)

    def shrunk(self, settings: RunSettings, factor: float) -> Mapping[str, Mapping[str, Any]]:
        """Its own settings that cost time, section -> name -> value, times a factor of 1 or less."""
        return {}

    @abstractmethod
    def stages(self, run: Run) -> Sequence[Stage]:
        """The stages in order: named, resumable, each filling in the `Outcome`."""

    def summary(self, results: Results) -> Iterable[str | Table]:
        """What the terminal shows at the end, beside test accuracies."""
        if results.artifact:
            yield "Best architecture: " + "|".join(results.artifact["architecture"].values())

    def report(self, results: Results) -> Section:
        """Its part of the report."""
        return Section()

    def sizes(self, results: Results) -> list[SizeRecord]:
        """Networks of several sizes that `extract` can take out of a finished run; refuses runs that have none."""
        raise ConfigError(f"Expected a run of search --front, which has sizes. Got one of method {self.name!r}.")

    def extract(self, run: Run, results: Results, index: int, folder: Path, minutes: float | None) -> PredictorRecord:
        """Writes the artifact of one of the `sizes` of a finished run into a folder.

        Args:
            minutes: for training it further before; as it is by default.
        """
        raise ConfigError(f"Expected a run of search --front, which has sizes. Got one of method {self.name!r}.")
