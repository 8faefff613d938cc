"""Builds a truth: trains many architectures alone and collects their learning curves in one table."""

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polyarch.errors import ConfigError, NotFiniteError
from polyarch.executors import Items, Mapper, one_thread
from polyarch.randomness import generator_at
from polyarch.ranking.correlations import correlation
from polyarch.runs.display import several
from polyarch.runs.plan import START_SECONDS, WARM_UP_STEPS, PlannedStage, show_plan
from polyarch.runs.retraining import Retraining, TrainingItem, evaluate
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.start import Beginning, decided
from polyarch.runs.workspace import run_missing
from polyarch.spaces import Architecture
from polyarch.tables import CurveTable
from polyarch.training import Callback, FitState
from polyarch.truths.equivalence import EquivalenceClass, equivalence_classes

CURVES = {"train_loss": "loss", "valid_loss": "valid_loss", "valid_accuracy": "valid_accuracy"}
"""The learning curves of the table -> their keys in an epoch's row."""

WARM_UP_NETWORKS = 4
"""The number of networks timed for the plan; their sizes vary widely."""


class Stopwatch(Callback):
    """Measures the seconds of a training, also across checkpoints and resumes."""

    def __init__(self) -> None:
        self._before = 0.0
        self._started: float | None = None

    @property
    def seconds(self) -> float:
        """The elapsed seconds, including validation."""
        return self._before + (0.0 if self._started is None else time.monotonic() - self._started)

    def on_start(self, state: FitState) -> None:
        """Starts the clock."""
        self._started = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        """The elapsed seconds."""
        return {"seconds": self.seconds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from the stored seconds."""
        self._before = state["seconds"]


@dataclass(frozen=True)
class CurveTraining:
    """Trains one (architecture, seed) alone, with its learning curves; resumes after a kill."""

    retraining: Retraining

    def __call__(self, item: TrainingItem) -> dict[str, Any]:
        """The test accuracy (0..1), the seconds and one list per curve; or the failure, if the loss diverged."""
        feed, stopwatch = self.retraining.run.feed, Stopwatch()
        try:
            network, history = self.retraining.train(item, feed.in_order(feed.valid), [stopwatch])
        except NotFiniteError as error:
            return {"failure": str(error)}
        curves = {measure: history[key] for measure, key in CURVES.items()}
        if not all(math.isfinite(value) for curve in curves.values() for value in curve):
            return {"failure": "Expected a finite validation loss. Got another; try a lower learning rate."}
        test = evaluate(self.retraining.run.task, network, feed.in_order(feed.data.test))
        return {"test_accuracy": test["accuracy"], "seconds": round(stopwatch.seconds, 3), **curves}


@dataclass(frozen=True, eq=False)
class BuiltTruth:
    """The result of a build.

    Args:
        table: with a row for every architecture if the whole space was trained; equivalent architectures share their
            numbers.
        trained: one architecture per network.
        accuracies: in percent, (networks, seeds).
        failures: the trainings that diverged, with the reason; their networks are not in the table.
    """

    table: CurveTable
    trained: Sequence[Architecture]
    accuracies: NDArray[np.float64]
    failures: Mapping[str, str]


def start_build(beginning: Beginning, asked: RunSettings) -> Run:
    """Starts a new build: validates everything before writing anything, and shows the plan."""
    run, decisions = beginning.prepare(asked)
    if run.task.selection.name != "accuracy":
        raise ConfigError(
            f"Expected classes and the metric accuracy for a table of true accuracies. Got {run.task.kind} by "
            f"{run.task.selection.name}."
        )
    planned = plan_build(run)
    settings = decided(run.settings, decisions, run.display)
    show_plan(run.display, planned, settings.workers)
    return beginning.begun(replace(run, settings=settings))


def resume_build(
    beginning: Beginning, content: Mapping[str, Any] | None, overrides: Mapping[str, Any], origin: str
) -> Run:
    """Resumes an earlier build with its settings."""
    run = beginning.reopen(content, overrides, origin)
    show_plan(run.display, plan_build(run), run.settings.workers, resumed=True)
    return run


def build_truth(run: Run) -> BuiltTruth:
    """Trains every network that is not in the journal and writes ``truth.npz``."""
    workspace = run.workspace
    chosen = classes_to_train(run)
    seeds = range(run.settings.truth.seeds)
    items = {_key(network, seed): (network[0], seed) for seed in seeds for network in chosen}
    retraining = Retraining(run, workspace.checkpoints / "truth")
    display, executor = run.display, run.executor()
    with display.stage("train") as report, run.stop.at_once(), executor.open(CurveTraining(retraining)) as train:
        journal = workspace.journal("truth")
        records = run_missing(items, journal, _tidied(train, retraining), dict, report)
    failures = {key: record["failure"] for key, record in records.items() if "failure" in record}
    trained = [network for network in chosen if not any(_key(network, seed) in failures for seed in seeds)]
    if not trained:
        raise NotFiniteError(f"Expected networks that train. All {len(chosen)} failed: {next(iter(failures.values()))}")
    accuracies, table = _measured(run, trained, records)
    table.save(workspace.truth)
    workspace.log("finished", stage="truth")
    return BuiltTruth(table, [network[0] for network in trained], accuracies, failures)


def classes_to_train(run: Run) -> list[EquivalenceClass]:
    """The networks to train, within the limits on parameters and operations."""
    allowed = equivalence_classes(run.allowed.space, run.settings.truth.architectures, seed=run.settings.seed)
    # Architectures of the plain space: that of the limits holds the supernet, which workers do not need.
    return [tuple(Architecture(run.net.space, member.indices) for member in members) for members in allowed]


def plan_build(run: Run) -> list[PlannedStage]:
    """The plan with its estimated time, from a timed warm-up."""
    settings = run.settings
    chosen = classes_to_train(run)
    seeds, epochs, workers = settings.truth.seeds, settings.retrain.epochs, settings.workers
    each = f" with {seeds} seeds each" if seeds > 1 else ""
    what = f"{several(len(chosen), 'network')} of {run.net.space.name}{each}"
    waves = math.ceil(len(chosen) * seeds / workers)
    seconds = waves * epochs * _epoch_seconds(run, chosen) + (START_SECONDS if workers > 1 else 0.0)
    return [PlannedStage("train", f"{what}, {several(epochs, 'epoch')} of {len(run.feed.train)} examples", seconds)]


def _epoch_seconds(run: Run, chosen: Sequence[EquivalenceClass]) -> float:
    """The mean time of an epoch of one network, including validation."""
    settings = run.settings.retrain
    source = run.feed.batches(run.feed.train, settings.batch_size, stream="plan")
    valid = run.feed.in_order(run.feed.valid)
    batches = list(islice(source.epoch(0), WARM_UP_STEPS))
    generator = generator_at(0, "plan", 0)
    timed = chosen[:WARM_UP_NETWORKS]
    seconds = 0.0
    with one_thread(), torch.random.fork_rng():
        for members in timed:
            strategy, _ = Retraining(run, run.workspace.checkpoints).strategy(members[0], 0)
            strategy.step(batches[:1], generator=generator)
            started = time.perf_counter()
            for batch in batches:
                strategy.step([batch], generator=generator)
            seconds += (time.perf_counter() - started) / len(batches) * len(source)
            started = time.perf_counter()
            strategy.evaluate(valid.epoch(0), generator=generator)
            seconds += time.perf_counter() - started
    return seconds / len(timed)


def _tidied(
    train: Mapper[TrainingItem, dict[str, Any]], retraining: Retraining
) -> Mapper[TrainingItem, dict[str, Any]]:
    """Removes the checkpoints of a network as soon as the journal has its result."""

    def run(items: Items[TrainingItem]) -> Iterator[tuple[int, dict[str, Any]]]:
        assert not callable(items)  # all of them are known
        for index, result in train(items):
            yield index, result
            shutil.rmtree(retraining.checkpoint_folder(items[index]), ignore_errors=True)

    return run


def _measured(
    run: Run, trained: Sequence[EquivalenceClass], records: Mapping[str, Mapping[str, Any]]
) -> tuple[NDArray[np.float64], CurveTable]:
    """The accuracies in percent, (networks, seeds), and the table of means over seeds with a column for every seed."""
    seeds = range(run.settings.truth.seeds)
    members = [member for network in trained for member in network]
    rows = np.repeat(np.arange(len(trained)), [len(network) for network in trained])  # the network of each member

    def values(name: str) -> NDArray[np.float64]:
        """(networks, seeds), or for curves (networks, seeds, epochs)."""
        return np.array([[records[_key(network, seed)][name] for seed in seeds] for network in trained])

    accuracies = 100 * values("test_accuracy")
    curves = {measure: values(measure).mean(axis=1)[rows] for measure in CURVES}
    columns = {
        "parameters": [run.alone.parameter_count(member) for member in members],
        "seconds": values("seconds").mean(axis=1)[rows],
        **{f"accuracy_seed_{seed}": accuracies[rows, seed] for seed in seeds},
    }
    table = CurveTable(
        f"{run.feed.data.name} {run.net.space.name}, {run.settings.retrain.epochs} epochs",
        run.net.space,
        [member.indices for member in members],
        accuracies.mean(axis=1)[rows],
        {**curves, "valid_accuracy": 100 * curves["valid_accuracy"]},
        columns,
    )
    return accuracies, table


def _key(network: EquivalenceClass, seed: int) -> str:
    return f"{network[0].key} seed {seed}"


def summary_sentences(built: BuiltTruth) -> list[str]:
    """One sentence per finding; correlations need three or more networks."""
    means = built.accuracies.mean(axis=1)  # (networks,)
    best = int(means.argmax())
    low, middle, high = np.quantile(means, [0.0, 0.5, 1.0])
    sentences = [
        f"Best: {built.trained[best].key} with {means[best]:.2f} % test accuracy.",
        f"Spread of {several(len(means), 'network')}: {low:.2f} to {high:.2f} %, median {middle:.2f} %, "
        f"standard deviation {means.std(ddof=min(1, len(means) - 1)):.2f}.",
        _noise(built.accuracies),
    ]
    if len(means) > 2:
        sizes = np.array([built.table.value(architecture, "parameters") for architecture in built.trained])
        sentences.append(f"Spearman of parameters with accuracy: {_shown(correlation('spearman', sizes, means))}.")
    if built.failures:
        name, reason = next(iter(built.failures.items()))
        sentences.append(f"Left out: {several(len(built.failures), 'training')} that diverged, e.g. {name}: {reason}")
    return sentences


def _noise(accuracies: NDArray[np.float64]) -> str:
    """The pooled standard deviation between seeds of (networks, seeds), and the rank correlation of two seeds."""
    networks, seeds = accuracies.shape
    if seeds == 1:
        return "Noise between seeds: not measured with one seed; --seeds 2 or more measures it."
    pooled = np.sqrt(accuracies.var(axis=1, ddof=1).mean())
    sentence = f"Noise between {seeds} seeds: standard deviation {pooled:.2f}"
    if networks > 2:
        agreement = correlation("spearman", accuracies[:, 0], accuracies[:, 1])
        sentence += f"; Spearman of two seeds {_shown(agreement)}"
    return sentence + "."


def _shown(value: float | None) -> str:
    return "undefined, as one side is constant" if value is None else f"{value:.2f}"
