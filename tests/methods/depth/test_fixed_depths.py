"""The baseline that trains every depth alone: which depths, the choice among them, and what is written down."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from depth_checks import depth_of
from torch import nn

import polyarch
from polyarch import Repeat
from polyarch.data import load
from polyarch.errors import ConfigError, InvalidInput
from polyarch.facade import SearchResult
from polyarch.methods.depth.fixed import fixed_depths
from polyarch.methods.depth.record import DepthRecord
from polyarch.results import Results, Role
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace

TINY: dict[str, Any] = {
    "method": "deterministic-depth",
    "space.max_depth": 3,
    "space.width": 6,
    "retrain.epochs": 20,
    "depth.depths": [0, 1, 3],
    "programs": [],
}


def search(
    out: Path, settings: dict[str, Any] | None = None, *, max_params: float | None = None, resume: bool = False
) -> SearchResult:
    return polyarch.search(
        "spirals",
        out=out,
        space="depth_fc",
        max_params=max_params,
        quiet=True,
        report=False,
        resume=resume,
        settings=None if resume else {**TINY, **(settings or {})},
    )


def run_of(max_depth: int, depths: tuple[int, ...] = ()) -> Run:
    content = {
        "data": {"name": "spirals"},
        "space": {"kind": "depth_fc", "max_depth": max_depth, "width": 2},
        "depth": {"depths": depths},
    }
    return Run.build(RunSettings.parse(content, "the test"), Workspace(Path("nowhere")))


@pytest.mark.parametrize(
    ("max_depth", "depths"),
    [
        (1, [1]),
        (3, [1, 2, 3]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (16, [2, 4, 6, 8, 10, 12, 14, 16]),
        (20, [2, 5, 8, 10, 12, 15, 18, 20]),
    ],
)
def test_depths_are_evenly_spread_up_to_the_deepest(max_depth: int, depths: list[int]) -> None:
    assert [architecture["depth"] for architecture in fixed_depths(run_of(max_depth))] == depths


def test_depths_that_were_asked_for() -> None:
    assert [architecture["depth"] for architecture in fixed_depths(run_of(6, (4, 0, 4, 6)))] == [0, 4, 6]
    with pytest.raises(ConfigError, match=r"Expected depths from 0 to 6. Got 7"):
        fixed_depths(run_of(6, (1, 7, 9)))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    return search(tmp_path_factory.mktemp("fixed") / "run", {"retrain.seeds": 2})


def test_every_depth_is_measured_and_the_lowest_validation_loss_chosen(found: SearchResult) -> None:
    record = depth_of(found.results)
    assert (record.rule, record.choices, record.expected, record.prior, record.updates) == (
        "validation",
        {},
        None,
        "",
        "",
    )
    assert [measure.depth for measure in record.depths] == [0, 1, 3]
    assert all(measure.q is None and measure.prior is None for measure in record.depths)
    assert record.chosen == min(record.depths, key=lambda measure: measure.valid_loss).depth
    assert record.predictors == [] and record.exits == [] and record.functions is None
    parameters = [measure.parameters for measure in record.depths]
    assert parameters == [32, 32 + 54, 32 + 3 * 54]


def test_the_comparison_has_both_seeds_of_every_depth(found: SearchResult) -> None:
    record, comparison = depth_of(found.results), found.results.comparison
    assert comparison is not None
    assert comparison[0].name == f"depth {record.chosen}"  # the best first
    assert [side.role for side in comparison] == [Role.BEST, Role.OTHER, Role.OTHER]
    assert sorted(side.name for side in comparison) == ["depth 0", "depth 1", "depth 3"]
    by_name = {side.name: side for side in comparison}
    for measure in record.depths:
        runs = by_name[f"depth {measure.depth}"].runs
        assert [run.seed for run in runs] == [0, 1]
        assert all(run.architecture == {"depth": str(measure.depth)} for run in runs)
        assert measure.score == pytest.approx(statistics.fmean(run.score for run in runs))
        assert measure.loss == pytest.approx(statistics.fmean(run.loss for run in runs))
        assert measure.valid_score == pytest.approx(statistics.fmean(run.valid_score for run in runs))
        assert len(runs[0].history) == 20
        assert runs[0].loss != runs[1].loss


def test_the_artifact_is_the_better_seed_of_the_chosen_depth(found: SearchResult) -> None:
    results = found.results
    record, comparison, artifact = depth_of(results), results.comparison, results.artifact
    assert comparison is not None and artifact is not None
    best = max(comparison[0].runs, key=lambda run: run.valid_score)
    assert artifact["architecture"] == {"depth": str(record.chosen)}
    assert (artifact["seed"], artifact["score"]) == (best.seed, best.score)
    (chosen,) = (measure for measure in record.depths if measure.depth == record.chosen)
    assert artifact["parameters"] == chosen.parameters
    test = load("spirals").test
    (inputs,) = test.stream([torch.arange(len(test))])
    predictions = found.predictor()(inputs)
    accuracy = (predictions.probabilities.argmax(1) == test.targets).double().mean()
    assert float(accuracy) == pytest.approx(best.score, abs=0.002)
    (predictor,) = results.predictors
    assert (predictor.name, predictor.members) == ("best depth", [artifact["architecture"]])
    assert predictor.uncalibrated["loss"] == pytest.approx(best.loss, rel=1e-5)
    assert torch.equal(found.predictor("single")(inputs).probabilities, predictions.probabilities)
    assert (results.default, predictor.folder) == ("artifact", "artifact")
    assert not (found.folder / "posterior").exists() and not (found.folder / "ensemble").exists()
    with pytest.raises(InvalidInput, match="a run that exports a predictor for mode marginal"):
        found.predictor("marginal")


def test_the_rest_of_the_results(found: SearchResult) -> None:
    results = found.results
    assert results.training.strategy == "none" and results.training.history == []
    assert isinstance(results.record, DepthRecord)  # nothing was ranked or searched
    assert {"retrain", "forward_full", "forward_pruned"} <= set(results.seconds)
    assert results.decisions[1].endswith("validation loss chooses the depth")
    assert Results.read(found.folder / "results.json") == results


def test_a_resumed_run_trains_nothing_again(found: SearchResult) -> None:
    journal = found.folder / "checkpoints" / "retrain.jsonl"
    before = journal.read_bytes()
    assert before.count(b"\n") == 6
    again = search(found.folder, resume=True)
    assert journal.read_bytes() == before
    one, other = (json.loads(results.model_dump_json()) for results in (found.results, again.results))
    assert {**one, "seconds": {}} == {**other, "seconds": {}}


def test_the_same_seed_gives_the_same_bits(found: SearchResult, tmp_path: Path) -> None:
    again = search(tmp_path / "run", {"retrain.seeds": 2})
    assert again.results.record == found.results.record and again.results.comparison == found.results.comparison
    weights = [folder / "artifact" / "weights.safetensors" for folder in (again.folder, found.folder)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def image_settings() -> dict[str, Any]:
    return {
        "space.kind": "depth_cnn",
        "space.max_depth": 2,
        "space.channels": 4,
        "space.inner_channels": 2,
        "data.limit": 100,
        "retrain.batch_size": 32,
    }


def own() -> nn.Module:
    body = Repeat("layers", [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2)])
    return nn.Sequential(nn.Flatten(), nn.Linear(2, 4), body, nn.BatchNorm1d(4), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("data", "settings", "module"),
    [("digits", image_settings(), None), ("spirals", {}, own)],
    ids=["images", "a network of one's own"],
)
def test_other_networks(data: str, settings: dict[str, Any], module: Any, tmp_path: Path) -> None:
    found = polyarch.search(
        data,
        out=tmp_path / "run",
        module=module,
        quiet=True,
        report=False,
        settings={"method": "deterministic-depth", "retrain.epochs": 2, "programs": [], **settings},
    )
    record, artifact = depth_of(found.results), found.results.artifact
    assert artifact is not None
    assert [measure.depth for measure in record.depths] == [1, 2]
    assert list(artifact["architecture"].values()) == [str(record.chosen)]
    test = load(data).test
    (inputs,) = test.stream([torch.arange(len(test))])
    accuracy = (found.predictor()(inputs).probabilities.argmax(1) == test.targets).double().mean()
    assert float(accuracy) == pytest.approx(artifact["score"], abs=0.005)


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_the_command(
    workers: str, found: SearchResult, tmp_path: Path, polyarch: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    words = ["--data", "spirals", "--space", "depth_fc", "--method", "deterministic-depth", "--workers", workers]
    settings = {name: value for name, value in TINY.items() if name != "method"}
    chosen = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    finished = polyarch("search", *words, *chosen, "--out", "run", cwd=tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    results = Results.read(tmp_path / "run" / "results.json")
    record = depth_of(results)
    by_seed = {side.name: side.runs[0] for side in found.results.comparison or []}  # the same in any process
    assert {side.name: side.runs[0] for side in results.comparison or []} == by_seed
    assert f"Depth: {record.chosen} of 3 by rule validation" in finished.stdout
    assert "3 networks of fixed depth, 20 epochs" in finished.stdout
    assert (tmp_path / "run" / "report.html").exists()


def test_limits_leave_depths_out(tmp_path: Path) -> None:
    """Depth 3 has 194 parameters."""
    found = search(tmp_path / "run", max_params=190)
    assert [measure.depth for measure in depth_of(found.results).depths] == [0, 1]
    assert found.results.artifact is not None and found.results.artifact["parameters"] <= 190


def test_limits_that_none_of_the_asked_depths_keeps(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="limits that one of the depths keeps"):
        search(tmp_path / "run", {"depth.depths": [2, 3]}, max_params=100)
