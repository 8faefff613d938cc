"""Learning rate and batch size of the short run: table 4.4, figures 4.7 and 4.8."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.data import Batches
from polyarch.estimators import Parameters, ShortRun, SoG, SoGN, ValAcc, ValAccAfter
from polyarch.ranking import RankSamples, rank_quality, top_k
from polyarch.tables import NASBench201
from polyarch_experiments.distinct_cells import TRUTHS, describe_cells, distinct_cells, truth_on, typicality
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, heat_grid, side_by_side
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import TRAINING_SPEED
from polyarch_experiments.ranked_supernets import Scored, curves_in, recipe, score_all, train_supernet, with_fewer_valid
from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed.rate_effects import rate_tables, rates_along
from polyarch_experiments.training_speed.strategy_scores import CELLS
from polyarch_experiments.training_speed.thesis_recipe import SINGLE_PATH_RATE, thesis_recipe
from polyarch_experiments.verdict import claim, finding, several_seeds

Cell = tuple[float, int]
"""A learning rate and a batch size."""

THESIS_RATES = [0.001, 0.01]
THESIS_BATCHES = [64, 128, 256]
"""The grid of table 4.4 and figure 4.7."""
OTHERS = 200
"""Distinct networks that other experiments rank; these are the next ones."""


def items(settings: Settings) -> dict[str, int | None]:
    """What the cells are, and one supernet per seed."""
    return {CELLS: None, **{f"seed {seed}": seed for seed in range(settings["seeds"])}}


def run(settings: Settings, seed: int | None, folder: Path) -> dict[str, Any]:
    """Trains a supernet by single paths; then short runs of the same cells for every rate and batch size."""
    if seed is None:
        return describe_cells(settings["architectures"], OTHERS)
    store = folder / f"seed-{seed}"
    trained = with_fewer_valid(train_supernet(settings["run"], seed, store), settings["valid_examples"])
    table = NASBench201.load(column=TRUTHS[truth_on(trained.settings.data.name)][0])
    architectures = distinct_cells(settings["architectures"], OTHERS)
    (judge,) = trained.estimators(("val_acc",))
    assert isinstance(judge, ValAcc)
    losses: dict[str, list[list[float]]] = {}
    scores: dict[str, dict[str, list[float | None]]] = {}
    for rate, batch in cells(settings):
        batches = trained.feed.batches(trained.feed.train, batch, stream="scores")
        short = replace(short_run(settings, batches, rate, seed), gradients=True, judge=judge)
        journal = store / "checkpoints" / f"rate-{rate:g}-batch-{batch}.jsonl"
        estimators = (SoG(short), SoGN(short), ValAccAfter(short))
        rows = score_all(Scored(trained.net, estimators), architectures, journal)
        name = f"{rate:g} {batch}"
        losses[name] = curves_in(rows).tolist()
        scores[name] = {one.name: [row["scores"][one.name] for row in rows] for one in estimators}
    return {
        "truth": [round(table.accuracy(one), 3) for one in architectures],
        "losses": losses,
        "scores": scores,
        "params": [Parameters().score(trained.net, one) for one in architectures],
    }


def short_run(settings: Settings, batches: Batches, rate: float, seed: int) -> ShortRun:
    """Of as many steps as the settings say or one epoch, whichever is sooner (section 4.2.3)."""
    return ShortRun(batches, steps=min(settings["steps"], len(batches)), learning_rate=rate, seed=seed)


def seeds_of(runs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs with a supernet."""
    return [run for name, run in runs.items() if name != CELLS]


def cells(settings: Settings) -> list[Cell]:
    """Every rate with every batch size."""
    return [(rate, batch) for rate in settings["rates"] for batch in settings["batches"]]


def _measured(settings: Settings, runs: Mapping[str, Any]) -> dict[Cell, dict[str, list[float]]]:
    """Spearman and the top 10 of SoTL (whole run and last half), one value per seed."""
    found = {}
    for cell in cells(settings):
        values: dict[str, list[float]] = {"spearman": [], "top10": [], "spearman_last": [], "top10_last": []}
        for record in seeds_of(runs):
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
    trained = seeds_of(runs)
    if not trained:
        return []
    samples = RankSamples(trained[0]["truth"])
    speeds = {
        cell: [(-np.array(record["losses"][f"{cell[0]:g} {cell[1]}"]).sum(1)).tolist() for record in trained]
        for cell in cells(settings)
    }  # (seeds, n)
    measures = {
        "spearman": {cell: samples.spearman(scores) for cell, scores in speeds.items()},
        "top10": {cell: samples.top(scores, min(10, len(samples.truth))) for cell, scores in speeds.items()},
    }

    def change(measure: str, position: int, axis: str) -> NDArray[np.float64]:
        """From the smallest to the largest value of one setting, mean over the other."""
        sides = [
            np.mean([draws for cell, draws in measures[measure].items() if cell[position] == end], axis=0)
            for end in (settings[axis][0], settings[axis][-1])
        ]
        return np.asarray(sides[1] - sides[0])

    def judged(text: str, document: str, measure: str, axis: str, **bounds: float) -> Claim:
        low, high = settings[axis][0], settings[axis][-1]
        draws = change(measure, ("rates", "batches").index(axis), axis)
        unit = "points of accuracy" if measure == "top10" else "Spearman"
        name = f"{unit} gained from {'rate' if axis == 'rates' else 'batch'} {low:g} to {high:g}"
        found = finding(name, samples.interval(several_seeds(draws, len(trained))), **bounds)
        return claim(text, [found], f"mean over {'batch sizes' if axis == 'rates' else 'rates'}", number=4,
                     document=document, needs=_needs(settings))  # fmt: skip

    return [
        judged(
            "A higher fine-tuning rate gives a better top 10.",
            "92.87 % at 0.01, 92.23 % at 0.001 (table 4.4)", "top10", "rates", above=0,
        ),
        judged(
            "A higher fine-tuning rate gives a lower correlation.",
            "0.78 at 0.01, 0.84 at 0.001 (table 4.4)", "spearman", "rates", below=0,
        ),
        judged(
            "A larger batch gives a worse top 10.", "batches 64 to 256 (figure 4.7)", "top10", "batches", below=0
        ),
        judged(
            "A larger batch gives a higher correlation.", "batches 64 to 256 (figure 4.7)", "spearman", "batches",
            above=0,
        ),
    ]  # fmt: skip


def _needs(settings: Settings) -> str | None:
    """What a fair test would take, if this is none: the rates and batches of the thesis on enough cells."""
    if settings["rates"] == THESIS_RATES and settings["batches"] == THESIS_BATCHES and settings["architectures"] >= 100:
        return None
    return f"rates {THESIS_RATES} and batches {THESIS_BATCHES} on 100 cells or more, as the preset `long` has"


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Every cell of the grid, and tables 4.4 and 4.5."""
    if not seeds_of(runs):
        return {}
    rows = [
        [f"{rate:g}", str(batch), *(spread(values[name], 2) for name in values)]
        for (rate, batch), values in _measured(settings, runs).items()
    ]
    columns = ["rate", "batch", "Spearman", "top 10, %", "Spearman, last half", "top 10, last half, %"]
    found = typicality(runs[CELLS]) if CELLS in runs else {}
    found[f"SoTL of {settings['steps']} steps against NAS-Bench-201"] = Table(columns, rows)
    return found | (rate_tables(settings, runs) if CELLS in runs else {})


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """The grid as two pictures (figure 4.7), and what happens along the run by rate (figure 4.8)."""
    if not seeds_of(runs):
        return {}
    found = _measured(settings, runs)

    def grid(measure: str, title: str) -> Spec:
        rows = [
            {"x": f"{rate:g}", "y": str(batch), "value": statistics.fmean(values[measure])}
            for (rate, batch), values in found.items()
        ]
        return heat_grid(rows, "learning rate", "batch size", title)

    panels = [grid("spearman", "Spearman of SoTL"), grid("top10", "true accuracy of the top 10, %")]
    return {"rate_and_batch": side_by_side(*panels), "rates_along_the_run": rates_along(settings, seeds_of(runs))}


_CPU: Settings = {
    "seeds": 2, "architectures": 24, "steps": 50, "rates": [0.001, 0.01, 0.1], "batches": [32, 64, 128],
    "valid_examples": 2500,
    "run": recipe(size=16, cells=1, epochs=10),
}  # fmt: skip

FINE_TUNING = Experiment(
    name="fine_tuning",
    document=TRAINING_SPEED,
    claim="Learning rate and batch size of the short run decide between correlation and top 10 (table 4.4).",
    presets={
        "quick": {
            **_CPU, "seeds": 1, "architectures": 5, "steps": 6, "rates": [0.001, 0.1], "batches": [16, 32],
            "valid_examples": 100,
            "run": recipe(size=8, cells=1, epochs=1, limit=600),
        },
        "cpu": _CPU,
        "long": {
            "seeds": 2, "architectures": 100, "steps": 100, "rates": THESIS_RATES, "batches": THESIS_BATCHES,
            "valid_examples": 2500, "run": recipe(size=16, cells=1, epochs=80),
        },
        "paper": {
            "seeds": 3, "architectures": 200, "steps": 300, "rates": THESIS_RATES, "batches": THESIS_BATCHES,
            "valid_examples": 25_000, "run": thesis_recipe(rate=SINGLE_PATH_RATE),
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
    partial=True,
)  # fmt: skip
