"""NAS-Bench-201: does the sum over training losses rank architectures better than validation accuracy? (table 4.1)"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from polyarch.errors import ConfigError
from polyarch.experiments.experiment import Experiment, Settings, spread
from polyarch.jobs.context import Context
from polyarch.jobs.display import Quiet
from polyarch.jobs.parts import Parts
from polyarch.jobs.pipeline import run as run_pipeline
from polyarch.jobs.settings import RunSettings
from polyarch.jobs.workspace import Workspace
from polyarch.ranking import regret, top_k
from polyarch.results import Claim

ESTIMATORS = ("sotl", "val_acc", "val_acc_mini", "params")


def items(settings: Settings) -> dict[str, int]:
    """One supernet per seed."""
    return {f"seed {seed}": seed for seed in range(settings["seeds"])}


def run(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Trains one supernet by single paths and ranks random cells against the table's true test accuracy."""
    content = {**settings["run"], "seed": seed, "workers": 1}
    described = RunSettings.parse(content, "the experiment")
    workspace = _workspace(folder / f"seed-{seed}", described)
    results = run_pipeline(Context(Parts.build(described), workspace, Quiet()), "rank")
    assert results.ranking is not None
    scored = results.ranking.architectures
    truth = [item.truth for item in scored if item.truth is not None]
    k = min(10, len(truth))
    estimators = {}
    for name in ESTIMATORS:
        predicted = [item.score(name) for item in scored]
        estimators[name] = {
            "quality": results.ranking.quality[name],
            "top10": top_k(predicted, truth, k),
            "regret": regret(predicted, truth),
            "policy": next(score.policy for score in scored[0].scores if score.estimator == name),
        }
    return {"architectures": len(scored), "estimators": estimators, "history": results.training.history}


def _workspace(folder: Path, settings: RunSettings) -> Workspace:
    if not (folder / "config.toml").exists():
        return Workspace.start(folder, settings)
    workspace, found = Workspace.resume(folder)
    if found != settings:
        raise ConfigError(f"Expected the settings of this preset in {folder}. Found others; choose another --out.")
    return workspace


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Means and spread over seeds of Spearman's rho and of the true accuracy of the top 10."""

    def values(name: str, key: str) -> list[float]:
        found = []
        for run in runs.values():
            entry = run["estimators"][name]
            found.append(entry["quality"]["spearman"]["value"] if key == "spearman" else entry[key])
        return found

    numbers = "; ".join(
        f"{name}: Spearman {spread(values(name, 'spearman'), 2)}, top 10 {spread(values(name, 'top10'), 2)} %"
        for name in ESTIMATORS
    )
    means = {name: statistics.fmean(values(name, "spearman")) for name in ESTIMATORS}
    return [
        Claim(
            text="After single-path training SoTL ranks cells better than validation accuracy, full or one minibatch.",
            supported=means["sotl"] > max(means["val_acc"], means["val_acc_mini"]),
            numbers=numbers,
        ),
        Claim(
            text="SoTL ranks cells better than their number of parameters.",
            supported=means["sotl"] > means["params"],
            numbers=f"SoTL {means['sotl']:.3f}, parameters {means['params']:.3f}",
        ),
    ]


def _preset(
    *, size: int | None, cells: int, epochs: int, batch: int, architectures: int, steps: int, limit: int | None = None
) -> dict[str, Any]:
    data: dict[str, Any] = {"name": "cifar10", "split": "nb201", "shift": 4 if size is None else 2, "flip": True}
    if size:
        data["size"] = size
    if limit:
        data["limit"] = limit
    return {
        "data": data,
        "space": {"kind": "nb201", "channels": 16, "cells": cells},
        "train": {
            "epochs": epochs, "batch_size": batch, "learning_rate": 0.05, "final_learning_rate": 1e-3,
            "weight_decay": 5e-4,
        },
        "scores": {"steps": steps, "learning_rate": 0.01, "batch_size": 64, "policy": "adapt", "policy_batches": 20},
        "rank": {"architectures": architectures, "estimators": list(ESTIMATORS), "truth": "cifar10_test_200"},
    }  # fmt: skip


ONE_SHOT_RANKING = Experiment(
    name="one_shot_ranking",
    document="training speed",
    claim="SoTL ranks NAS-Bench-201 cells better than validation accuracy after single-path training (table 4.1).",
    presets={
        "quick": {
            "seeds": 1,
            "run": _preset(size=8, cells=1, epochs=1, batch=64, architectures=6, steps=10, limit=2000),
        },
        "cpu": {
            "seeds": 3,
            "run": _preset(size=16, cells=1, epochs=12, batch=64, architectures=50, steps=100),
        },
        "paper": {
            "seeds": 3,
            "run": _preset(size=None, cells=5, epochs=250, batch=64, architectures=200, steps=300),
        },
    },
    items=items,
    task=run,
    judge=judge,
)
