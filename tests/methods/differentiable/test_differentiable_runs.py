"""Differentiable searches from settings to artifacts: every method, limits, stages, stops and refusals."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from stopping import run_and_stop, run_whole
from torch import nn

import polyarch as library
from polyarch.data import load
from polyarch.errors import Interrupted
from polyarch.facade import SearchResult
from polyarch.methods.differentiable.recipes import RECIPES
from polyarch.methods.differentiable.record import DifferentiableRecord
from polyarch.methods.differentiable.strategy import recipe_settings
from polyarch.results import Results, Role
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.suggestion import merged
from polyarch.spaces import parse_darts, parse_nb201, skip_count

Command = Callable[..., subprocess.CompletedProcess[str]]
Outcome = Callable[[Path], dict[str, Any]]

SMALL: dict[str, Any] = {
    "train.epochs": 2, "train.batch_size": 32, "retrain.epochs": 1, "retrain.seeds": 1, "retrain.members": 2,
    "retrain.random_architectures": 1, "scores.policy_batches": 2, "programs": [], "checkpoint_seconds": 0,
    "differentiable.steps": 2, "differentiable.tune_steps": 1, "differentiable.eigenvalue_every": 0,
}  # fmt: skip
IMAGES: dict[str, Any] = {
    **SMALL, "data.limit": 72, "space.kind": "nb201", "space.channels": 2,
}  # fmt: skip
DARTS: dict[str, Any] = {
    **SMALL, "data.limit": 40, "space.kind": "darts", "space.channels": 8, "space.layers": 3, "train.batch_size": 20,
    "space.operations": ["skip_connect", "sep_conv_3x3"], "train.epochs": 1,
}  # fmt: skip

# A file with a network of one's own.
OWN = """
from torch import nn
from polyarch import OneOf, Repeat

def build(input_shape, classes):
    first = OneOf("first", curved=nn.Sequential(nn.Linear(2, 6), nn.Tanh()), plain=nn.Linear(2, 6))
    second = OneOf("second", skip=nn.Identity(), curved=nn.Sequential(nn.Linear(6, 6), nn.ReLU()))
    return nn.Sequential(first, nn.BatchNorm1d(6), second, nn.Linear(6, classes))

def only_depth(input_shape, classes):
    return nn.Sequential(nn.Linear(2, 6), Repeat("depth", [nn.Linear(6, 6) for _ in range(2)]), nn.Linear(6, classes))
"""


def own(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    names: dict[str, Any] = {}
    exec(OWN, names)  # the same network as in the file
    module: nn.Module = names["build"](input_shape, classes)
    return module


def record_of(results: Results) -> DifferentiableRecord:
    found = results.found(DifferentiableRecord)
    assert found is not None
    return found


def searched(method: str, out: Path, settings: dict[str, Any], **options: Any) -> SearchResult:
    options = {"report": False, **options}
    data = options.pop("data", "digits")
    return library.search(data, out=out, method=method, quiet=True, settings=settings, **options)


COMBINED = ("sotl-drnas", "sotl-pdarts")  # of a gradient and a relaxation that others have
CELLS_ONLY = ("pc-darts", "darts-20", "sotl-darts-20")


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=pytest.mark.slow if name in COMBINED else ())
        for name in RECIPES
        if name not in CELLS_ONLY
    ],
)
def test_every_method_goes_through_with_a_network_of_ones_own(method: str, tmp_path: Path) -> None:
    settings = {**SMALL, "retrain.members": 1, "retrain.random_architectures": 0}
    found = searched(method, tmp_path / "run", settings, data="spirals", module=own)
    record = record_of(found.results)
    assert (record.method, record.gradient) == (method, RECIPES[method].gradient)  # type: ignore[index]
    assert len(record.history) == len(record.architectures) == len(record.marginals)
    for row in record.history:
        assert {"loss", "skips", "entropy_share", "valid_accuracy"} <= set(row)
    for choice, probabilities in record.marginals[-1].items():
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert len(probabilities) == len(record.choices[choice])
    assert found.results.artifact is not None
    assert found.results.artifact["architecture"] == record.architecture
    inputs = next(iter(load("spirals").test.stream([torch.arange(3)])))
    assert found.predictor()(inputs).probabilities.shape == (3, 2)


@pytest.fixture(scope="module")
def cell_run(tmp_path_factory: pytest.TempPathFactory, data_root: Path, nb201_table_path: Path) -> SearchResult:
    settings = {**IMAGES, "rank.truth": "nb201", "differentiable.eigenvalue_every": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYARCH_DATA", str(data_root))
        return searched("sotl-darts", tmp_path_factory.mktemp("cells") / "run", settings, report=True)


class TestCells:
    def test_the_course_is_recorded(self, cell_run: SearchResult) -> None:
        record = record_of(cell_run.results)
        assert {"true_accuracy", "eigenvalue", "cell_depth", "q_loss"} <= set(record.history[-1])
        assert record.notation is not None
        assert parse_nb201(record.notation).to_dict() == record.architecture
        assert record.architectures[-1].count("|") == 5

    def test_the_comparison_has_random_architectures(self, cell_run: SearchResult) -> None:
        assert cell_run.results.comparison is not None
        names = [contender.name for contender in cell_run.results.comparison]
        assert names[:2] == ["best architecture, retrained", "random architectures, retrained"]
        assert [contender.role for contender in cell_run.results.comparison] == [
            Role.BEST, Role.RANDOM, Role.INHERITED,
        ]  # fmt: skip
        assert isinstance(cell_run.results.record, DifferentiableRecord)  # nothing was searched or ranked

    def test_the_ensemble_is_the_answer(self, cell_run: SearchResult) -> None:
        inputs = next(iter(load("digits").test.stream([torch.arange(20)])))
        usual, together, alone = (cell_run.predictor(mode)(inputs) for mode in (None, "ensemble", "single"))
        assert torch.equal(usual.probabilities, together.probabilities)
        assert not torch.equal(usual.probabilities, alone.probabilities)

    def test_the_report_tells_of_it(self, cell_run: SearchResult) -> None:
        page = (cell_run.folder / "report.html").read_text()
        assert "sotl-darts" in page and page.endswith("</html>")
        assert Results.read(cell_run.folder / "results.json") == cell_run.results


@pytest.mark.slow
def test_partial_channels_search_edges_and_train_all_channels_alone(tmp_path: Path) -> None:
    found = searched("pc-darts", tmp_path / "run", {**DARTS, "retrain.members": 1})
    record = record_of(found.results)
    assert "normal 2" in record.choices and record.choices["normal 0->2"] == ["skip_connect", "sep_conv_3x3"]
    assert found.results.settings["space"]["partial"] == 4
    assert record.notation is not None
    assert parse_darts(record.notation).space.name == "darts"


def test_what_a_method_asks_for_gives_way_to_what_the_user_asks_for() -> None:
    asked = {"space": {"kind": "darts", "layers": 3}, "differentiable": {"gradient": "sovl"}}
    found = recipe_settings(RECIPES["sotl-darts-20"], "darts")
    assert found["space"] == {"layers": 20} and found["differentiable"]["gradient"] == "sotl"
    taken = merged(found, asked)
    assert taken["space"]["layers"] == 3 and taken["differentiable"]["gradient"] == "sovl"


def test_limits_are_kept(tmp_path: Path) -> None:
    settings = {**IMAGES, "train.epochs": 1, "retrain.members": 1}
    found = searched("darts", tmp_path / "run", settings, max_params=6000)
    assert found.results.artifact is not None and found.results.artifact["parameters"] <= 6000


@pytest.mark.slow
def test_stages_drop_options_and_limit_skips(tmp_path: Path) -> None:
    found = searched("pdarts", tmp_path / "run", {**IMAGES, "train.epochs": 3, "retrain.members": 1})
    record = record_of(found.results)
    assert [row["epoch"] for row in record.history] == [0, 1, 2]
    left = [{sum(p > 0 for p in values) for values in marginals.values()} for marginals in record.marginals]
    assert left == [{5}, {4}, {3}]
    architecture = library.spaces.nb201_space().architecture(record.architecture)
    assert skip_count(architecture) <= 2


def test_perturbation_chooses_an_architecture(tmp_path: Path) -> None:
    settings = {**SMALL, "differentiable.discretisation": "perturbation", "retrain.members": 1}
    found = searched("darts", tmp_path / "run", settings, data="spirals", module=own)
    assert record_of(found.results).discretisation == "perturbation"
    assert found.results.artifact is not None


@pytest.mark.parametrize(
    ("method", "at"),
    [
        ("pdarts", 3),
        pytest.param("sotl-darts", 2, marks=pytest.mark.slow),
        pytest.param("gdas", 4, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_was_stopped_ends_with_the_same_bits(method: str, at: int, tmp_path: Path, outcome: Outcome) -> None:
    (tmp_path / "net.py").write_text(OWN)
    described = {
        **SMALL, "method": method, "data.name": "spirals", "space.kind": "module", "space.module": "net:build",
        "train.epochs": 4, "workers": 1, "retrain.members": 1, "differentiable.guard": "roll_back",
        "differentiable.eigenvalue_every": 1,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.syspath_prepend(tmp_path)
        asked = RunSettings.parse(with_overrides({}, described), "a test")
        whole = run_whole(asked, tmp_path / "whole")
        with pytest.raises(Interrupted):
            run_and_stop(asked, tmp_path / "stopped", at)
        library.search("spirals", out=tmp_path / "stopped", resume=True, quiet=True, report=False, trust_module=True)
    assert record_of(whole).method == method
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "darts", "--space", "depth_fc"], "Got a space of depths; variational-depth learns a depth."),
        (["--method", "darts", "--module", "net:only_depth"], "Got a space of depths"),
        (["--method", "pc-darts", "--space", "mlp"], "a space of darts, nb201 for partial channels. Got 'mlp'"),
        (["--method", "darts-20", "--space", "mlp"], "Expected space darts for a method of 20 layers. Got 'mlp'"),
        (["--method", "darts", "--space", "mlp", "--budget", "5"],
         "Expected no search.budget with method 'darts', which scores nothing"),
        (["--method", "sotl-darts", "--space", "mlp", "--set", "differentiable.steps=500"], "for differentiable.steps"),
        (["--method", "darts", "--space", "mlp", "--set", "differentiable.gradient=none"], "differentiable.gradient"),
        (["--method", "pdarts", "--space", "mlp", "--set", 'differentiable.stages=[{depth=2, options=1}]'],
         "Expected no depth in differentiable.stages for space mlp. Got 2."),
        (["--method", "das", "--space", "mlp"], "method"),
    ],
)  # fmt: skip
def test_refusals_are_one_sentence(tmp_path: Path, polyarch: Command, words: list[str], sentence: str) -> None:
    (tmp_path / "net.py").write_text(OWN)
    refused = polyarch("search", "--data", "spirals", *words, "--out", "run", cwd=tmp_path)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert sentence in refused.stderr
    assert refused.stderr.count("\n") == 1 and "Traceback" not in refused.stderr
    assert not (tmp_path / "run").exists()
