"""`polyarch search --front`, `front` and `extract` in processes of their own."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from polyarch.results import Results

Command = Callable[..., subprocess.CompletedProcess[str]]

OPTIONS = (
    *("--data", "digits", "--set", "data.limit=60", "--set", "programs=[]", "--seconds", "0.1", "--workers", "1"),
    *(
        "--set",
        "space.kind=resnet",
        "--set",
        "space.widths=[4, 8]",
        "--set",
        "space.max_depth=1",
        "--set",
        "space.kernels=[3]",
    ),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, polyarch: Command) -> Path:
    folder = tmp_path_factory.mktemp("front") / "run"
    done = polyarch("search", "--front", "--out", str(folder), *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "`polyarch front` lists them" in done.stdout
    return folder


def test_sizes_are_listed(run: Path, polyarch: Command, tmp_path: Path) -> None:
    done = polyarch("front", str(run), "--csv", str(tmp_path / "sizes.csv"))
    assert done.returncode == 0, done.stderr
    assert "parameters" in done.stdout and f"polyarch extract {run} --at INDEX" in done.stdout
    with (tmp_path / "sizes.csv").open() as file:
        assert [row["index"] for row in csv.DictReader(file)] == ["0", "1"]
    printed = json.loads(polyarch("front", str(run), "--json").stdout)
    assert [one["architecture"] for one in printed] == ["4|8", "8|16"]


def test_a_size_is_extracted_and_predicts(run: Path, polyarch: Command, tmp_path: Path) -> None:
    done = polyarch("extract", str(run), "--max-params", "2k", "--out", str(tmp_path / "small"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("export") or "Size 0: " in done.stdout
    assert json.loads((tmp_path / "small" / "architecture.json").read_text())["members"][0]["architecture"] == {
        "stage1.width": "4",
        "stage2.width": "8",
    }


def test_errors_are_one_sentence(run: Path, polyarch: Command, tmp_path: Path) -> None:
    unfinished, other = tmp_path / "unfinished", tmp_path / "other"
    results = Results.read(run / "results.json")
    for folder, change in ((unfinished, {"record": None}), (other, {"record": None, "method": "one-shot"})):
        shutil.copytree(run, folder)
        results.model_copy(update=change).write(folder / "results.json")
    for words, expected in (
        (("extract", str(run), "--max-params", "5"), "at most 5 parameters. Got a run whose smallest size has"),
        (("extract", str(run)), "Expected the index of a size, or limits. Got neither."),
        (("extract", str(run), "--at", "9"), "Expected the index of a size, 0..1. Got 9."),
        (("extract", str(unfinished), "--at", "0"), "Expected a finished run."),
        (("front", str(other)), "Expected a run of search --front, which has sizes. Got one of method 'one-shot'."),
        (("front", str(tmp_path)), "Expected a run in"),
        (
            ("search", "--front", "--method", "race", "--out", str(tmp_path / "new")),
            "Expected --front without --method",
        ),
    ):
        refused = polyarch(*words)
        assert refused.returncode == 2, words
        assert expected in refused.stderr and refused.stderr.count("\n") == 1
