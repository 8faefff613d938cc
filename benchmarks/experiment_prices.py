"""Processor minutes of the items of long experiments, extrapolated from a few timed steps, epochs and networks.

Writes what `polyarch_experiments.prices` reads, of the preset ``long`` where an experiment has it and otherwise of
``cpu``. They are a guide: processor time depends on the machine and on what shares its memory, and the stored run of
`strategy_ranking` by fair paths took 43 minutes where the pieces now say 26.
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

from polyarch.files import write_json
from polyarch.plugins import EXPERIMENTS
from polyarch.randomness import generator_at
from polyarch.runs.retraining import Retraining
from polyarch.runs.suggestion import merged
from polyarch.spaces import Architecture
from polyarch_experiments.distinct_cells import describe_cells
from polyarch_experiments.experiment import Settings
from polyarch_experiments.interchoice import chain_networks, weighted_supernets
from polyarch_experiments.prices import FILE, priced_preset
from polyarch_experiments.ranked_supernets import Scored, fixed_set, trial_of, with_fewer_valid
from polyarch_experiments.training_speed import (
    annealing,
    cell_evaluation,
    cell_shape,
    fine_tuning,
    gradient_sums,
    searched_cells,
    space_ranking,
    strategy_ranking,
    supernet_recipe,
)
from polyarch_experiments.training_speed.strategy_scores import CELLS, ESTIMATORS

STEPS = 16
"""Training steps that are timed, after two that are not."""
SHARE = 4
"""Searches are timed on so many times fewer images."""
NETWORKS = 3
"""Networks that are scored or trained alone."""

Prices = Iterator[tuple[str, float]]
"""Items without their seeds, and their minutes."""


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of some work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def one_more(work: Callable[[int], object]) -> float:
    """What one epoch or network more takes, without what setting up does: work with two less work with one."""
    return max(seconds(lambda: work(2)) - seconds(lambda: work(1)), 0.0)


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
    per_step = seconds(lambda: train(taken[2:])) / (len(taken) - 2)
    few = with_fewer_valid(run, valid_examples)
    score = Scored(few.net, few.estimators(tuple(estimators)))
    cells = fixed_set(run.net.space, NETWORKS)
    count = min(count, run.net.space.size)
    per_cell = seconds(lambda: [score(cell) for cell in cells]) / len(cells) if estimators else 0.0
    epochs = run.settings.train.epochs
    return (per_step * len(batches) * epochs + per_cell * count) / 60


def search_minutes(content: Mapping[str, Any], stages: int = 1) -> float:
    """A whole search, from searches of one epoch per stage and of two, on a share of the images.

    The eigenvalue, which is measured every few epochs, is what an epoch with it takes longer.
    """
    few = merged(content, {"data": {"limit": content["data"]["limit"] // SHARE}})

    def search(epochs: int, every: int = 0) -> float:
        settings = {
            "train": {"epochs": stages * epochs},
            "differentiable": {"eigenvalue_every": every, "warmup_epochs": 0},
        }
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "search"
            return seconds(lambda: searched_cells.search(merged(few, settings), 0, place))

    steps, fewer = (len(trial_of(one).feed.training_batches(one["train"]["batch_size"])) for one in (content, few))
    search(1)  # loads data, tables and code
    once, twice = search(1), search(2)
    epoch, epochs = max(twice - once, 0.0) / stages, content["train"]["epochs"]
    every = content["differentiable"].get("eigenvalue_every", 0)
    eigenvalue = max(search(1, every=1) - once, 0.0) / stages / every if every else 0.0
    set_up = max(once - stages * epoch, 0.0)
    return float(set_up + epochs * (epoch * steps / fewer + eigenvalue)) / 60


def stages_of(method: str) -> int:
    """The stages of a search: three in P-DARTS."""
    return 3 if "pdarts" in method else 1


def alone_minutes(content: Mapping[str, Any], networks: Sequence[Architecture]) -> float:
    """Training networks alone, one after the other."""

    def train(epochs: int) -> None:
        trial = trial_of({**merged(content, {"retrain": {"epochs": epochs}}), "seed": 0})
        with tempfile.TemporaryDirectory() as folder:
            for network in networks:
                Retraining(trial, Path(folder)).train((network, 0))

    return one_more(train) * int(content["retrain"]["epochs"]) / 60


def some_networks(content: Mapping[str, Any], count: int = NETWORKS) -> list[Architecture]:
    """Random members of the space of a run."""
    return fixed_set(trial_of(content).net.space, count)


def described_cells(settings: Settings) -> Prices:
    """What the cells are."""
    yield CELLS, seconds(lambda: describe_cells(settings["architectures"])) / 60


def strategies(settings: Settings) -> Prices:
    """`strategy_ranking`: every strategy."""
    yield from described_cells(settings)
    for name in settings["strategies"]:
        content = strategy_ranking.content_of(settings, name)
        yield name, ranking_minutes(content, tuple(ESTIMATORS), settings["architectures"], settings["valid_examples"])


def recipes(settings: Settings) -> Prices:
    """`supernet_recipe`: every recipe."""
    yield from described_cells(settings)
    for name, content in settings["recipes"].items():
        yield (
            name,
            ranking_minutes(content, supernet_recipe.SCORED, settings["architectures"], settings["valid_examples"]),
        )


def spaces(settings: Settings) -> Prices:
    """`space_ranking`: every strategy in every space, and a share of the networks that are trained alone."""
    for space, its in settings["spaces"].items():
        described = {**settings, "run": {**settings["run"], "space": its["space"]}}
        for name in its["strategies"]:
            content = strategy_ranking.content_of(described, name)
            yield (
                f"{space}, {name}",
                ranking_minutes(content, space_ranking.SCORED, its["architectures"], settings["valid_examples"]),
            )
        alone = merged(described["run"], settings["alone"])
        yield f"{space}, truth", alone_minutes(alone, some_networks(alone, strategy_ranking.TOGETHER))


def grid(settings: Settings) -> Prices:
    """`fine_tuning`: a supernet and all short runs with it."""
    yield from described_cells(settings)

    def tune(networks: int) -> None:
        few = merged(settings, {"architectures": networks, "run": {"train": {"epochs": 1}}})
        with tempfile.TemporaryDirectory() as folder:
            fine_tuning.run(few, 0, Path(folder))

    training = ranking_minutes(settings["run"], (), 0, settings["valid_examples"])
    yield "seed", training + one_more(tune) * settings["architectures"] / 60


def from_scratch(settings: Settings) -> Prices:
    """`gradient_sums`: the training of all cells."""

    def train(epochs: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            gradient_sums.run({**settings, "architectures": NETWORKS, "epochs": [epochs]}, 0, Path(folder))

    epochs = settings["epochs"][-1]
    yield "seed", one_more(train) * epochs * settings["architectures"] / NETWORKS / 60


def schedules(settings: Settings) -> Prices:
    """`annealing`: the training of all cells with either schedule."""
    content = settings["run"]
    for schedule in annealing.SCHEDULES:
        described = merged(content, {"retrain": {"epochs": settings[schedule]["epochs"]}})
        yield schedule, alone_minutes(described, some_networks(described)) * settings["cells"] / NETWORKS


def searches(settings: Settings) -> Prices:
    """`cell_search`: every method."""
    for name in settings["methods"]:
        content = searched_cells.content_of(settings["run"], name, settings["own"].get(name, {}))
        yield name, search_minutes(content, stages_of(name))


def shapes(settings: Settings) -> Prices:
    """`cell_shape`: both methods in every space."""
    for space, described in settings["spaces"].items():
        for method in cell_shape.METHODS:
            content = {**settings["run"], "space": described}
            own = settings["own"].get(method, {})
            yield f"{space} {method}", search_minutes(searched_cells.content_of(content, method, own))


def evaluations(settings: Settings) -> Prices:
    """`cell_evaluation`: every search with the trainings of its cell."""
    for space, methods in settings["methods"].items():
        for name in methods:
            found = search_minutes(cell_evaluation.content(settings, space, name), stages_of(name))
            for content in cell_evaluation.evaluations(settings, space, name).values():
                found += alone_minutes(content, some_networks(content, 1))
            yield f"{space}: {name}", found


def weights(settings: Settings) -> Prices:
    """`interchoice_ranking` and `interchoice_kinds`: every kind of weights in every space."""
    scored = (("val_acc", "params"), settings["architectures"], settings["valid_examples"])
    for space in settings["spaces"]:
        for kind in weighted_supernets.weights_of(settings):
            yield f"{space}, {kind}", ranking_minutes(weighted_supernets.settings_of(settings, space, kind), *scored)


def chain(settings: Settings) -> Prices:
    """`interchoice_chain`: every supernet, a share of the networks that are trained alone, and costs."""
    yield "cost", seconds(lambda: chain_networks.run(settings, ("cost", "", 0), Path())) / 60
    known, consistent = settings["architectures"], settings["consistent"]
    for name in (*settings["weights"], *settings["baselines"]):
        scored = known if name in settings["baselines"] else consistent
        scored += known if name == "base" or name in settings["baselines"] else 0  # again with reset statistics
        content = chain_networks.settings_of(settings, name)
        yield name, ranking_minutes(content, ("val_acc", "params"), scored, settings["valid_examples"])
    alone = chain_networks.merged(settings["run"], settings["alone"])
    yield "alone", alone_minutes(alone, some_networks(alone, chain_networks.TOGETHER))


PIECES: dict[str, Callable[[Settings], Prices]] = {
    "strategy_ranking": strategies,
    "supernet_recipe": recipes,
    "space_ranking": spaces,
    "fine_tuning": grid,
    "gradient_sums": from_scratch,
    "annealing": schedules,
    "cell_search": searches,
    "cell_shape": shapes,
    "cell_evaluation": evaluations,
    "interchoice_ranking": weights,
    "interchoice_kinds": weights,
    "interchoice_chain": chain,
}


def main() -> None:
    """Times the items of the experiments that are named, or of all, and keeps what is known of others."""
    torch.set_num_threads(1)
    for name in sys.argv[1:] or PIECES:
        experiment = EXPERIMENTS[name]
        found = {}
        for kind, minutes in PIECES[name](experiment.presets[priced_preset(experiment)]):
            found[kind] = round(minutes, 1) if minutes >= 1 else round(minutes, 3)
            print(json.dumps({"experiment": name, "item": kind, "minutes": found[kind]}), flush=True)
        write_json(FILE, {**json.loads(FILE.read_text()), name: found})


if __name__ == "__main__":
    main()
