"""Processor minutes of the items of long experiments, extrapolated from a few timed steps, epochs and architectures.

Prints what `polyarch_experiments.prices` holds. Processor time hardly depends on what else the machine does.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from polyarch.plugins import EXPERIMENTS
from polyarch.randomness import generator_at
from polyarch.runs.suggestion import merged
from polyarch_experiments.interchoice import weighted_supernets
from polyarch_experiments.ranked_supernets import Scored, fixed_set, trial_of, with_fewer_valid
from polyarch_experiments.training_speed import cell_shape, searched_cells, strategy_ranking
from polyarch_experiments.training_speed.strategy_scores import ESTIMATORS

STEPS = 8
"""Training steps that are timed, after two that are not."""
SCORED = 1
"""Architectures that are scored."""


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of some work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def ranking_minutes(content: Mapping[str, Any], estimators: Sequence[str], count: int, valid_examples: int) -> float:
    """Training a supernet by its settings and scoring ``count`` architectures with it."""
    run = trial_of({**content, "seed": 0})
    training = run.method.training(run)
    batches = run.feed.training_batches(run.settings.train.batch_size)
    taken = list(islice(batches.epoch(0), STEPS + 2))

    def train(some: Sequence[Any]) -> None:
        for step, batch in enumerate(some):
            training.strategy.step([batch], generator=generator_at(0, "price", step))

    train(taken[:2])
    per_step = seconds(lambda: train(taken[2:])) / STEPS
    few = with_fewer_valid(run, valid_examples)
    score = Scored(few.net, few.estimators(tuple(estimators)))
    cells = fixed_set(run.net.space, SCORED)
    count = min(count, run.net.space.size)
    per_cell = seconds(lambda: [score(cell) for cell in cells]) / SCORED
    epochs = run.settings.train.epochs
    return (per_step * len(batches) * epochs + per_cell * count) / 60


def search_minutes(content: Mapping[str, Any]) -> float:
    """A whole search, from searches of one and of two epochs: what differs is an epoch, the rest is setting up.

    The eigenvalue, which is measured every few epochs, is what a single epoch with it takes longer.
    """

    def taken(epochs: int, every: int = 0) -> float:
        short = merged(content, {"train": {"epochs": epochs}, "differentiable": {"eigenvalue_every": every}})
        with tempfile.TemporaryDirectory() as folder:
            return seconds(lambda: searched_cells.search(short, 0, Path(folder) / "search"))

    taken(1)  # loads the data
    once, every = taken(1), content["differentiable"]["eigenvalue_every"]
    more = max(taken(2) - once, 0)
    if every:
        more += max(taken(1, every=1) - once, 0) / every
    epochs: int = content["train"]["epochs"]
    return (once + (epochs - 1) * more) / 60


def strategies() -> Iterator[tuple[str, float]]:
    """`strategy_ranking`: every strategy."""
    settings = EXPERIMENTS["strategy_ranking"].presets["long"]
    for name in settings["strategies"]:
        content = strategy_ranking.content_of(settings, name)
        yield name, ranking_minutes(content, tuple(ESTIMATORS), settings["architectures"], settings["valid_examples"])


def searches() -> Iterator[tuple[str, float]]:
    """`cell_search`: every method but those in stages, whose epochs differ."""
    settings = EXPERIMENTS["cell_search"].presets["long"]
    for name in settings["methods"]:
        if "pdarts" not in name:
            yield name, search_minutes(searched_cells.content_of(settings["run"], name, settings["own"].get(name, {})))


def shapes() -> Iterator[tuple[str, float]]:
    """`cell_shape`: both methods in every space."""
    settings = EXPERIMENTS["cell_shape"].presets["long"]
    for space, described in settings["spaces"].items():
        for method in cell_shape.METHODS:
            content = {**settings["run"], "space": described}
            own = settings["own"].get(method, {})
            yield f"{space} {method}", search_minutes(searched_cells.content_of(content, method, own))


def weights() -> Iterator[tuple[str, float]]:
    """`interchoice_ranking`: every kind of weights in every space."""
    settings = EXPERIMENTS["interchoice_ranking"].presets["long"]
    for space in settings["spaces"]:
        for kind in weighted_supernets.weights_of(settings):
            content = weighted_supernets.settings_of(settings, space, kind)
            minutes = ranking_minutes(
                content, ("val_acc", "params"), settings["architectures"], settings["valid_examples"]
            )
            yield f"{space}, {kind}", minutes


PIECES = {
    "strategy_ranking": strategies, "cell_search": searches, "cell_shape": shapes, "interchoice_ranking": weights,
}  # fmt: skip


def main() -> None:
    """Times the items of the experiments that are named, or of all; ``NAME:ITEM`` ends with that item."""
    torch.set_num_threads(1)
    for word in sys.argv[1:] or PIECES:
        name, _, wanted = word.partition(":")
        for kind, minutes in PIECES[name]():
            print(json.dumps({"experiment": name, "item": kind, "minutes": round(minutes, 1)}), flush=True)
            if kind == wanted:
                break


if __name__ == "__main__":
    main()
