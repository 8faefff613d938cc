"""The experiment on learning curves: against the numbers of the table, and verdicts on runs made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from polyarch.errors import MissingData
from polyarch.tables import load_spikenas
from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed.curve_ranking import CURVE_RANKING, SHOWN, figures, judge, run, tables

NAMES = ("SoTL", "SoTL, all epochs", "SoTL-EMA", "ValAcc", "SoVL")
EPOCHS = [1, 10, 20, 60, 100]


def made(values: dict[str, float], noise: float = 0.0, epochs: Sequence[int] = EPOCHS) -> dict[str, Any]:
    """A run in which every predictor has one correlation at all epochs, the same up to noise in three subsets."""

    def ranked(shift: float) -> dict[str, Any]:
        found = {
            name: {
                "spearman": [values.get(name, 0.5) + shift * (name == "SoTL")] * len(epochs),
                "top10": [90.0 + values.get(name, 0.5)] * len(epochs),
            }
            for name in NAMES
        }
        return {**found, "parameters": {"spearman": [values.get("parameters", 0.4)], "top10": [90.0]}}

    group = {"n": 400, "size": 200, "accuracy": {"mean": 80.0, "best": 95.0}, "whole": ranked(0.0)}
    group["subsets"] = [ranked(noise * step) for step in (-1, 0, 1)]
    return {"epochs": list(epochs), "all": group, "top": group}


def claims(*runs: dict[str, Any]) -> dict[str, Claim]:
    found = judge({}, {f"{index} epochs": one for index, one in enumerate(runs)})
    return {claim.text: claim for claim in found}


def verdict(found: dict[str, Claim], words: str) -> bool | None:
    (claim,) = (claim for text, claim in found.items() if words in text)
    return claim.supported


def test_numbers_of_the_table(data_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spearman of minus the sum of training losses that the provenance of the table states for 1, 10 and 20 epochs."""
    if not (data_root / "spikenas_bench").is_dir():
        pytest.skip("needs SpikeNAS-Bench in the data folder")
    monkeypatch.setenv("POLYARCH_DATA", str(data_root))
    settings = {"lengths": [100], "epochs": [1, 10, 20, 200], "size": 60, "subsets": 2}
    found = run(settings, 100, tmp_path)
    assert found["epochs"] == [1, 10, 20]
    everything = found["all"]
    assert everything["n"] == 14935 and found["top"]["n"] == 14935 // 4
    assert everything["whole"]["SoTL, all epochs"]["spearman"] == pytest.approx([0.389, 0.632, 0.750], abs=6e-4)
    table = load_spikenas()
    rows = np.flatnonzero(table.column("epochs") == 100)
    for index, epoch in enumerate(found["epochs"]):
        last = stats.spearmanr(-table.curves("train_loss")[rows, epoch - 1], table.accuracies()[rows]).statistic
        assert everything["whole"]["SoTL"]["spearman"][index] == pytest.approx(last, abs=6e-5)
    assert everything["accuracy"]["best"] == pytest.approx(89.30, abs=1e-4)
    assert found["top"]["accuracy"]["mean"] > everything["accuracy"]["mean"]
    first, second = everything["subsets"]
    assert first != second and everything["size"] == 60
    assert all(10 <= value <= 89.31 for value in first["ValAcc"]["top10"])


def test_without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYARCH_DATA", str(tmp_path))
    with pytest.raises(MissingData, match="Expected SpikeNAS-Bench at"):
        run(CURVE_RANKING.presets["quick"], 200, tmp_path)


class TestVerdicts:
    main = "SoTL ranks cells better than validation accuracy"

    def test_better_in_every_set_and_beyond_the_spread(self) -> None:
        better, worse = made({"SoTL": 0.7, "ValAcc": 0.6}), made({"SoTL": 0.5, "ValAcc": 0.6})
        assert verdict(claims(better, better), self.main) is True
        assert verdict(claims(better, worse), self.main) is False
        assert verdict(claims(made({"SoTL": 0.7, "ValAcc": 0.6}, noise=0.03)), self.main) is True
        assert verdict(claims(made({"SoTL": 0.7, "ValAcc": 0.6}, noise=0.05)), self.main) is None

    def test_only_early_epochs_count(self) -> None:
        late = made({"SoTL": 0.7, "ValAcc": 0.6})
        for subset in late["all"]["subsets"]:
            subset["ValAcc"]["spearman"][3:] = [0.9, 0.9]
        assert verdict(claims(late), self.main) is True
        for subset in late["all"]["subsets"]:
            subset["ValAcc"]["spearman"][:3] = [0.9, 0.9, 0.9]
        assert verdict(claims(late), self.main) is False

    def test_the_sum_over_all_epochs_has_a_verdict_of_its_own(self) -> None:
        """It does not count for SoTL, nor the other way round."""
        found = claims(made({"SoTL": 0.7, "SoTL, all epochs": 0.5, "ValAcc": 0.6}))
        assert verdict(found, self.main) is True
        assert verdict(found, "the sum of training losses over all epochs") is False
        assert verdict(found, "than the sum over all") is True

    def test_annealing_is_not_testable(self) -> None:
        assert verdict(claims(made({})), "fast annealing") is None

    @pytest.mark.parametrize(
        ("curve", "supported", "since"),
        [
            ([0.3, 0.5, 0.6, 0.7, 0.8], True, "from epoch 10 on"),
            ([0.3, 0.3, 0.3, 0.7, 0.8], False, "from epoch 60 on"),
            ([0.5, 0.5, 0.3, 0.7, 0.8], False, "from epoch 60 on"),
            ([0.1, 0.1, 0.1, 0.1, 0.1], False, "never"),
        ],
    )
    def test_parameters_are_left_behind(self, curve: list[float], supported: bool, since: str) -> None:
        """The verdict is that of the last epoch of the first quarter, the 20th."""
        one = made({})
        for ranked in (one["all"]["whole"], *one["all"]["subsets"]):
            ranked["SoTL"]["spearman"] = curve
        found = claims(one)
        assert verdict(found, "number of parameters") is supported
        assert since in next(claim.numbers for text, claim in found.items() if "number of parameters" in text)


def test_tables_and_figures_have_every_predictor_at_every_epoch() -> None:
    runs = {"100 epochs": made({})}
    found = tables({}, runs)
    assert len(found) == 2
    for table in found.values():
        assert table.columns == ["", *map(str, EPOCHS)]
        assert [row[0] for row in table.rows] == [*NAMES, "parameters"]
        assert all(len(row) == 6 for row in table.rows)
    for spec in figures({}, runs).values():
        assert len(spec["concat"]) == 2
        for panel in spec["concat"]:
            assert len(panel["data"]["values"]) == 6 * len(EPOCHS)


def test_tables_of_many_epochs_have_some_of_them() -> None:
    one = made({}, epochs=range(1, 101))
    for group in ("all", "top"):
        one[group]["whole"]["SoTL"]["spearman"] = [epoch / 1000 for epoch in range(1, 101)]
    for table in tables({}, {"100 epochs": one}).values():
        shown = [epoch for epoch in SHOWN if epoch <= 100]
        assert table.columns == ["", *map(str, shown)]
        assert table.rows[0] == ["SoTL", *(f"{epoch / 1000:.3f}" for epoch in shown)]
