"""What made-up runs of the one-shot experiments say: their verdicts, tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyarch.errors import InvalidInput
from polyarch.methods.one_shot import THESIS_PROXIMAL
from polyarch.plugins import EXPERIMENTS
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.training import named_training
from polyarch.runs.workspace import Workspace
from polyarch.spaces import NB201_CONVOLUTIONS, nb201_space
from polyarch_experiments.ranked_supernets import BLOCKS, blocks_of, fixed_set
from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed.strategy_ranking import PASSES
from polyarch_experiments.training_speed.strategy_scores import ESTIMATORS, correlation, top_kept, truth_of

N = 12
TRUTH = [80.0 + position for position in range(N)]


def ranked(**good: bool) -> dict[str, Any]:
    """A run in which the named estimators know the truth, or its opposite; all others only noise."""
    noise = np.random.default_rng(0).permutation(N)
    rows = []
    for position in range(N):
        scores = {name: float(noise[position]) for name in ESTIMATORS}
        scores |= {name: float(position if right else -position) for name, right in good.items()}
        losses = [round(2.0 - 0.1 * position - 0.01 * block, 4) for block in range(BLOCKS)]
        rows.append({"architecture": f"a{position}", "scores": scores, "losses": losses, "nb201": TRUTH[position]})
    return {"scored": rows, "seconds": {"short_run": 1.0, "val_acc": 3.0}, "valid_examples": 100}


def strategy_runs(**good: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    settings = EXPERIMENTS["strategy_ranking"].presets["cpu"]
    runs = {name: ranked(**good) for name in EXPERIMENTS["strategy_ranking"].items(settings) if "seed" in name}
    runs["truth 0"] = {"accuracies": {f"a{position}": 50.0 + position for position in range(N)}}
    return settings, runs


def by_number(claims: list[Claim]) -> dict[int | None, Claim]:
    return {claim.number: claim for claim in claims}


def test_training_speed_that_knows_the_truth() -> None:
    settings, runs = strategy_runs(sotl=True, sotl_last=True, sog=True, sogn=False, params=True, val_acc=False)
    claims = by_number(EXPERIMENTS["strategy_ranking"].judge(settings, runs))
    assert claims[1].supported and claims[3].supported and claims[8].supported
    assert not claims[2].supported and not claims[7].supported  # all strategies are alike
    assert not claims[5].supported  # SoG is better, but SoGN does not track the parameters
    first = runs["single_path seed 0"]
    assert correlation(first, "sotl", truth_of(runs, "nb201")) == pytest.approx(1)
    assert correlation(first, "val_acc", truth_of(runs, "own")) == pytest.approx(-1)


def test_training_speed_that_does_not() -> None:
    settings, runs = strategy_runs(sotl=False, val_acc=True, params=True, sog=True, sogn=True)
    claims = by_number(EXPERIMENTS["strategy_ranking"].judge(settings, runs))
    assert not claims[1].supported and not claims[5].supported
    assert "under 0 of 6 strategies" in claims[1].numbers


def test_tables_and_figures_of_strategies() -> None:
    settings, runs = strategy_runs(sotl=True)
    tables = EXPERIMENTS["strategy_ranking"].tables(settings, runs)
    assert all(len(row) == len(table.columns) for table in tables.values() for row in table.rows)
    elimination = next(table for caption, table in tables.items() if "elimination" in caption)
    assert [row[1].split()[0] for row in elimination.rows] == ["1.00"] * 3  # equal curves lose nobody of the top
    assert all(0 < float(row[2].split()[0]) < 1 for row in elimination.rows)
    assert EXPERIMENTS["strategy_ranking"].figures(settings, runs)


@pytest.mark.parametrize("knows", [True, False])
def test_recipes_of_supernets(knows: bool) -> None:
    experiment = EXPERIMENTS["supernet_recipe"]
    settings = experiment.presets["cpu"]
    runs = {
        name: {**ranked(sotl=knows and "16 epochs" in name, macs=True), "examples": 1000}
        for name in experiment.items(settings)
    }
    (goal,) = experiment.judge(settings, runs)
    assert goal.supported == knows
    assert not knows or "fair paths, 16 epochs with SoTL: 1.00" in goal.numbers
    correlations, tops = experiment.tables(settings, runs).values()
    work = {row[0]: float(row[1]) for row in correlations.rows}
    assert work == {"fair paths, 16 epochs": 1.0, "fair paths, 4 epochs, 32 pixels": 0.25}  # made-up cells: one size
    assert all(len(row) == len(table.columns) for table in (correlations, tops) for row in table.rows)
    assert experiment.figures(settings, runs)


def test_every_strategy_takes_the_same_passes() -> None:
    settings = EXPERIMENTS["strategy_ranking"].presets["cpu"]
    passes = {name: settings["passes"] // PASSES.get(name, 1) * PASSES.get(name, 1) for name in settings["strategies"]}
    assert max(passes.values()) - min(passes.values()) <= 1


@pytest.mark.parametrize("name", EXPERIMENTS["strategy_ranking"].presets["cpu"]["strategies"])
def test_passes_are_those_of_the_strategies(name: str, tmp_path: Path) -> None:
    """With the default number of paths and inner steps, which the presets leave as it is."""
    content = {"data": {"name": "digits", "limit": 64}, "space": {"kind": "nb201", "channels": 2, "cells": 1}}
    settings = RunSettings.parse({**content, "train": {"strategy": name, "batch_size": 16}}, "test")
    strategy = named_training(Run.build(settings, Workspace(tmp_path), until="train")).strategy
    assert (strategy.paths_per_step, strategy.batches_per_step) == (PASSES.get(name, 1), 1)


def test_the_paper_has_the_proximal_weight_of_the_thesis() -> None:
    presets = EXPERIMENTS["strategy_ranking"].presets
    assert presets["paper"]["run"]["train"]["proximal"] == THESIS_PROXIMAL == 10
    assert "proximal" not in presets["cpu"]["run"]["train"]


def test_rates_and_batches() -> None:
    experiment = EXPERIMENTS["fine_tuning"]
    settings = {**experiment.presets["cpu"], "seeds": 1}

    def losses(rate: float, batch: int) -> list[list[float]]:
        """Small rates and large batches know the order; large rates and small batches only who is best."""
        sure = rate < 0.05 and batch > 32
        values = [3.0 - 0.1 * p if sure or p >= N - 10 else 1.0 + 0.1 * p for p in range(N)]
        return [[value] * BLOCKS for value in values]

    cells = [(rate, batch) for rate in settings["rates"] for batch in settings["batches"]]
    runs = {"seed 0": {"truth": TRUTH, "losses": {f"{r:g} {b}": losses(r, b) for r, b in cells}}}
    by_rate, by_batch = experiment.judge(settings, runs)
    assert by_rate.number == by_batch.number == 4
    assert "Spearman 0." in by_rate.numbers
    (table,) = experiment.tables(settings, runs).values()
    assert len(table.rows) == 9
    assert experiment.figures(settings, runs)


def test_the_fixed_set() -> None:
    space = nb201_space()
    assert fixed_set(space, 20) == fixed_set(space, 30)[:20]
    assert len(set(fixed_set(space, 30))) == 30
    assert len(fixed_set(nb201_space(NB201_CONVOLUTIONS), 100)) == 64


def test_blocks_of_losses() -> None:
    assert blocks_of([1.0, 3.0] * BLOCKS) == [2.0] * BLOCKS
    assert blocks_of([1.0, 2.0, 4.0]) == [1.0, 2.0, 4.0]


class TestTopKept:
    def test_share_of_the_first(self) -> None:
        assert top_kept([3, 1, 2, 0], [1, 0, 3, 2], k=2) == 0.5
        assert top_kept([3, 1, 2, 0], [1, 3, 0, 2], k=2) == 1.0

    @pytest.mark.parametrize("k", [0, 3])
    def test_too_few(self, k: int) -> None:
        with pytest.raises(InvalidInput, match=r"k in 1\.\.2"):
            top_kept([0, 1], [1, 0, 2], k)
