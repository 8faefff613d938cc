"""What makes a supernet of fair paths rank better: longer training, larger images."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyarch_experiments.distinct_cells import describe_cells, distinct_cells, typicality
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, summary
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import TRAINING_SPEED
from polyarch_experiments.ranked_supernets import recipe, score_cells, train_supernet
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of, seeded
from polyarch_experiments.training_speed.strategy_claims import GOAL, RankedRuns, reaches_goal
from polyarch_experiments.training_speed.strategy_scores import (
    CELLS,
    ESTIMATORS,
    correlation,
    estimators_of,
    top_of,
    truth_of,
)
from polyarch_experiments.training_speed.thesis_recipe import OTHER_RATE, thesis_recipe

SCORED = ("sotl", "sotl_last", "val_acc", "params", "macs", "synflow", "naswot")

RecipeAndSeed = tuple[str, int]
"""The name of a recipe and a seed."""


def fair(**settings: Any) -> dict[str, Any]:
    """A recipe trained by fair paths, ranked as in `strategy_ranking`."""
    return by_fair_paths(recipe(**{"steps": 50, "rate": 0.001, **settings}))


def by_fair_paths(content: dict[str, Any]) -> dict[str, Any]:
    """The same settings with another strategy."""
    return {**content, "train": {**content["train"], "strategy": "fair"}}


def items(settings: Settings) -> dict[str, RecipeAndSeed]:
    """What the cells are, and every recipe with its seeds."""
    return {CELLS: (CELLS, 0), **seeded(settings["seeds"])}


def run(settings: Settings, item: RecipeAndSeed, folder: Path) -> dict[str, Any]:
    """Describes the cells, or trains a supernet and scores them with it."""
    name, seed = item
    if name == CELLS:
        return describe_cells(settings["architectures"])
    store = folder / f"{name.replace(' ', '-').replace(',', '')}-{seed}"
    trained = train_supernet(settings["recipes"][name], seed, store)
    rows = score_cells(
        trained,
        SCORED,
        distinct_cells(settings["architectures"]),
        valid_examples=settings["valid_examples"],
        journal=store / "checkpoints" / "scored.jsonl",
    )
    return {"scored": rows, "examples": len(trained.feed.train)}


def _work(settings: Settings, runs: Mapping[str, Any], name: str) -> float:
    """What training takes, up to a factor: epochs, examples and the mean multiply-accumulates of a cell."""
    first = runs_of(runs, settings["seeds"], name)[0]
    cell = statistics.fmean(row["scores"]["macs"] for row in first["scored"])
    return float(settings["recipes"][name]["train"]["epochs"] * first["examples"] * cell)


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Every recipe against what a ranking by training speed should reach."""
    ranked = RankedRuns(settings["seeds"], runs, truth_of(runs, "nb201"))
    return [
        reaches_goal(f"{name.capitalize()}: SoTL reaches Spearman {GOAL} with NAS-Bench-201.", name, ranked)
        for name in settings["recipes"]
    ]


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Every recipe by every estimator, and what its training costs."""
    truth = truth_of(runs, "nb201")
    scored = [name for name in SCORED if name in estimators_of(runs)]
    base = _work(settings, runs, next(iter(settings["recipes"])))
    found = typicality(runs[CELLS]) if CELLS in runs else {}
    for title, measure in (("Spearman with NAS-Bench-201", correlation), ("Top 10, in percent", top_of)):
        rows = []
        for name in settings["recipes"]:
            trained = runs_of(runs, settings["seeds"], name)
            values = [spread([measure(run, estimator, truth) for run in trained], 2) for estimator in scored]
            rows.append([name, f"{_work(settings, runs, name) / base:.2f}", *values])
        columns = ["recipe", "work of training, first = 1", *(ESTIMATORS[name] for name in scored)]
        found[f"{title} ({len(truth)} cells)"] = Table(columns, rows)
    return found


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """The correlations as bars."""
    truth = truth_of(runs, "nb201")
    bars = [
        {"x": ESTIMATORS[estimator], "series": name}
        | summary([correlation(run, estimator, truth) for run in runs_of(runs, settings["seeds"], name)])
        for estimator in SCORED
        if estimator in estimators_of(runs)
        for name in settings["recipes"]
    ]
    return {"recipes": grouped_bars(bars, "", "Spearman with the truth", series="recipe")}


_CPU: Settings = {
    "recipes": {
        "fair paths, 16 epochs": fair(size=16, cells=1, epochs=16),
        "fair paths, 4 epochs, 32 pixels": fair(size=32, cells=1, epochs=4),
    },
    "seeds": {
        "fair paths, 16 epochs": 2,
        "fair paths, 4 epochs, 32 pixels": 1,
    },
    "architectures": 128, "valid_examples": 2500,
}  # fmt: skip

_SHORT = {f"{epochs} epochs": fair(size=8, cells=1, epochs=epochs, limit=300, steps=4, adapting=2) for epochs in (1, 2)}
_LONG = {f"{cells} cells per stage": by_fair_paths(thesis_recipe(rate=OTHER_RATE, cells=cells)) for cells in (1, 5)}

SUPERNET_RECIPE = Experiment(
    name="supernet_recipe",
    document=TRAINING_SPEED,
    claim="Fair paths with longer training and larger images against the true accuracy of NAS-Bench-201 cells.",
    presets={
        "quick": {
            "recipes": _SHORT, "seeds": dict.fromkeys(_SHORT, 1), "architectures": 5, "valid_examples": 100,
        },
        "cpu": _CPU,
        "paper": {
            "recipes": _LONG, "seeds": dict.fromkeys(_LONG, 3), "architectures": 200, "valid_examples": 25_000,
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
