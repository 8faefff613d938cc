"""The predictor of an artifact says what its networks say, and refuses the rest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import CorruptFile, DataError, InvalidInput, MissingExtra, NotFiniteError
from polyarch.export import Artifact, Member, Program, write_artifact
from polyarch.nn import OneOf, StackedNetworks
from polyarch.prediction.predictor import Predictor
from polyarch.supernets import from_module

Command = Callable[..., subprocess.CompletedProcess[str]]


class TestPredictor:
    def test_predicts_what_the_networks_say(self, examples: ModuleType, folders: dict[str, Path]) -> None:
        artifact = examples.image_artifact(2)
        images = examples.images(600)  # more than a batch
        found = Predictor.load(folders["image"])(images)
        with torch.no_grad():
            probabilities, entropy, information = Program.of(artifact)(images)
        torch.testing.assert_close(found.probabilities, probabilities)
        torch.testing.assert_close(found.entropy, entropy)
        torch.testing.assert_close(found.mutual_information, information)
        assert torch.equal(found.flagged, found.entropy > artifact.calibration.threshold)
        assert 0 < int(found.flagged.sum()) < 600 and len(found) == 600
        assert not found.probabilities.requires_grad

    def test_no_examples_no_predictions(self, predictors: dict[str, Predictor]) -> None:
        found = predictors["vector"](torch.empty(0, 2))
        assert found.probabilities.shape == (0, 2) and len(found) == 0

    @pytest.mark.parametrize(
        ("inputs", "words"),
        [
            (torch.zeros(3, 3), "Expected examples of shape"),
            (torch.zeros(2), "Expected examples of shape"),
            (torch.zeros(3, 2, dtype=torch.float64), "as torch.float32"),
            (torch.tensor([[0.0, 0.0], [0.0, torch.nan]]), "NaN or infinity in example 1"),
        ],
    )
    def test_wrong_inputs(self, inputs: Tensor, words: str, predictors: dict[str, Predictor]) -> None:
        with pytest.raises(InvalidInput, match=words):
            predictors["vector"](inputs)

    def test_infinite_values_of_a_table(self, predictors: dict[str, Predictor], examples: ModuleType) -> None:
        rows = examples.rows(3)
        rows[2, 0] = torch.inf
        with pytest.raises(DataError, match="infinity in row c"):
            predictors["table"](rows, names=["row a", "row b", "row c"])

    def test_predictions_that_are_no_numbers(self, predictors: dict[str, Predictor]) -> None:
        def run(inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            values = torch.where(inputs[:, 0] > 1, torch.nan, 0.5)
            return torch.stack([values, values], 1), values, values

        with pytest.raises(NotFiniteError, match="NaN for example 1"):
            replace(predictors["vector"], forward=run)(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))


def build_own_network(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    width = input_shape[0]
    first = OneOf("first", linear=nn.Linear(width, width), skip=nn.Identity())
    return nn.Sequential(first, nn.ReLU(), nn.Linear(width, classes))


class TestOwnNetworks:
    """A file never says which code to run."""

    @pytest.fixture
    def own(self, examples: ModuleType) -> Artifact:
        net = from_module(build_own_network((2,), 2), torch.zeros(2, 2))
        architecture = net.space.sample(torch.Generator().manual_seed(0))
        artifact: Artifact = replace(
            examples.vector_artifact(),
            network={"kind": "module", "module": "trap:spring"},
            members=(Member(architecture.to_dict(), 1.0),),
            networks=StackedNetworks([net.extract(architecture)]),
        )
        return artifact

    def test_they_run_by_onnx_or_by_their_function(
        self, own: Artifact, examples: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.chdir(tmp_path)
        folder, inputs = tmp_path / "artifact", examples.vectors(9)
        examples.write_whole(folder, own, inputs, formats=("onnx",))
        with torch.no_grad():
            expected, _, _ = Program.of(own)(inputs)
        for predictor in (Predictor.load(folder), Predictor.load(folder, module=build_own_network)):
            torch.testing.assert_close(predictor(inputs).probabilities, expected, atol=1e-5, rtol=0)
        assert "trap" not in sys.modules

    def test_without_a_program_or_packages(
        self, own: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_artifact(tmp_path, own)
        with pytest.raises(CorruptFile, match=r"model\.onnx, to run a network of your own"):
            Predictor.load(tmp_path)
        for content in (b"", b"no program", b"\x08\x07" * 50):
            (tmp_path / "model.onnx").write_bytes(content)
            with pytest.raises(CorruptFile, match="Expected an ONNX program") as caught:
                Predictor.load(tmp_path, verify=False)
            assert "\n" not in str(caught.value)
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(MissingExtra, match=r"'polyarch\[onnx\]'"):
            Predictor.load(tmp_path, verify=False)

    def test_a_program_for_other_inputs(self, own: Artifact, examples: ModuleType, tmp_path: Path) -> None:
        examples.write_whole(tmp_path / "other", examples.table_artifact(), examples.rows(4), formats=("onnx",))
        write_artifact(tmp_path / "own", own)
        (tmp_path / "other" / "model.onnx").replace(tmp_path / "own" / "model.onnx")
        with pytest.raises(CorruptFile, match="Expected the ONNX program to accept shape"):
            Predictor.load(tmp_path / "own", verify=False)(examples.vectors(3))

    def test_another_function(self, own: Artifact, tmp_path: Path) -> None:
        write_artifact(tmp_path, own)
        with pytest.raises(CorruptFile, match="to describe its networks"):
            Predictor.load(tmp_path, module=lambda: nn.Linear(2, 2))
