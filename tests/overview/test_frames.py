"""Results as tables of pandas."""

from __future__ import annotations

import pytest
from depth_examples import photos_results
from report_examples import cell_results
from stochastic_examples import stochastic_results

from polyarch.overview import frames_of
from polyarch.results import SizeRecord


def test_every_tested_network_has_a_row_with_intervals() -> None:
    results = cell_results()
    assert results.comparison is not None
    table = frames_of(results).results
    scores = [run.score for side in results.comparison for run in side.runs]
    assert table.score.tolist() == scores + [one.score for one in results.predictors]
    assert ((table.score_low < table.score) & (table.score < table.score_high)).all()
    assert (table.accuracy == table.score).all()


def test_networks_that_were_looked_at() -> None:
    study = frames_of(cell_results()).study
    assert {"architecture", "parameters", "sotl", "val_acc"} <= set(study.columns)
    assert study["architecture"].is_unique and len(study) > 20
    depths = frames_of(photos_results()).study
    assert depths["depth"].tolist() == list(range(len(depths))) and "resampled" not in depths
    assert {"weight", "valid_loss"} <= set(frames_of(stochastic_results()).study.columns)


def test_curves_are_long() -> None:
    results = cell_results()
    curves = frames_of(results).curves
    supernet = curves[(curves.network == "supernet") & (curves.measure == "loss")]
    assert supernet.value.tolist() == [row["loss"] for row in results.training.history]
    assert set(curves.columns) == {"network", "seed", "over", "at", "measure", "value"}


def test_fronts(monkeypatch: pytest.MonkeyPatch) -> None:
    size = SizeRecord(
        architecture={"width": "4", "depth": "1"}, parameters=10, macs=20.0, latency=0.1,
        valid_score=0.9, valid_loss=0.3, score=0.8, loss=0.4,
    )  # fmt: skip
    monkeypatch.setattr("polyarch.overview.frames.sizes_of", lambda results: [size])
    front = frames_of(cell_results()).front
    (row,) = front.to_dict("records")
    assert [row[name] for name in ("index", "architecture", "parameters", "score")] == [0, "4|1", 10, 0.8]
    assert front.columns[0] == "index"


def test_methods_without_sizes_have_an_empty_front() -> None:
    assert frames_of(cell_results()).front.empty
