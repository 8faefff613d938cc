"""What a run is going to do, about how long it takes, and a schedule that fits into a number of minutes."""

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from rich.table import Table

from polyarch.data import endless
from polyarch.errors import ConfigError, NotFiniteError
from polyarch.estimators import MACs
from polyarch.executors import one_thread
from polyarch.randomness import generator_at
from polyarch.runs.display import Display, several
from polyarch.runs.divergence import naming_divergence
from polyarch.runs.evaluation import evaluation_of
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.space_settings import interchoice_of

WARM_UP_STEPS = 8
START_SECONDS = 5.0
"""What it takes to start worker processes."""
STEP_OVER_FORWARD = 3.0
"""What a training step takes, in forward passes over its batch."""
EXPORT_SECONDS = 40.0
"""What calibration, artifacts and report take; kept free at the end of a limited time."""
LARGER = 1.5
"""Networks that a search finds train slower than random ones, because it prefers large ones."""


@dataclass(frozen=True)
class PlannedStage:
    """A stage in words, with an estimate in seconds."""

    name: str
    work: str
    seconds: float


@dataclass(frozen=True)
class Timings:
    """The measured seconds of a supernet step, which passes ``paths`` architectures over each of ``batches`` batches.

    Methods that need to know more subclass it.

    Args:
        alone: see `work_alone`.
    """

    step: float = 0.0
    paths: int = 1
    batches: int = 1
    alone: float = 1.0

    def steps(self, settings: RunSettings, examples: int) -> float:
        """Supernet steps of an epoch of so many examples; a last, shorter one counts by its share of batches."""
        return examples // min(settings.train.batch_size, examples) / self.batches

    def example(self, settings: RunSettings, examples: int) -> float:
        """Seconds to train one architecture alone on one example."""
        return self.alone * self.step / (self.paths * self.batches * min(settings.train.batch_size, examples))


def timings_of(run: Run) -> Timings:
    """What the method measures for its plan, by one thread as in the run, and without a trace in torch's generator."""
    with one_thread(), torch.random.fork_rng():
        try:
            return run.method.measure(run)
        except NotFiniteError as error:
            raise error.at("in the first steps, which were timed for the plan") from None


def time_steps(run: Run) -> Timings:
    """Times the very training steps of the run on copies of supernet and optimiser: the run itself is untouched."""
    strategy = run.method.training(replace(run, net=copy.deepcopy(run.net))).strategy
    size = strategy.batches_per_step
    source = run.feed.training_batches(run.settings.train.batch_size)
    batches = list(islice(source.epoch(0), max(WARM_UP_STEPS, size)))
    groups = [batches[first : first + size] for first in range(0, len(batches) - size + 1, size)]
    held_out_batches = run.feed.held_out_batches(run.settings.train.batch_size)
    held_out = list(islice(endless(held_out_batches), strategy.held_out_per_step))
    with naming_divergence("train.learning_rate", run.settings.train.learning_rate):
        if size <= WARM_UP_STEPS:
            strategy.step(groups[0], held_out, generator=generator_at(0, "plan", 0))
        started = time.perf_counter()
        for index, group in enumerate(groups):
            strategy.step(group, held_out, generator=generator_at(0, "plan", index))
        seconds = (time.perf_counter() - started) / len(groups)
    return Timings(seconds, strategy.paths_per_step, size, work_alone(run))


def work_alone(run: Run) -> float:
    """How many times the work of a network in the supernet the same one is that is trained alone.

    It differs in spaces with an evaluation only, and is counted on one architecture.
    """
    if evaluation_of(run.settings.space) is None:
        return 1.0
    architecture = run.net.space.sample(generator_at(run.settings.seed, "work alone", 0))
    macs = MACs(run.feed.example.inputs)
    return macs.score(run.alone, architecture) / macs.score(run.net, architecture)


def start_seconds(settings: RunSettings) -> float:
    """To start worker processes, if there are any."""
    return START_SECONDS if settings.workers > 1 else 0.0


DELIVERY_SECONDS, PROGRAM_SECONDS = 5.0, 10.0
"""What choosing and judging take at the end of a run that plans its time, and each kind of program beside that."""

SMALL_SECONDS, MOST_SECONDS = 120.0, 860.0
"""What such a run takes on small data without a limit on the minutes, and the most that it takes on large data."""


def delivery_seconds(settings: RunSettings) -> float:
    """What is kept of the time for the end."""
    return DELIVERY_SECONDS + PROGRAM_SECONDS * len(settings.programs)


def usual_seconds(examples: int) -> float:
    """What a run on so many training examples takes without a limit on the minutes."""
    return min(max(SMALL_SECONDS, SMALL_SECONDS * math.pow(examples / 2000, 0.6)), MOST_SECONDS)


def planned_retraining(settings: RunSettings, examples: int, example: float) -> PlannedStage:
    """Networks trained alone, where an architecture takes ``example`` seconds for an example."""
    retrain, workers = settings.retrain, settings.workers
    networks = retrain.seeds + retrain.members - 1 + retrain.random_architectures
    return PlannedStage(
        "retrain",
        f"{retrain.seeds} x the best, {retrain.members - 1} more for the ensemble and "
        f"{retrain.random_architectures} random ones, {several(retrain.epochs, 'epoch')}",
        start_seconds(settings) + math.ceil(networks / workers) * examples * retrain.epochs * example * LARGER,
    )


def planned_export(seconds: float = 0.0, work: str = "calibration, artifacts and report") -> PlannedStage:
    """The end of every run; ``seconds`` are what a method takes beyond the usual."""
    return PlannedStage("export", work, EXPORT_SECONDS + seconds)


def total_seconds(planned: Sequence[PlannedStage]) -> float:
    """What all stages together take."""
    return math.fsum(stage.seconds for stage in planned)


def show_plan(display: Display, planned: Sequence[PlannedStage], workers: int, *, resumed: bool = False) -> None:
    """Shows every stage with its time, and the total."""
    table = Table("stage", "work", "about")
    for stage in planned:
        table.add_row(stage.name, stage.work, in_words(stage.seconds))
    display.say(table)
    display.say(f"About {in_words(total_seconds(planned))} with {several(workers, 'worker')} from the start.")
    if resumed:
        display.say("Stages that are already finished are not run again.")


def in_words(seconds: float) -> str:
    """For people: '40 seconds', '12 minutes', '3.5 hours'."""
    if seconds < 120:
        return several(max(round(seconds), 1), "second")
    return several(round(seconds / 60), "minute") if seconds < 90 * 60 else f"{seconds / 3600:.1f} hours"


CAUTION = 0.75
"""The share of the time that is planned for: machines are noisy, and the first steps tell little."""

MOST_EPOCHS = {"train": 200, "retrain": 100}


def fitted(
    run: Run, planned: Callable[[RunSettings], list[PlannedStage]], *, asked: RunSettings, stretch: bool
) -> tuple[RunSettings, str | None]:
    """Settings whose plan takes about three quarters of ``max_minutes``, and what was changed, in words.

    Epochs and budgets shrink together until the plan fits; with ``stretch`` epochs also grow into time that is left.

    Args:
        asked: what the user set; that stays as it is.
    """
    settings = run.settings
    if settings.max_minutes is None:
        return settings, None
    allowed = 60 * settings.max_minutes
    target = CAUTION * allowed
    seconds = total_seconds(planned(settings))
    factor = 1.0
    if seconds > target:
        while seconds > target and factor > 0.005:
            factor *= 0.95
            seconds = total_seconds(planned(_scaled(run, factor, asked)))
        if seconds > allowed:
            raise ConfigError(
                f"Expected a run of at most {in_words(allowed)}. The shortest takes about {in_words(seconds)}; "
                "data.limit keeps fewer examples, and settings that you gave are not cut."
            )
    elif stretch:
        while seconds < 0.95 * target and factor < 50:
            factor *= 1.05
            seconds = total_seconds(planned(_scaled(run, factor, asked)))
    changed = _scaled(run, factor, asked)
    if changed == settings:
        return settings, None
    epochs = run.method.schedule_in_words(changed)
    return changed, f"time: {epochs}, so that the run takes about {in_words(seconds)} of {in_words(allowed)}"


def _scaled(run: Run, factor: float, asked: RunSettings) -> RunSettings:
    """All that costs time and was not given by the user, times the factor; what is compared only shrinks."""
    settings = run.settings
    retrain, shrink = settings.retrain, min(factor, 1.0)
    most = {section: max(MOST_EPOCHS[section], getattr(settings, section).epochs) for section in MOST_EPOCHS}
    if run.method.baseline_trains_as_long:
        most["retrain"] = max(MOST_EPOCHS["train"], retrain.epochs)
    least = run.method.fewest_epochs(settings)
    change: dict[str, Mapping[str, Any]] = {
        "train": {"epochs": min(max(int(settings.train.epochs * factor), least), most["train"])},
        "retrain": {
            "epochs": min(max(int(retrain.epochs * factor), 1), most["retrain"]),
            "seeds": shrunk(retrain.seeds, shrink**0.5, least=1),
            "random_architectures": shrunk(retrain.random_architectures, shrink**0.5, least=1),
        },
        "rank": {"architectures": shrunk(settings.rank.architectures, shrink, least=3)},
        "search": {"budget": shrunk(settings.search.budget, shrink, least=10)},
        **run.method.shrunk(settings, shrink),
    }
    free = {}
    for name, values in change.items():
        section = asked.sections.get(name) or getattr(asked, name)
        free[name] = {key: value for key, value in values.items() if key not in section.model_fields_set}
    return settings.changed(free)


def shrunk(count: int, factor: float, *, least: int) -> int:
    """A count times the factor, but not below ``least``."""
    return max(int(count * factor), min(count, least))


def supernet_epochs(settings: RunSettings) -> int:
    """The fewest epochs of a supernet: split weights are trained apart for one epoch or more."""
    interchoice = interchoice_of(settings.space)
    return 1 if interchoice is None or interchoice.split_epoch is None else interchoice.split_epoch + 1
