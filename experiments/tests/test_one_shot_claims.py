"""What made-up runs of the one-shot experiments say: their verdicts, tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from polyarch.errors import InvalidInput
from polyarch.methods.one_shot import THESIS_PROXIMAL
from polyarch.plugins import EXPERIMENTS
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.training import named_training
from polyarch.runs.workspace import Workspace
from polyarch.spaces import NB201_CONVOLUTIONS, nb201_space
from polyarch.tables import NASBench201
from polyarch_experiments import distinct_cells as distinct_cells_module
from polyarch_experiments.distinct_cells import describe_cells, distinct_cells, typicality
from polyarch_experiments.ranked_supernets import BLOCKS, blocks_of, fixed_set
from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed.strategy_ranking import PASSES
from polyarch_experiments.training_speed.strategy_scores import (
    ESTIMATORS,
    NAMES,
    correlation,
    curves_of,
    scores_of,
    top_kept,
    truth_of,
)

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


def strategy_runs(passes: int = 80, **good: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two seeds of every strategy."""
    settings = {**EXPERIMENTS["strategy_ranking"].presets["cpu"], "passes": passes}
    settings["strategies"] = dict.fromkeys(settings["strategies"], 2)
    runs = {name: ranked(**good) for name in EXPERIMENTS["strategy_ranking"].items(settings) if "seed" in name}
    runs["truth 0"] = {"accuracies": {f"a{position}": 50.0 + position for position in range(N)}}
    return settings, runs


def verdicts(claims: list[Claim]) -> dict[str, str]:
    return {claim.text: claim.verdict for claim in claims}


def test_training_speed_that_knows_the_truth() -> None:
    settings, runs = strategy_runs(sotl=True, sotl_last=True, sog=True, sogn=False, params=True, val_acc=False)
    found = verdicts(EXPERIMENTS["strategy_ranking"].judge(settings, runs))
    for name in NAMES.values():
        assert found[f"After {name}, SoTL ranks better than ValAcc."] == "holds"
        assert found[f"After {name}, SoTL ranks better than TLMini."] == "holds"
    assert found["FairNAS, MultiPath, Reptile and MetaProx rank better than SPOS by SoTL."] == "fails"  # all are alike
    assert found["MultiPath + MetaProx ranks better by SoTL than either alone."] == "fails"
    assert found["SoG ranks better than SoGN under every strategy."] == "holds"
    assert found["SoG tracks the number of parameters."] == "holds"
    assert found["SoGN tracks the number of parameters."] == "fails"
    assert found["100 SoTL steps cost less than one pass over the validation set."] == "holds"
    assert found["After FairNAS, SoTL ranks better than parameters."] == "fails"  # both know everything
    assert found["After FairNAS, SoTL ranks better than MACs."] == "holds"
    assert found["FairNAS with SoTL reaches Spearman 0.8 with NAS-Bench-201."] == "holds"
    flat = next(text for text in found if text.startswith("The correlation is flat"))
    assert found[flat] == "holds"
    first = runs["single_path seed 0"]
    assert correlation(first, "sotl", truth_of(runs, "nb201")) == pytest.approx(1)
    assert correlation(first, "val_acc", truth_of(runs, "own")) == pytest.approx(-1)


@pytest.mark.parametrize(("passes", "verdict"), [(80, "fails"), (16, "undecided")])
def test_training_speed_that_does_not(passes: int, verdict: str) -> None:
    """It fails only where supernets were trained long enough for a fair test."""
    settings, runs = strategy_runs(passes, sotl=False, val_acc=True, params=True, sog=True, sogn=True)
    claims = {claim.text: claim for claim in EXPERIMENTS["strategy_ranking"].judge(settings, runs)}
    lost = claims["After FairNAS, SoTL ranks better than ValAcc."]
    assert lost.verdict == verdict and (lost.needs is None) == (passes == 80)
    assert all(found.supported is False and found.value == pytest.approx(-2) for found in lost.findings)


def test_one_seed_decides_nothing() -> None:
    settings, runs = strategy_runs(sotl=True, val_acc=False)
    settings["strategies"] = dict.fromkeys(settings["strategies"], 1)
    (found,) = (
        claim
        for claim in EXPERIMENTS["strategy_ranking"].judge(settings, runs)
        if claim.text == "After Reptile, SoTL ranks better than ValAcc."
    )
    assert found.verdict == "undecided" and found.findings[0].value == pytest.approx(2)


def test_runs_that_have_arrived_are_judged() -> None:
    experiment = EXPERIMENTS["strategy_ranking"]
    settings, runs = strategy_runs(sotl=True, val_acc=False, sog=True, sogn=False)
    some = {name: run for name, run in runs.items() if name in ("fair seed 0", "fair seed 1", "single_path seed 0")}
    claims = {claim.text: claim for claim in experiment.judge(settings, some)}
    verdict = {name: claims[f"After {name}, SoTL ranks better than ValAcc."].verdict for name in NAMES.values()}
    assert verdict.pop("FairNAS") == "holds" and set(verdict.values()) == {"undecided"}  # SPOS has one seed only
    assert claims["After Reptile, SoTL ranks better than ValAcc."].numbers == "not run"
    assert claims["MultiPath + MetaProx ranks better by SoTL than either alone."].verdict == "undecided"
    every = claims["SoG ranks better than SoGN under every strategy."]
    assert [found.value is None for found in every.findings] == [False, False, True, True, True, True]
    assert every.verdict == "undecided" and "Reptile: not measured" in every.numbers
    assert {row[0] for row in next(iter(experiment.tables(settings, some).values())).rows} == {"FairNAS", "SPOS"}
    assert experiment.figures(settings, some)


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
        if "seed" in name
    }
    longer, larger = experiment.judge(settings, runs)
    assert longer.verdict == ("holds" if knows else "fails") and longer.text.startswith("Fair paths, 16 epochs: ")
    assert larger.verdict == "undecided"  # one seed
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
    runs: dict[str, Any] = {"seed 0": {"truth": TRUTH, "losses": {f"{r:g} {b}": losses(r, b) for r, b in cells}}}
    claims = experiment.judge(settings, runs)
    assert [claim.number for claim in claims] == [4] * 4
    by_rate, by_batch = claims[1].findings[0], claims[3].findings[0]
    assert by_rate.value is not None and by_rate.value < 0 and by_batch.value is not None and by_batch.value > 0
    assert claims[0].verdict == "undecided" and claims[0].needs
    (table,) = experiment.tables(settings, runs).values()
    assert len(table.rows) == 9
    assert experiment.figures(settings, runs)

    # with scores and further truths
    runs["seed 0"]["params"] = list(range(N))
    known = {name: list(range(N)) for name in ("sog", "sogn", "val_acc_after")}
    runs["seed 0"]["scores"] = {f"{r:g} {b}": known for r, b in cells}
    runs["seed 0"]["scores"]["0.001 32"] = {**known, "sog": [None, *range(1, N)]}
    truths = {f"a{p}": {"cifar10": p, "cifar100": -p, "imagenet16": p} for p in range(N)}
    typical = {"networks": 50, "whole": 0.7, "cells": 0.6, "lower": 0.25}
    runs["cells"] = {"truths": truths, "typical": dict.fromkeys(("cifar10", "cifar100", "imagenet16"), typical)}
    _, _, by_rate, gradients = experiment.tables(settings, runs).values()
    assert [row[:3] for row in by_rate.rows if row[1] == "ValAcc"] == [
        ["CIFAR-10", "ValAcc", "1.00"],
        ["CIFAR-100", "ValAcc", "-1.00"],
        ["ImageNet16-120", "ValAcc", "1.00"],
    ]
    assert gradients.rows[0] == ["CIFAR-10", *["1.00"] * 7, gradients.rows[0][-2], "1.00"]
    assert experiment.judge(settings, runs) == claims and experiment.figures(settings, runs)
    first = {"cells": runs["cells"]}  # which arrive first
    assert experiment.partial and not any(made(settings, first) for made in (experiment.judge, experiment.tables))
    assert not experiment.figures(settings, first)


def test_the_fixed_set() -> None:
    space = nb201_space()
    assert fixed_set(space, 20) == fixed_set(space, 30)[:20]
    assert len(set(fixed_set(space, 30))) == 30
    assert len(fixed_set(nb201_space(NB201_CONVOLUTIONS), 100)) == 64


class TestDistinctCells:
    """The networks that supernets rank."""

    def test_they_are_different_networks_in_one_order(self) -> None:
        cells = distinct_cells(228)
        assert len({cell.canonical() for cell in cells}) == 228
        assert distinct_cells(128) == cells[:128] and distinct_cells(100, 128) == cells[128:]

    def test_every_network_is_as_likely(self) -> None:
        """Of all 5,044: the first of each in the order of the space, once."""
        everything = distinct_cells(5044)
        assert len({cell.canonical() for cell in nb201_space().enumerate()}) == len(set(everything)) == 5044
        with pytest.raises(InvalidInput, match=r"up to 5,043 distinct networks\. Got 5,044"):
            distinct_cells(5044, 1)

    def test_how_typical_they_are(self, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("POLYARCH_DATA", str(data_root))
        monkeypatch.setattr(distinct_cells_module, "DRAWS", 50)
        found = describe_cells(128)
        table, cells = NASBench201.load(), distinct_cells(128)
        sizes = [table.value(cell, "params_cifar10") for cell in cells]
        for name, column in (("cifar10", "cifar10_test_200"), ("imagenet16", "imagenet16_test_200")):
            truth = [table.value(cell, column) for cell in cells]
            assert found["typical"][name]["cells"] == pytest.approx(stats.spearmanr(sizes, truth).statistic)
            assert 0 <= found["typical"][name]["lower"] <= 1
            assert [values[name] for values in found["truths"].values()] == pytest.approx(truth, abs=1e-3)
        everything = distinct_cells(5044)
        sizes, accuracies = (
            [table.value(cell, name) for cell in everything] for name in ("params_cifar10", "cifar10_test_200")
        )
        assert found["typical"]["cifar10"]["whole"] == pytest.approx(stats.spearmanr(sizes, accuracies).statistic)
        ((_, shown),) = typicality(found).items()
        assert [row[0] for row in shown.rows] == ["CIFAR-10", "CIFAR-100", "ImageNet16-120"]


def test_scores_that_are_not_finite_come_last() -> None:
    run = ranked(naswot=True)
    run["scored"][3]["scores"]["naswot"] = None
    keys = [row["architecture"] for row in run["scored"]]
    scores = scores_of(run, "naswot", keys)
    assert min(range(N), key=scores.__getitem__) == 3 and sorted(scores)[1] == 0
    del run["scored"][5]["losses"]
    curves = curves_of(run, keys)
    assert curves.shape == (N, BLOCKS) and (curves[5] > np.delete(curves, 5, axis=0).max(0)).all()


def test_further_truths() -> None:
    """Of the same scores, in tables of their own; earlier runs have none."""
    experiment = EXPERIMENTS["strategy_ranking"]
    settings, runs = strategy_runs(sotl=True)
    before = set(experiment.tables(settings, runs))
    typical = {"networks": 50, "whole": 0.7, "cells": 0.6, "lower": 0.25}
    truths = {f"a{p}": {"cifar10": p, "cifar100": -p, "imagenet16": p} for p in range(N)}
    runs["cells"] = {"truths": truths, "typical": dict.fromkeys(("cifar10", "cifar100", "imagenet16"), typical)}
    tables = experiment.tables(settings, runs)
    assert len(tables) == len(before) + 5
    opposite = next(table for caption, table in tables.items() if caption.startswith("Spearman with the test accuracy"))
    assert opposite.rows[0][1] == "-1.00 +- 0.00"
    gradients = next(table for caption, table in tables.items() if "table 4.5" in caption)
    assert gradients.rows[0][1] == "1.00 +- 0.00" and len(gradients.columns) == len(gradients.rows[0])
    differences = next(table for caption, table in tables.items() if caption.startswith("SoTL minus"))
    assert len(differences.rows) == 6 and " to " in differences.rows[0][1]


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
