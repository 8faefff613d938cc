"""`polyarch predict` and `polyarch serve` as a user meets them, and the predictor behind them."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
import torch
import typer
from PIL import Image
from torch import Tensor, nn
from typer.testing import CliRunner

from polyarch.cli.prediction import predict, serve
from polyarch.errors import CorruptFile, DataError, InvalidInput, MissingExtra, NotFiniteError, PolyarchError
from polyarch.export import Artifact, Member, Program, write_artifact
from polyarch.jobs.display import Quiet
from polyarch.jobs.prediction import Predictor
from polyarch.jobs.prediction_inputs import read_inputs
from polyarch.jobs.prediction_outputs import write_predictions
from polyarch.nn import OneOf
from polyarch.supernets import from_module

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def examples() -> ModuleType:
    """The small artifacts of the tests of exports."""
    return importlib.import_module("artifact_examples")


@pytest.fixture(scope="module")
def folders(examples: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An artifact for every kind of data."""
    found = {}
    for kind in ("image", "table", "vector"):
        found[kind] = tmp_path_factory.mktemp(kind)
        write_artifact(found[kind], getattr(examples, f"{kind}_artifact")(2))
    return found


@pytest.fixture(scope="module")
def predictors(folders: dict[str, Path]) -> dict[str, Predictor]:
    return {kind: Predictor.load(folder) for kind, folder in folders.items()}


@pytest.fixture(scope="module")
def table(examples: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """40 rows as a person writes them, with a column of labels."""
    values = examples.rows(40, seed=3)
    frame = pd.DataFrame(values.numpy(), columns=[column.name for column in examples.COLUMNS])
    for column in examples.COLUMNS:
        if column.categories is not None:
            words = {**dict(enumerate(column.categories)), -1: "never seen"}
            frame[column.name] = [None if np.isnan(code) else words[int(code)] for code in frame[column.name]]
    frame["label"] = ["low", "=high", "-", "low"] * 10
    return frame


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
        assert torch.equal(found.flagged, found.entropy > artifact.threshold)
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
            replace(predictors["vector"], run=run)(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))


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
        member = Member(architecture.to_dict(), 1.0, net.extract(architecture))
        settings = {"kind": "module", "module": "trap:spring"}
        artifact: Artifact = replace(examples.vector_artifact(), network=settings, members=(member,))
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
        with pytest.raises(CorruptFile, match=r"model\.onnx, by which a network of your own runs"):
            Predictor.load(tmp_path)
        for content in (b"", b"no program", b"\x08\x07" * 50):
            (tmp_path / "model.onnx").write_bytes(content)
            with pytest.raises(CorruptFile, match="Expected an ONNX program") as caught:
                Predictor.load(tmp_path)
            assert "\n" not in str(caught.value)
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(MissingExtra, match=r"'polyarch\[onnx\]'"):
            Predictor.load(tmp_path)

    def test_a_program_for_other_inputs(self, own: Artifact, examples: ModuleType, tmp_path: Path) -> None:
        examples.write_whole(tmp_path / "other", examples.table_artifact(), examples.rows(4), formats=("onnx",))
        write_artifact(tmp_path / "own", own)
        (tmp_path / "other" / "model.onnx").replace(tmp_path / "own" / "model.onnx")
        with pytest.raises(CorruptFile, match="Expected the ONNX program to take"):
            Predictor.load(tmp_path / "own")(examples.vectors(3))

    def test_another_function(self, own: Artifact, tmp_path: Path) -> None:
        write_artifact(tmp_path, own)
        with pytest.raises(CorruptFile, match="to describe its networks"):
            Predictor.load(tmp_path, module=lambda: nn.Linear(2, 2))


class TestInputs:
    def collect(self, path: Path, predictor: Predictor) -> tuple[list[str], Tensor]:
        inputs = read_inputs(path, predictor)
        return inputs.ids, torch.cat(list(inputs.batches))

    @pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
    def test_tables(
        self, suffix: str, table: pd.DataFrame, tmp_path: Path, predictors: dict[str, Predictor], examples: ModuleType
    ) -> None:
        path = tmp_path / f"rows{suffix}"
        frame = table[table.columns[::-1]]  # found by name, not by place
        frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
        inputs = read_inputs(path, predictors["table"])
        rows = torch.cat(list(inputs.batches))
        assert torch.equal(rows.nan_to_num(-9), examples.rows(40, seed=3).nan_to_num(-9))
        assert inputs.ids == [str(number) for number in range(1, 41)]
        assert inputs.target == "label" and inputs.targets is not None
        assert inputs.targets.tolist() == [0, 1, 2, 0] * 10

    def test_ids_and_columns_that_are_no_labels(
        self, table: pd.DataFrame, tmp_path: Path, predictors: dict[str, Predictor]
    ) -> None:
        path = tmp_path / "rows.csv"
        table.assign(ID=[f"p{number}" for number in range(40)]).to_csv(path, index=False)
        assert read_inputs(path, predictors["table"]).ids[:2] == ["p0", "p1"]
        table.assign(label=["low"] * 39 + ["other"], note="x").to_csv(path, index=False)
        assert read_inputs(path, predictors["table"]).targets is None
        table.assign(guess="low", hint="-").drop(columns="label").to_csv(path, index=False)
        assert read_inputs(path, predictors["table"]).targets is None  # two candidates, none by name

    def test_arrays(self, tmp_path: Path, predictors: dict[str, Predictor], examples: ModuleType) -> None:
        path, images = tmp_path / "a.npz", examples.images(5)
        np.savez(path, images.numpy())
        assert torch.equal(self.collect(path, predictors["image"])[1], images)
        np.savez(path, x=images.permute(0, 2, 3, 1).numpy().astype(np.int64), y=np.zeros(5))
        ids, found = self.collect(path, predictors["image"])
        assert torch.equal(found, images) and ids == ["0", "1", "2", "3", "4"]
        np.savez_compressed(path, x=np.array([[1, 2]]))
        assert self.collect(path, predictors["vector"])[1].tolist() == [[1.0, 2.0]]
        np.savez(path, x=examples.rows(3).numpy())
        assert self.collect(path, predictors["table"])[1].shape == (3, 4)

    def test_images(self, tmp_path: Path, predictors: dict[str, Predictor], examples: ModuleType) -> None:
        images = examples.images(3)
        names = ["b.png", "a/z.PNG", ".hidden/x.png"]
        for name, image in zip(names, images, strict=True):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / name)
        (tmp_path / "notes.txt").write_text("no image")
        (tmp_path / ".hidden.png").write_text("no image either")
        ids, found = self.collect(tmp_path, predictors["image"])
        assert ids == ["a/z.PNG", "b.png"]
        assert torch.equal(found, images[[1, 0]])
        ids, found = self.collect(tmp_path / "b.png", predictors["image"])
        assert ids == ["b.png"] and torch.equal(found, images[:1])
        floats = replace(predictors["image"], input_dtype=torch.float32)
        assert torch.equal(self.collect(tmp_path / "b.png", floats)[1], images[:1].float() / 255)

    def test_a_large_folder_is_streamed(self, tmp_path: Path, predictors: dict[str, Predictor]) -> None:
        for number in range(300):
            Image.new("RGB", (8, 8)).save(tmp_path / f"{number:03}.png")
        (tmp_path / "299.png").write_bytes(b"damaged")
        batches = read_inputs(tmp_path, predictors["image"]).batches
        assert len(next(batches)) == 256  # the damaged image was not looked at yet
        with pytest.raises(CorruptFile, match=r"299\.png"):
            next(batches)

    @pytest.mark.parametrize(
        ("kind", "name", "content", "words"),
        [
            ("image", "nothing", None, "Expected a file or a folder at .*nothing"),
            ("image", "rows.csv", b"a,b\n1,2\n", r"Expected images \(3, 8, 8\) for this artifact. Found a table"),
            ("vector", "rows.csv", b"a,b\n1,2\n", "vectors of .* in an .npz file"),
            ("table", "a.png", b"", "Expected rows of a table with 4 columns .* Found an image"),
            ("vector", "a.png", b"", "Found an image"),
            ("image", "a.png", b"no image", "a.png to be a readable image"),
            ("image", "a.png", b"", "a.png to be a readable image"),
            ("image", "a.txt", b"", "Expected .csv, .csv.gz, .parquet, .npz, an image or a folder"),
            ("table", "rows.csv", b"", "rows.csv"),
            ("table", "rows.csv", b"age,colour,income,city\n", "Expected rows in"),
            ("table", "rows.csv", b"age,colour,income\n1,red,2\n", "Expected columns 'city'"),
            ("table", "rows.csv", b"age,colour,income,city\n1,red,2,a\nold,red,2,a\n", "Found 'old' in row 2"),
            ("table", "rows.csv", b"age,colour,income,city\ninf,red,2,a\n", "finite numbers"),
            ("table", "rows.csv", b"\xff\xfe\x00", "rows.csv"),
            ("table", "rows.parquet", b"PAR1", "rows.parquet"),
            ("table", "rows.csv.gz", b"no gzip", "rows.csv.gz"),
            ("image", "a.npz", b"no zip", "a.npz to be a file of plain numpy arrays"),
            ("image", "a.npz", b"", "a.npz"),
        ],
    )
    def test_wrong_files(
        self, kind: str, name: str, content: bytes | None, words: str, tmp_path: Path, predictors: dict[str, Predictor]
    ) -> None:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(PolyarchError, match=words) as caught:
            self.collect(tmp_path / name, predictors[kind])
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("kind", "arrays", "words"),
        [
            ("image", {"x": np.zeros((2, 4, 4, 3), np.uint8)}, r"shape \(N, 3, 8, 8\) in .*a.npz. Found"),
            ("image", {"x": np.zeros((0, 3, 8, 8), np.uint8)}, "Expected examples of shape"),
            ("image", {"x": np.uint8(3)}, "Expected examples of shape"),
            ("image", {"x": np.zeros((2, 3, 8, 8))}, "bytes 0..255 in .* Found float64"),
            ("image", {"x": np.full((2, 3, 8, 8), 256)}, "Found 256..256"),
            ("image", {"a": np.zeros(2), "b": np.zeros(2)}, "Expected an array x, or only one, .* Found a, b"),
            ("vector", {"x": np.array([["a", "b"]])}, "Expected numbers"),
            ("vector", {"x": np.array([[1, None]], dtype=object)}, "plain numpy arrays"),
            ("vector", {"x": np.array([[0.0, 0.0], [np.nan, 0.0]])}, "NaN or infinity in example 1 of .*a.npz"),
            ("vector", {"x": np.array([[1e300, 0.0]])}, "NaN or infinity in example 0"),
            ("table", {"x": np.array([[np.inf, 0, 0, 0]])}, "infinity in example 0"),
        ],
    )
    def test_wrong_arrays(
        self, kind: str, arrays: dict[str, Any], words: str, tmp_path: Path, predictors: dict[str, Predictor]
    ) -> None:
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(PolyarchError, match=words):
            self.collect(tmp_path / "a.npz", predictors[kind])

    def test_empty_folders(self, tmp_path: Path, predictors: dict[str, Predictor]) -> None:
        with pytest.raises(DataError, match="Expected images in"):
            self.collect(tmp_path, predictors["image"])
        with pytest.raises(DataError, match="Found a folder"):
            self.collect(tmp_path, predictors["table"])


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class TestOutputs:
    def test_formulas_are_disarmed_and_numbers_right(
        self, table: pd.DataFrame, tmp_path: Path, predictors: dict[str, Predictor]
    ) -> None:
        names = ["=cmd|' /C calc'!A0", "+1", "-2", "@x", "\tx", "plain, with comma", 'quote"', "new\nline"] * 5
        table.assign(id=names).to_parquet(tmp_path / "rows.parquet")
        predictor = predictors["table"]
        inputs = read_inputs(tmp_path / "rows.parquet", predictor)
        out = tmp_path / "out.csv"
        with Quiet().stage("") as report:
            written = write_predictions(out, predictor, inputs, report)
        lines = read_csv(out)
        expected = predictor(torch.cat(list(read_inputs(tmp_path / "rows.parquet", predictor).batches)))
        assert list(lines[0]) == [
            "id", "prediction", "probability", "entropy", "mutual_information", "flag", "p:low", "p:=high", "p:-",
        ]  # fmt: skip
        assert [line["id"] for line in lines[:8]] == [
            "'=cmd|' /C calc'!A0", "'+1", "'-2", "'@x", "'\tx", "plain, with comma", 'quote"', "new\nline",
        ]  # fmt: skip
        best = expected.probabilities.argmax(1).tolist()
        assert {line["prediction"] for line in lines} <= {"low", "'=high", "'-"}
        assert [line["prediction"].removeprefix("'") for line in lines] == [predictor.classes[index] for index in best]
        for name, values in (
            ("probability", expected.probabilities.amax(1)),
            ("entropy", expected.entropy),
            ("mutual_information", expected.mutual_information),
            ("flag", expected.flagged.float()),
            ("p:=high", expected.probabilities[:, 1]),
        ):
            assert [float(line[name]) for line in lines] == pytest.approx(values.tolist(), abs=1e-6)
        assert written.examples == 40 and written.flagged == int(expected.flagged.sum())
        right = sum(index == target for index, target in zip(best, [0, 1, 2, 0] * 10, strict=True))
        assert written.accuracy == right / 40

    def test_nothing_is_left_of_a_failure(self, tmp_path: Path, predictors: dict[str, Predictor]) -> None:
        images, out = tmp_path / "images", tmp_path / "out"
        images.mkdir()
        (images / "a.png").write_bytes(b"damaged")
        out.mkdir()
        with Quiet().stage("") as report:
            with pytest.raises(CorruptFile, match=r"a\.png"):
                write_predictions(out / "p.csv", predictors["image"], read_inputs(images, predictors["image"]), report)
            assert list(out.iterdir()) == []
            with pytest.raises(InvalidInput, match="Got the folder"):
                write_predictions(out, predictors["image"], read_inputs(images, predictors["image"]), report)


class TestCommands:
    def test_predict(self, table: pd.DataFrame, tmp_path: Path, folders: dict[str, Path], polyarch: Command) -> None:
        table.to_csv(tmp_path / "rows.csv", index=False)
        words = ["predict", str(folders["table"]), str(tmp_path / "rows.csv")]
        finished = polyarch(*words, cwd=tmp_path)
        assert finished.returncode == 0, finished.stderr
        assert finished.stderr == ""
        assert re.search(r"40 examples, \d+ flagged", finished.stdout)
        assert re.search(r"Accuracy: 0\.\d{4} against column 'label'", finished.stdout)
        assert len(read_csv(tmp_path / "predictions.csv")) == 40
        everything = polyarch(*words, "--flag-above", "0", "--out", str(tmp_path / "new" / "all.csv"))
        assert "40 examples, 40 flagged (100.0%): entropy above 0 nats" in everything.stdout, everything.stderr
        assert all(line["flag"] == "1" for line in read_csv(tmp_path / "new" / "all.csv"))

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (["predict", "{tmp}/none", "{tmp}/rows.csv"], "architecture.json to be a JSON file of an artifact"),
            (["predict", "{table}", "{tmp}/none.csv"], "Expected a file or a folder at"),
            (["predict", "{image}", "{tmp}/rows.csv"], "Expected images .* Found a table"),
            (["predict", "{table}", "{tmp}/rows.csv", "--flag-above", "-1"], "Expected --flag-above"),
            (["predict", "{table}", "{tmp}/rows.csv", "--flag-above", "nan"], "Expected --flag-above"),
            (["predict", "{table}", "{tmp}/rows.csv", "--out", "{tmp}/rows.csv"], "another file than the input"),
            (["predict", "{table}", "{tmp}/rows.csv", "--out", "{tmp}"], "Expected a file to write to"),
            (
                ["predict", "{table}", "{tmp}/rows.csv", "--out", "{tmp}/rows.csv/x/y.csv"],
                "Expected to be able to write",
            ),
            (["serve", "{tmp}/none"], "architecture.json to be a JSON file of an artifact"),
            (["serve", "{table}", "--max-bytes", "lots"], "Expected a number"),
            (["serve", "{table}", "--max-instances", "0"], "max_instances of 1 or more"),
            (["serve", "{table}", "--port", "70000"], "Expected a port 0..65535"),
            (["serve", "{table}", "--host", "203.0.113.7", "--port", "0"], "an address of this machine"),
        ],
    )
    def test_errors_are_one_sentence(
        self, words: list[str], sentence: str, table: pd.DataFrame, tmp_path: Path, folders: dict[str, Path]
    ) -> None:
        """In this process: starting one takes seconds."""
        app = typer.Typer()
        app.command()(predict)
        app.command()(serve)
        table.to_csv(tmp_path / "rows.csv", index=False)
        before = sorted(tmp_path.rglob("*"))
        failed = CliRunner().invoke(app, [word.format(tmp=tmp_path, **folders) for word in words])
        assert isinstance(failed.exception, PolyarchError), failed.output
        assert re.search(sentence, str(failed.exception)), failed.exception
        assert "\n" not in str(failed.exception)
        assert sorted(tmp_path.rglob("*")) == before

    def test_serve_until_interrupted(self, folders: dict[str, Path], environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "polyarch.cli", "serve", str(folders["vector"]), "--port", "0"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "PYTHONUNBUFFERED": "1"},
        )
        try:
            assert process.stdout is not None
            announced = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)", announced)
            assert found, announced + (process.communicate(timeout=30)[1] if process.poll() is not None else "")
            with httpx.Client(base_url=found[0], trust_env=False, timeout=30) as client:
                _wait_for(client)
                answer = client.post("/predict", json={"instances": [[0.5, -0.5]]})
                assert answer.status_code == 200
                assert set(json.loads(answer.text)["predictions"][0]["probabilities"]) == {"arm 0", "arm 1"}
                with pytest.raises(InvalidInput, match="Expected a free port"):
                    serve(folders["vector"], port=int(found[1]))
            os.kill(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
        assert process.returncode in (0, 130), errors
        assert errors == ""


def _wait_for(client: httpx.Client) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            assert client.get("/health").json()["status"] == "ok"
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
