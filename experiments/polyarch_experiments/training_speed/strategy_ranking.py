"""Table 4.1: six ways to train a supernet, and how well every estimator ranks with its weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyarch.errors import NotFiniteError
from polyarch.methods.one_shot import THESIS_PROXIMAL
from polyarch.runs.retraining import Retraining
from polyarch.spaces import Architecture
from polyarch.truths.building import CurveTraining
from polyarch_experiments.distinct_cells import describe_cells, distinct_cells
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.papers import TRAINING_SPEED
from polyarch_experiments.ranked_supernets import recipe, score_cells, seconds_of, train_supernet, trial_of
from polyarch_experiments.seeds import seeded
from polyarch_experiments.training_speed.strategy_claims import HEADLINE, judge
from polyarch_experiments.training_speed.strategy_figures import figures, tables
from polyarch_experiments.training_speed.strategy_scores import CELLS, ESTIMATORS
from polyarch_experiments.training_speed.thesis_recipe import OTHER_RATE, SINGLE_PATH_RATE, thesis_recipe

PASSES = {"fair": 5, "multi_path": 4, "reptile": 4, "meta_prox": 4, "multi_path_meta_prox": 16}
"""Passes over every batch: paths times inner steps. The other strategies take one."""

StrategyAndSeed = tuple[str, int]
"""A strategy and a seed, ``truth`` and the number of a share of the architectures, or ``cells`` and 0."""

TOGETHER = 4
"""Architectures of one item that trains them alone: the data are loaded once for all of them."""


def items(settings: Settings) -> dict[str, StrategyAndSeed]:
    """What the cells are; every strategy with every seed, those of the headline claims first; cells trained alone."""
    strategies = settings["strategies"]
    first = {name: count for name, count in strategies.items() if name in HEADLINE}
    rest = {name: count for name, count in strategies.items() if name not in HEADLINE}
    shares = -(-settings["own_truth"] // TOGETHER)
    return {
        CELLS: (CELLS, 0),
        **(seeded(first) if first else {}),
        **(seeded(rest) if rest else {}),
        **{f"truth {share}": ("truth", share) for share in range(shares)},
    }


def run(settings: Settings, item: StrategyAndSeed, folder: Path) -> dict[str, Any]:
    """Describes the cells, trains a supernet and scores them with it, or trains some of them alone."""
    name, number = item
    if name == CELLS:
        return describe_cells(settings["architectures"])
    cells = distinct_cells(settings["architectures"])
    if name == "truth":
        kept = cells[: settings["own_truth"]][TOGETHER * number : TOGETHER * (number + 1)]
        return {"accuracies": accuracies_alone(settings["run"], settings["alone"], kept, folder / "alone")}
    store = folder / f"{name}-{number}"
    trained = train_supernet(content_of(settings, name), number, store)
    rows = score_cells(
        trained,
        tuple(ESTIMATORS),
        cells,
        valid_examples=settings["valid_examples"],
        journal=store / "checkpoints" / "scored.jsonl",
    )
    return {"scored": rows, "seconds": seconds_of(trained, cells), "valid_examples": len(trained.feed.valid)}


def content_of(settings: Settings, strategy: str) -> dict[str, Any]:
    """The description of the run of a strategy.

    Where the settings have ``passes``, every strategy gets that many forward and backward passes; otherwise all train
    for the same epochs. ``rates`` are those of the short runs of strategies that do not have the one of the others.
    """
    run = settings["run"]
    train, scores = {**run["train"], "strategy": strategy}, dict(run["scores"])
    if "passes" in settings:
        train["epochs"] = settings["passes"] // PASSES.get(strategy, 1)
    if strategy in settings.get("rates", {}):
        scores["learning_rate"] = settings["rates"][strategy]
    return {**run, "train": train, "scores": scores}


def accuracies_alone(
    content: Settings, alone: Settings, architectures: Sequence[Architecture], folder: Path
) -> dict[str, float]:
    """Test accuracies (percent) of architectures trained from scratch.

    Args:
        content: the description of the run of the supernet.
        alone: what differs from it, such as fewer images.
    """
    described = {**content, **alone, "data": {**content["data"], **alone["data"]}}
    train = CurveTraining(Retraining(trial_of(described), folder))
    found = {}
    for architecture in architectures:
        result = train((architecture, 0))
        if "failure" in result:
            raise NotFiniteError(result["failure"])
        found[architecture.key] = round(100 * result["test_accuracy"], 3)
    return found


_CPU: Settings = {
    "strategies": {
        "single_path": 2, "fair": 2, "multi_path": 2, "reptile": 2, "meta_prox": 2, "multi_path_meta_prox": 1,
    },
    "architectures": 128, "own_truth": 64, "valid_examples": 2500, "passes": 16,
    "run": recipe(size=16, cells=1, epochs=16, steps=50, rate=0.001),
    "alone": {
        "data": {"limit": 10_000},
        "retrain": {"epochs": 5, "batch_size": 64, "learning_rate": 0.1, "weight_decay": 5e-4, "warmup_epochs": 0.5},
    },
}  # fmt: skip

_THESIS = thesis_recipe(rate=OTHER_RATE)

_LONG: Settings = {
    "strategies": {
        "fair": 2, "single_path": 2, "multi_path": 2, "reptile": 2, "meta_prox": 2, "multi_path_meta_prox": 2,
    },
    "architectures": 128, "own_truth": 0, "valid_examples": 2500, "passes": 80,
    "rates": {"single_path": SINGLE_PATH_RATE},
    "run": recipe(size=16, cells=1, epochs=80, steps=100, rate=OTHER_RATE),
}  # fmt: skip
_LONG["run"]["train"]["proximal"] = THESIS_PROXIMAL
"""The size of `supernet_recipe`, with the passes at which it ranked well, and short runs as in the thesis."""

STRATEGY_RANKING = Experiment(
    name="strategy_ranking",
    document=TRAINING_SPEED,
    claim="Strategies by estimators against the true accuracy of NAS-Bench-201 cells (table 4.1, figures 4.6 and 4.9).",
    presets={
        "quick": {
            **_CPU, "strategies": {"single_path": 2, "reptile": 1}, "architectures": 5, "own_truth": 3,
            "valid_examples": 100, "passes": 4,
            "run": recipe(size=8, cells=1, epochs=1, limit=300, steps=4, adapting=2),
            "alone": {"data": {"limit": 200}, "retrain": {"epochs": 1}},
        },
        "cpu": _CPU,
        "long": _LONG,
        "paper": {
            "strategies": dict.fromkeys(_CPU["strategies"], 3), "architectures": 200, "own_truth": 0,
            "valid_examples": 25_000, "rates": {"single_path": SINGLE_PATH_RATE},
            "run": {**_THESIS, "train": {**_THESIS["train"], "proximal": THESIS_PROXIMAL}},
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
    gradual=True,
)  # fmt: skip
