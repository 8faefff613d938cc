"""Learning rate and batch size of the short run: table 4.4, figures 4.7 and 4.8."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyarch.data import Batches
from polyarch.estimators import ShortRun
from polyarch.ranking import rank_quality, top_k
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet
from polyarch.tables import NASBench201
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, heat_grid, side_by_side
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import TRAINING_SPEED
from polyarch_experiments.ranked_supernets import blocks_of, fixed_set, recipe, score_all, train_supernet
from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed.thesis_recipe import SINGLE_PATH_RATE, thesis_recipe

Cell = tuple[float, int]
"""A learning rate and a batch size."""


def items(settings: Settings) -> dict[str, int]:
    """One supernet per seed."""
    return {f"seed {seed}": seed for seed in range(settings["seeds"])}


def run(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Trains a supernet by single paths; then short runs of the same cells for every rate and batch size."""
    store = folder / f"seed-{seed}"
    trained = train_supernet(settings["run"], seed, store)
    table = NASBench201.load()
    architectures = fixed_set(trained.net.space, settings["architectures"])
    found: dict[str, list[list[float]]] = {}
    for rate, batch in cells(settings):
        batches = trained.feed.batches(trained.feed.train, batch, stream="scores")
        short = short_run(settings, batches, rate, seed)
        journal = store / "checkpoints" / f"rate-{rate:g}-batch-{batch}.jsonl"
        rows = score_all(Losses(trained.net, short), architectures, journal)
        found[f"{rate:g} {batch}"] = [row["losses"] for row in rows]
    return {"truth": [round(table.accuracy(one), 3) for one in architectures], "losses": found}


def short_run(settings: Settings, batches: Batches, rate: float, seed: int) -> ShortRun:
    """Of as many steps as the settings say or one epoch, whichever is sooner (section 4.2.3)."""
    return ShortRun(batches, steps=min(settings["steps"], len(batches)), learning_rate=rate, seed=seed)


@dataclass(frozen=True)
class Losses:
    """The losses of the short run of an architecture, in blocks."""

    net: Supernet
    short: ShortRun

    def __call__(self, architecture: Architecture) -> dict[str, Any]:
        """Up to 20 means."""
        return {"losses": blocks_of(self.short.trace(self.net, architecture).losses)}


def cells(settings: Settings) -> list[Cell]:
    """Every rate with every batch size."""
    return [(rate, batch) for rate in settings["rates"] for batch in settings["batches"]]


def _measured(settings: Settings, runs: Mapping[str, Any]) -> dict[Cell, dict[str, list[float]]]:
    """Spearman and the top 10 of SoTL (whole run and last half), one value per seed."""
    found = {}
    for cell in cells(settings):
        values: dict[str, list[float]] = {"spearman": [], "top10": [], "spearman_last": [], "top10_last": []}
        for record in runs.values():
            losses = np.array(record["losses"][f"{cell[0]:g} {cell[1]}"])  # (n, blocks)
            for suffix, kept in (("", losses), ("_last", losses[:, losses.shape[1] // 2 :])):
                speed = -kept.sum(1)
                quality = rank_quality(speed, record["truth"], resamples=1)
                values[f"spearman{suffix}"].append(quality.spearman.value or 0.0)
                values[f"top10{suffix}"].append(top_k(speed, record["truth"], min(10, len(speed))))
        found[cell] = values
    return found


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """The largest against the smallest rate and batch, each averaged over the other."""
    found = _measured(settings, runs)

    def mean(measure: str, *, rate: float | None = None, batch: int | None = None) -> float:
        kept = [v[measure] for (r, b), v in found.items() if rate in (None, r) and batch in (None, b)]
        return statistics.fmean(value for values in kept for value in values)

    low, high = settings["rates"][0], settings["rates"][-1]
    small, large = settings["batches"][0], settings["batches"][-1]
    by_rate = (
        mean("top10", rate=high) > mean("top10", rate=low),
        mean("spearman", rate=high) < mean("spearman", rate=low),
    )
    by_batch = (
        mean("top10", batch=large) < mean("top10", batch=small),
        mean("spearman", batch=large) > mean("spearman", batch=small),
    )
    return [
        Claim(
            number=4,
            text="A higher fine-tuning rate gives a better top 10 and a lower correlation.",
            supported=all(by_rate),
            numbers=f"rate {low:g} to {high:g}: top 10 {mean('top10', rate=low):.2f} to "
            f"{mean('top10', rate=high):.2f} %, Spearman {mean('spearman', rate=low):.2f} to "
            f"{mean('spearman', rate=high):.2f} (mean over batch sizes)",
            document="0.01 raises the top 10 and lowers the correlation against 0.001 (table 4.4)",
        ),
        Claim(
            number=4,
            text="A larger batch gives a higher correlation and a worse top 10.",
            supported=all(by_batch),
            numbers=f"batch {small} to {large}: top 10 {mean('top10', batch=small):.2f} to "
            f"{mean('top10', batch=large):.2f} %, Spearman {mean('spearman', batch=small):.2f} to "
            f"{mean('spearman', batch=large):.2f} (mean over rates)",
            document="the other way round than a higher rate, batches 64 to 256",
        ),
    ]


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Every cell of the grid."""
    rows = [
        [f"{rate:g}", str(batch), *(spread(values[name], 2) for name in values)]
        for (rate, batch), values in _measured(settings, runs).items()
    ]
    columns = ["rate", "batch", "Spearman", "top 10, %", "Spearman, last half", "top 10, last half, %"]
    return {f"SoTL of {settings['steps']} steps against NAS-Bench-201": Table(columns, rows)}


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """The grid as two pictures (figures 4.7 and 4.8)."""
    found = _measured(settings, runs)

    def grid(measure: str, title: str) -> Spec:
        rows = [
            {"x": f"{rate:g}", "y": str(batch), "value": statistics.fmean(values[measure])}
            for (rate, batch), values in found.items()
        ]
        return heat_grid(rows, "learning rate", "batch size", title)

    panels = [grid("spearman", "Spearman of SoTL"), grid("top10", "true accuracy of the top 10, %")]
    return {"rate_and_batch": side_by_side(*panels)}


_CPU: Settings = {
    "seeds": 2, "architectures": 24, "steps": 50, "rates": [0.001, 0.01, 0.1], "batches": [32, 64, 128],
    "run": recipe(size=16, cells=1, epochs=10),
}  # fmt: skip

FINE_TUNING = Experiment(
    name="fine_tuning",
    document=TRAINING_SPEED,
    claim="Learning rate and batch size of the short run decide between correlation and top 10 (table 4.4).",
    presets={
        "quick": {
            **_CPU, "seeds": 1, "architectures": 5, "steps": 6, "rates": [0.001, 0.1], "batches": [16, 32],
            "run": recipe(size=8, cells=1, epochs=1, limit=600),
        },
        "cpu": _CPU,
        "paper": {
            "seeds": 3, "architectures": 200, "steps": 300, "rates": [0.001, 0.01], "batches": [64, 128, 256],
            "run": thesis_recipe(rate=SINGLE_PATH_RATE),
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
