"""A depth for networks of one's own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from depth_checks import OWN, SMALL, check_artifacts, check_numbers, depth_of, measured, options, succeed
from torch import Tensor, nn

import polyarch as library
from polyarch import Repeat
from polyarch.data import load
from polyarch.prediction.predictor import Predictor
from polyarch.results import Results

Command = Callable[..., subprocess.CompletedProcess[str]]


class Plain(nn.Module):
    """One Repeat; what follows is shared by all depths."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(2, 8)
        self.body = Repeat("layers", [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)])
        self.head = nn.Sequential(self.make_norm(), nn.Linear(8, 2))

    def make_norm(self) -> nn.Module:
        return nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(self.stem(x)))
        return logits


class Normalised(Plain):
    """With a batch norm layer after the Repeat: its averages differ from depth to depth."""

    def make_norm(self) -> nn.Module:
        return nn.BatchNorm1d(8)


class Skipping(Normalised):
    """A skip around the Repeat: depths do not come from one walk."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        logits: Tensor = self.head(x + self.body(x))
        return logits


@pytest.mark.parametrize("network", [Plain, Normalised, Skipping])
def test_a_network_of_ones_own(network: type[nn.Module], tmp_path: Path) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = network()
    found = library.search(
        "spirals", out=tmp_path / "run", module=model, quiet=True, report=False, settings={**SMALL, "train.epochs": 30}
    )
    check_numbers(found.results)
    check_artifacts(found, load("spirals"))
    record = depth_of(found.results)
    assert [measure.depth for measure in record.depths] == [1, 2, 3]
    assert found.results.training.q is not None and list(found.results.training.q) == ["layers"]
    assert record.functions is not None
    assert found.results.decisions[0] == "space module: your own network"


@pytest.mark.slow
def test_a_network_of_ones_own_by_name(tmp_path: Path, polyarch: Command) -> None:
    """Its artifact predicts where its code is not."""
    (tmp_path / "net.py").write_text(OWN)
    words = ["--data", "spirals", "--module", "net:build", "--method", "variational-depth", "--out", "run"]
    succeed(
        polyarch("search", *words, "--workers", "1", *options({"train.epochs": 20, "programs": ["onnx"]}), cwd=tmp_path)
    )
    results = Results.read(tmp_path / "run" / "results.json")
    check_numbers(results)
    for folder, record in zip(("artifact", "posterior"), results.predictors, strict=True):
        seen = measured(Predictor.load(tmp_path / "run" / folder), load("spirals"))
        assert seen["loss"] == pytest.approx(record.loss, abs=1e-4)
