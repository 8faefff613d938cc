"""Sums along a training from scratch, and rankings in other spaces, from made-up runs and single trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polyarch.data import Batches, TensorData
from polyarch.estimators import ShortRun
from polyarch.plugins import EXPERIMENTS
from polyarch.supernets import NB201Supernet
from polyarch_experiments.distinct_cells import distinct_cells
from polyarch_experiments.training_speed.gradient_sums import Sums, scores_after
from polyarch_experiments.training_speed.space_ranking import RUN_AGAIN, SCORED

N = 12
SUMS, SPACES = EXPERIMENTS["gradient_sums"], EXPERIMENTS["space_ranking"]


def test_sums_are_those_of_runs_that_end_there() -> None:
    images = TensorData(torch.rand(16, 3, 8, 8), torch.arange(16) % 4, classes=4)
    batches = Batches(images, 8, seed=0)
    net = NB201Supernet(channels=2, cells=1, classes=4)
    (cell,) = distinct_cells(1)
    found = Sums(net, ShortRun(batches, steps=3, learning_rate=0.1, gradients=True), (1, 3))(cell)["sums"]
    for sums, steps in zip(found, (1, 3), strict=True):
        trace = ShortRun(batches, steps=steps, learning_rate=0.1, gradients=True).trace(net, cell)
        assert sums == {"sotl": -sum(trace.losses), "sog": trace.gradient_sum, "sogn": trace.gradient_norm}
    assert found[0]["sog"] == pytest.approx(found[0]["sogn"])  # of one step, both are its gradient's norm


def test_training_that_diverges_comes_last() -> None:
    images = TensorData(torch.rand(16, 3, 8, 8), torch.arange(16) % 4, classes=4)
    net = NB201Supernet(channels=2, cells=1, classes=4)
    short = ShortRun(Batches(images, 8, seed=0), steps=4, learning_rate=1e30, gradients=True)
    found = Sums(net, short, (1, 4))(distinct_cells(1)[0])["sums"]
    assert found[0] is not None and found[1] is None
    run = {"sums": [found, [found[0], {"sotl": -5.0}]]}
    assert scores_after(run, "sotl", 1) == [-6.0, -5.0]


@pytest.mark.parametrize(
    ("epochs", "better", "verdict"), [(20, True, "holds"), (20, False, "fails"), (5, False, "undecided")]
)
def test_verdicts_on_sums(epochs: int, better: bool, verdict: str) -> None:
    noise = np.random.default_rng(0).permutation(N)
    sums = [
        [{"sotl": float(p), "sog": float(p if better else noise[p]), "sogn": float(noise[p] if better else p)}]
        for p in range(N)
    ]
    runs = {f"seed {seed}": {"sums": sums, "truth": list(range(N)), "params": list(range(N))} for seed in range(2)}
    settings = {"epochs": [epochs]}
    (found,) = SUMS.judge(settings, runs)
    assert found.verdict == verdict and found.number == 5
    (table,) = SUMS.tables(settings, runs).values()
    assert [row[0] for row in table.rows] == ["SoTL", "SoG", "SoGN", "parameters"]
    assert table.rows[0][1] == "1.00 +- 0.00" and SUMS.figures(settings, runs)


def space_runs(*, own: bool, knows: str) -> tuple[dict[str, Any], dict[str, Any]]:
    settings = SPACES.presets["cpu"]
    space = {**settings["spaces"]["NB101-1"], "truth": "own" if own else "nb101:1"}
    settings = {**settings, "spaces": {"NB101-1": space}}
    noise = np.random.default_rng(0).permutation(N)
    runs: dict[str, Any] = {}
    for name in SPACES.items(settings):
        if "truth" in name:
            runs[name] = {"accuracies": {}}
            continue
        rows = []
        for p in range(N):
            scores = {one: float(p if one == knows else noise[p]) for one in SCORED}
            rows.append({"architecture": f"a{p}", "scores": scores, **({} if own else {"truth": 80.0 + p})})
        runs[name] = {"scored": rows}
        if "single_path" in name:
            slower = [{one: float(-p if one == "sotl" else noise[p]) for one in RUN_AGAIN} for p in range(N)]
            runs[name]["slower"] = [{**row, "scores": scores} for row, scores in zip(rows, slower, strict=True)]
    if own:
        runs["NB101-1, truth 0"] = {"accuracies": {f"a{p}": 80.0 + p for p in range(N)}}
    return settings, runs


@pytest.mark.parametrize("own", [True, False])
def test_verdicts_in_other_spaces(own: bool) -> None:
    settings, runs = space_runs(own=own, knows="sotl")
    better, both, first = SPACES.judge(settings, runs)
    assert (better.verdict, both.verdict, first.verdict) == ("holds", "fails", "holds")  # strategies are all alike
    assert "SoTL 91.00" in first.numbers
    settings, runs = space_runs(own=own, knows="val_acc")
    assert SPACES.judge(settings, runs)[0].verdict == "fails"
    tables = SPACES.tables(settings, runs)
    assert len(tables) == 4 and all(len(row) == len(table.columns) for table in tables.values() for row in table.rows)
    assert SPACES.figures(settings, runs)


def test_short_runs_at_two_rates() -> None:
    """Tables 4.4 and 4.5: SoTL knows the truth at the rate of the strategy and its opposite at that of others."""
    settings, runs = space_runs(own=False, knows="sotl")
    (table,) = (table for caption, table in SPACES.tables(settings, runs).items() if "4.4" in caption)
    assert table.columns[1:3] == ["Spearman, rate 0.01", "Spearman, rate 0.001"]
    assert table.rows[0][:3] == ["SoTL", "1.00 +- 0.00", "-1.00 +- 0.00"]
    assert table.rows[0][3:5] == ["86.50 +- 0.00", "84.50 +- 0.00"]  # the ten best and the ten worst of 80 to 91
    assert [row[0] for row in table.rows] == ["SoTL", "ValAcc after the run", "SoG", "SoGN"]
    sog = next(row for row in table.rows if row[0] == "SoG")
    assert sog[5:] == ["1.00 +- 0.00"] * 2  # made of the same noise as the number of parameters


def test_architectures_trained_alone_are_those_that_are_scored(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polyarch_experiments.training_speed import space_ranking

    monkeypatch.setenv("POLYARCH_DATA", str(data_root))
    settings = SPACES.presets["quick"]
    content = {**settings["run"], "space": settings["spaces"]["NB101-1"]["space"]}
    first, again = (space_ranking._architectures(content, 4) for _ in range(2))
    assert first == again and len({one.canonical() for one in first}) == 4
