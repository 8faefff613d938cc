"""The command line as a user meets it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from polyarch.data import load, preprocessing_from, resident
from polyarch.methods.one_shot.record import OneShotRecord
from polyarch.prediction.loading import load_network
from polyarch.results import Results, Role

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_train_then_rank_then_search_in_one_folder(tmp_path: Path, polyarch: Command, tiny_options: list[str]) -> None:
    folder = tmp_path / "run"
    out = ["--out", str(folder)]
    options = ["--workers", "1", "--set", "tensorboard=true", *tiny_options]
    trained = polyarch("train", "--data", "digits", *out, *options)
    assert trained.returncode == 0, trained.stderr
    assert Results.read(folder / "results.json").record is None
    assert list((folder / "tensorboard").iterdir())
    weights = sorted((folder / "checkpoints" / "train").iterdir())[-1].read_bytes()

    ranked = polyarch("rank", *out, "--resume")
    assert ranked.returncode == 0, ranked.stderr
    assert "Spearman" in ranked.stdout

    found = polyarch("search", *out, "--resume")
    assert found.returncode == 0, found.stderr
    assert sorted((folder / "checkpoints" / "train").iterdir())[-1].read_bytes() == weights  # not trained again
    for name in ("config.toml", "results.json", "log.jsonl", "study.db", "report.html"):
        assert (folder / name).is_file()

    results = Results.read(folder / "results.json")
    record = results.found(OneShotRecord)
    assert results.comparison is not None and results.artifact is not None
    assert record is not None and record.ranking is not None
    assert {(c.name, c.role): len(c.runs) for c in results.comparison} == {
        ("best architecture, retrained", Role.BEST): 2,
        ("random architectures, retrained", Role.RANDOM): 2,
        ("best architecture, inherited weights", Role.INHERITED): 1,
    }
    assert {s.estimator: s.policy for s in record.ranking.architectures[0].scores} == {
        "sotl_last": "batch",
        "val_acc": "adapt(2)",
        "params": None,
        "macs": None,
    }

    # the artifact predicts what the report says it does
    network = load_network(folder / "artifact")
    preprocessing = json.loads((folder / "artifact" / "metadata.json").read_text())["preprocessing"]
    test = resident(load("digits").test)
    inputs = preprocessing_from(preprocessing)(test.inputs)
    with torch.no_grad():
        accuracy = (network(inputs).argmax(1) == test.targets).double().mean()
    assert float(accuracy) == pytest.approx(results.artifact["score"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["search", "--data", "digit", "--out", "{out}"], "Expected a data set out of .* Did you mean 'digits'"),
        (["search", "--data", "digits", "--space", "nb21", "--out", "{out}"], "Expected a space out of"),
        (["search", "--data", "spirals", "--space", "nb201", "--out", "{out}"], "Expected images .* takes any shape"),
        (["search", "--data", "digits", "--out", "{out}", "--max-params", "10"], "smallest seen"),
        (["search", "--data", "digits", "--out", "{out}", "--max-params", "few"], "Expected a number"),
        (["search", "--data", "digits", "--out", "{out}", "--set", "train.epochs=0"], "train.epochs"),
        (["search", "--data", "digits", "--out", "{out}", "--device", "cuda:9"], "CUDA is not available"),
        (["search", "--data", "digits", "--out", "{out}", "--device", "toaster"], "Expected a device"),
        (["search", "--data", "digits", "--out", "{out}", "--rule", "95%"], "Expected an option .* Got '--rule'"),
        (
            ["search", "--data", "digits", "--out", "{out}", "--outside", "digits"],
            "Expected an option .* Got '--outside'",
        ),
        (["search", "--data", "digits", "--out", "{out}", "--set", "data.outside=digits"], "Expected data.ood"),
        (["search", "--data", "digits", "--out", "{out}", "--set", "dept.rule=argmax"], "Got 'dept'"),
        (["search", "--out", "{out}", "--resume"], "Expected a run to resume"),
        (["search", "--out", "{out}", "--config", "nowhere.toml"], "Expected a run description"),
        (["search", "--out", "{out}", "--set", "search.objectives=['sotl','params']"], "Expected sampler nsga2"),
        (["rank", "--data", "digits", "--out", "{out}", "--truth", "cifar10_test_20"], "NAS-Bench-201 table"),
        (["spaces", "describe", "nb"], "Expected a space out of"),
        (["spaces", "draw", "nb201", "--architecture", "|a~0|", "--out", "{out}"], "Expected a cell like"),
        (["experiment", "run", "spiral_dept", "--out", "{out}"], "Did you mean 'spiral_depth'"),
        (["experiment", "run", "spiral_depth", "--preset", "fast", "--out", "{out}"], "Expected a preset"),
    ],
)
def test_errors_are_one_sentence(tmp_path: Path, polyarch: Command, words: list[str], sentence: str) -> None:
    import re

    out = tmp_path / "run"
    failed = polyarch(*(word.format(out=out) for word in words))
    assert failed.returncode == 2
    assert "Traceback" not in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1
    assert re.search(sentence, failed.stderr), failed.stderr
    assert not out.exists()  # nothing is left behind


def test_a_folder_is_not_overwritten(tmp_path: Path, polyarch: Command) -> None:
    (tmp_path / "precious.txt").write_text("data")
    failed = polyarch("train", "--data", "digits", "--out", str(tmp_path))
    assert failed.returncode == 2
    assert "Expected a new or empty folder" in failed.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_a_resumed_run_keeps_its_settings(tmp_path: Path, polyarch: Command, tiny_options: list[str]) -> None:
    out = ["--out", str(tmp_path / "run")]
    assert polyarch("train", "--data", "digits", *out, *tiny_options).returncode == 0
    again = polyarch("train", "--data", "digits", *out, *tiny_options)
    assert again.returncode == 2
    assert "--resume goes on with it" in again.stderr
    other = polyarch("train", *out, "--resume", "--epochs", "9")
    assert other.returncode == 2
    assert "Expected the settings of the run that is resumed" in other.stderr
    assert polyarch("train", *out, "--resume", "--workers", "1").returncode == 0


def test_a_run_from_toml_with_limits(tmp_path: Path, polyarch: Command, tiny_options: list[str]) -> None:
    (tmp_path / "run.toml").write_text(
        '[data]\nname = "digits"\n[search]\nsampler = "nsga2"\nobjectives = ["sotl", "params"]\nmax_params = 13000\n'
    )
    folder = tmp_path / "run"
    words = ["search", "--config", str(tmp_path / "run.toml"), "--out", str(folder), "--workers", "1", *tiny_options]
    shorter = {"rank.architectures": 0, "retrain.seeds": 1, "retrain.members": 1, "retrain.random_architectures": 0}
    shorter |= {"checkpoint_seconds": 1000, "train.epochs": 1}
    finished = polyarch(*words, *(word for key, value in shorter.items() for word in ("--set", f"{key}={value}")))
    assert finished.returncode == 0, finished.stderr
    results = Results.read(folder / "results.json")
    record = results.found(OneShotRecord)
    assert record is not None and record.search is not None
    assert record.search.limits == {"params": 13000.0}
    assert all(item.score("params") <= 13000 for item in record.search.evaluated)
    assert results.artifact is not None and results.artifact["parameters"] <= 13000


@pytest.mark.parametrize(
    ("data", "space", "strategy"),
    [
        ("spirals", "depth_fc", "variational"),
        ("digits", "depth_cnn", "variational"),
        ("digits", "chain", "single_path"),
    ],
)
def test_other_spaces_train(
    tmp_path: Path, polyarch: Command, tiny_options: list[str], data: str, space: str, strategy: str
) -> None:
    small = {"depth_fc": ["max_depth=3"], "depth_cnn": ["max_depth=2", "inner_channels=2"], "chain": []}[space]
    options = [option for option in tiny_options if "space.channels" not in option]
    options = [word for word in options if word != "--set"]
    options += [f"space.{setting}" for setting in small] + ["data.limit=100"]
    words = [word for option in options for word in ("--set", option)]
    folder = tmp_path / "run"
    out = ["--out", str(folder), "--workers", "1"]
    finished = polyarch("rank", "--data", data, "--space", space, *out, *words, "--set", f"train.strategy={strategy}")
    assert finished.returncode == 0, finished.stderr
    training = Results.read(folder / "results.json").training
    if strategy == "variational":
        assert training.q is not None
        assert sum(training.q["depth"]) == pytest.approx(1)


def test_spaces_commands(tmp_path: Path, polyarch: Command) -> None:
    listed = polyarch("spaces", "list")
    assert all(name in listed.stdout for name in ("nb201", "chain", "depth_fc", "depth_cnn"))
    assert "15,625 architectures" in polyarch("spaces", "describe", "nb201").stdout
    assert "11 architectures" in polyarch("spaces", "describe", "depth_fc", "--set", "max_depth=10").stdout
    picture = tmp_path / "cell.svg"
    cell = "|skip_connect~0|+|none~0|nor_conv_3x3~1|+|none~0|none~1|avg_pool_3x3~2|"
    drawn = polyarch("spaces", "draw", "nb201", "--architecture", cell, "--out", str(picture))
    assert drawn.returncode == 0, drawn.stderr
    svg = picture.read_text()
    assert svg.count("marker-end") == 3
    assert "conv 3x3" in svg and "conv 1x1" not in svg


def test_version_and_help(polyarch: Command) -> None:
    assert polyarch("--version").stdout.startswith("polyarch 0.")
    assert "search" in polyarch("--help").stdout
