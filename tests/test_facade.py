"""The whole job from Python: names, arrays, own networks, resumption and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import polyarch
from polyarch import OneOf, Repeat
from polyarch.data import ImageFiles, load
from polyarch.data.image_folders import read_image_folder
from polyarch.errors import ConfigError, InvalidInput
from polyarch.methods.one_shot.method import OneShot
from polyarch.plugins import METHODS
from polyarch.results import Results

TINY: dict[str, Any] = {
    "data.limit": 120,
    "train.epochs": 2,
    "train.batch_size": 32,
    "scores.steps": 2,
    "scores.policy_batches": 2,
    "rank.architectures": 3,
    "search.budget": 4,
    "search.window": 2,
    "search.population": 2,
    "search.tournament": 2,
    "retrain.epochs": 2,
    "retrain.seeds": 1,
    "retrain.members": 2,
    "retrain.random_architectures": 1,
}


class Own(nn.Module):
    """A user's network with its own parameter that no layer resets."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((), 3.0))
        self.mix = OneOf("mix", relu=nn.Sequential(nn.Linear(64, 8), nn.ReLU()), tanh=nn.Linear(64, 8))
        self.body = Repeat("depth", [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2)])
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        head: torch.Tensor = self.head(self.body(self.mix(x.flatten(1) * self.scale)))
        return head


@pytest.mark.slow
def test_a_known_name_and_its_ensemble(tmp_path: Path) -> None:
    found = polyarch.search("digits", out=tmp_path / "run", max_params=10_000, quiet=True, settings=TINY)
    assert found.results.artifact is not None and found.results.artifact["parameters"] <= 10_000
    assert [item.name for item in found.results.predictors] == ["best architecture", "ensemble of 2"]
    test = load("digits").test
    (inputs,) = test.stream([torch.arange(len(test))])
    for mode, record in zip(("single", "ensemble"), found.results.predictors, strict=True):
        predictions = found.predictor(mode)(inputs)
        accuracy = (predictions.probabilities.argmax(1) == test.targets).double().mean()
        assert float(accuracy) == pytest.approx(record.score, abs=0.006)  # float32 against float64
        assert float(predictions.flagged.double().mean()) == pytest.approx(record.flagged, abs=0.006)
    assert any("space nb201" in decision for decision in found.results.decisions)
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.slow
def test_arrays_become_a_table_like_search(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(90, 4)).astype(np.float32)
    labels = np.where(inputs[:, 0] + inputs[:, 1] > 0, "up", "down")
    found = polyarch.search((inputs, labels), out=tmp_path / "run", quiet=True, settings=TINY)
    assert found.results.space["kind"] == "mlp"
    assert found.predictor().classes == ("down", "up")


@pytest.mark.slow
def test_images_that_do_not_fit_into_memory_are_streamed(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for label, name in enumerate(["dark", "light"]):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(20):
            pixels = generator.integers(100 * label, 100 * label + 100, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
    settings = {**TINY, "train.batch_size": 8, "scores.batch_size": 8, "retrain.batch_size": 8, "programs": []}
    outcomes = []
    for limit in (0, 10**9):
        data = read_image_folder(tmp_path / "photos", resident_limit=limit)
        assert isinstance(data.train, ImageFiles) == (limit == 0)
        found = polyarch.search(data, out=tmp_path / f"run{limit}", quiet=True, report=False, settings=settings)
        outcomes.append((found.results.artifact, found.results.comparison, found.results.predictors))
    assert outcomes[0][:2] == outcomes[1][:2]


@pytest.mark.parametrize("program", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_own_module_starts_every_training_from_its_own_weights(program: bool, tmp_path: Path) -> None:
    model, out = Own(), tmp_path / "run"
    settings = {**TINY, "programs": ["onnx"] if program else [], "retrain.members": 1}
    found = polyarch.search("digits", out=out, module=model, quiet=True, report=False, settings=settings)
    assert found.results.space["choices"] == {"mix": ["relu", "tanh"], "depth": ["1", "2"]}
    assert float(model.scale.detach()) == 3.0  # the user's module is untouched
    (inputs,) = load("digits").test.stream([torch.arange(5)])
    by_module = found.predictor()(inputs).probabilities
    if program:  # without the module
        by_program = polyarch.Predictor.load(out / "artifact")(inputs).probabilities
        torch.testing.assert_close(by_module, by_program, atol=1e-4, rtol=1e-4)


def test_a_learned_distribution_is_a_mixture_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a method that is handed over as an object."""
    monkeypatch.setattr(METHODS, "_added", {})
    found = polyarch.search(
        "spirals",
        out=tmp_path / "run",
        method=OneShot("mine"),
        space="depth_fc",
        quiet=True,
        report=False,
        settings={**TINY, "train.strategy": "variational", "space.max_depth": 3, "programs": []},
    )
    posterior = found.results.predictors[-1]
    q = found.results.training.q
    assert q is not None
    assert posterior.name == "mixture over the learned distribution (4)"
    assert posterior.weights == pytest.approx(sorted(q["depth"], reverse=True), rel=1e-5)
    (inputs,) = load("spirals").test.stream([torch.arange(50)])
    assert float(found.predictor("marginal")(inputs).mutual_information.max()) > 0
    assert found.results.method == "mine" and found.results.default == "ensemble"
    assert [one.folder for one in found.results.predictors] == ["artifact", "ensemble", "posterior"]
    alone, together = (found.predictor(mode)(inputs).probabilities for mode in ("single", "ensemble"))
    assert torch.equal(found.predictor()(inputs).probabilities, together) and not torch.equal(alone, together)


@pytest.mark.slow
def test_a_finished_run_is_resumed_with_the_same_results(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    pair = (generator.normal(size=(60, 3)), np.arange(60) % 2)
    first = polyarch.search(pair, out=tmp_path / "run", quiet=True, settings=TINY)
    again = polyarch.search(pair, out=tmp_path / "run", quiet=True, resume=True)
    one, other = (json.loads(found.results.model_dump_json()) for found in (first, again))
    assert {**one, "seconds": {}} == {**other, "seconds": {}}
    assert Results.read(tmp_path / "run" / "results.json") == again.results


def test_wrong_arguments_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(ConfigError, match="a space or a module, not both"):
        polyarch.search("digits", out=out, space="nb201", module=Own())
    with pytest.raises(InvalidInput, match="no_such_data"):
        polyarch.search("no_such_data", out=out, quiet=True)
    with pytest.raises(ConfigError, match="max_minutes"):
        polyarch.search("digits", out=out, max_minutes=-1)
    with pytest.raises(InvalidInput, match="smallest seen"):
        polyarch.search("digits", out=out, max_params=10, quiet=True)
    assert not out.exists()
