"""What a search for a depth refuses, in one sentence."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from depth_checks import OWN, SPIRALS

import polyarch as library
from polyarch.methods.depth.record import DepthRecord
from polyarch.results import Results

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--data", "digits", "--space", "nb201"], "only choice is its depth: depth_fc, depth_cnn, or your own"),
        (["--data", "spirals", "--space", "mlp"], "Got 5 choices in"),
        (["--data", "spirals", "--module", "net:two_choices"], "Got 2 choices in"),
        (["--data", "spirals", "--module", "net:no_depth"], "'stem' (2 options)"),
        (["--data", "spirals", "--space", "depth_fc", "--prior", "1,2,3"], "21 prior weights above 0, one per depth"),
        (["--data", "spirals", "--prior", "1,two"], "depth.prior"),
        (["--data", "spirals", "--prior", "flat"], "depth.prior"),
        (["--data", "spirals", "--rule", "median"], "depth.rule"),
        (["--data", "spirals", "--updates", "never"], "depth.updates"),
        (["--data", "spirals", "--method", "bayes"], "method"),
        (["--data", "spirals", "--set", "train.strategy=single_path"], "train.strategy variational for"),
        (["--data", "spirals", "--max-params", "3"], "smallest seen"),
        (["--data", "spirals", "--method", "deterministic-depth", "--set", "depth.depths=[30]"], "0 to 20. Got 30"),
        (["--data", "digits", "--space", "nb201", "--method", "deterministic-depth"], "only choice is its depth"),
        (["--data", "digits", "--ood", "spirals"], "images on both sides"),
    ],
)  # fmt: skip
def test_refusals_are_one_sentence(tmp_path: Path, polyarch: Command, words: list[str], sentence: str) -> None:
    (tmp_path / "net.py").write_text(OWN)
    method = [] if "--method" in words else ["--method", "variational-depth"]
    refused = polyarch("search", *words, *method, "--out", "run", cwd=tmp_path)
    assert refused.returncode == 2, refused.stdout
    assert sentence in refused.stderr
    assert refused.stderr.count("\n") == 1 and "Traceback" not in refused.stderr
    assert not (tmp_path / "run").exists()


def test_architectures_of_a_depth_are_not_ranked(tmp_path: Path, polyarch: Command) -> None:
    words = ["rank", "--data", "spirals", "--space", "depth_fc", "--set", "method=variational-depth", "--out", "run"]
    refused = polyarch(*words, cwd=tmp_path)
    assert refused.returncode == 2
    assert "Expected a method with a stage 'rank'. Got 'variational-depth'" in refused.stderr
    assert not (tmp_path / "run").exists()


def test_architectures_of_a_finished_run_are_not_ranked(tmp_path: Path, polyarch: Command) -> None:
    library.search("spirals", out=tmp_path / "run", quiet=True, report=False, settings={**SPIRALS, "train.epochs": 5})
    refused = polyarch("rank", "--out", str(tmp_path / "run"), "--resume")
    assert refused.returncode == 2
    assert Results.read(tmp_path / "run" / "results.json").found(DepthRecord) is not None
