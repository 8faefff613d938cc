"""`polyarch predict` and `polyarch serve` as a user meets them."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
import torch
import typer
from typer.testing import CliRunner

from polyarch.cli.prediction import predict, serve
from polyarch.errors import CorruptFile, InvalidInput, PolyarchError
from polyarch.export import write_artifact
from polyarch.prediction.inputs import read_inputs
from polyarch.prediction.outputs import write_predictions
from polyarch.prediction.predictor import Predictor
from polyarch.runs.display import Quiet

Command = Callable[..., subprocess.CompletedProcess[str]]


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
        assert written.metrics == {"Accuracy": pytest.approx(right / 40)}

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

    @pytest.mark.parametrize("out", ["-", "/dev/stdout"])
    def test_standard_output_has_the_table_and_nothing_else(
        self, out: str, table: pd.DataFrame, tmp_path: Path, folders: dict[str, Path], polyarch: Command
    ) -> None:
        table.to_csv(tmp_path / "rows.csv", index=False)
        found = polyarch("predict", str(folders["table"]), str(tmp_path / "rows.csv"), "--out", out)
        assert found.returncode == 0, found.stderr
        assert len(list(csv.DictReader(found.stdout.splitlines()))) == 40
        assert "40 examples" in found.stderr

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

    def test_a_port_that_is_taken_is_one_sentence(self, folders: dict[str, Path]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InvalidInput, match="Expected a free port"):
            serve(folders["vector"], port=taken.getsockname()[1])

    @pytest.mark.parametrize("default", ["artifact", "ensemble"])
    def test_a_run_predicts_and_serves_with_its_default(
        self, default: str, tmp_path: Path, examples: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run, vectors = tmp_path / "run", examples.vectors(9)
        write_artifact(run / "artifact", examples.vector_artifact())
        write_artifact(run / "ensemble", examples.vector_artifact(2))
        (run / "results.json").write_text(json.dumps({"default": default}))
        np.savez(tmp_path / "rows.npz", vectors.numpy())
        expected = Predictor.load(run / default)(vectors).probabilities
        predict(run, tmp_path / "rows.npz", tmp_path / "out.csv")
        found = [float(line["p:arm 0"]) for line in read_csv(tmp_path / "out.csv")]
        assert found == pytest.approx(expected[:, 0].tolist(), abs=1e-6)

        def served(predictor: Predictor, **_: Any) -> None:
            assert torch.equal(predictor(vectors).probabilities, expected)
            raise InvalidInput("Expected no more. Got here.")

        monkeypatch.setattr("polyarch.prediction.serving.workers.create_application", served)
        with pytest.raises(InvalidInput, match="Got here"):
            serve(run)

    @pytest.mark.slow
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
        lines = [json.loads(line) for line in errors.splitlines()]
        assert {(line["path"], line["status"]) for line in lines} == {("/health", 200), ("/predict", 200)}


def _wait_for(client: httpx.Client) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            assert client.get("/health").json()["status"] == "ok"
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
