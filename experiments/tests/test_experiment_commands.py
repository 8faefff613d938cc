"""`polyarch experiment` finds experiments by their entry points, and says what to do without any."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from polyarch.cli import experiments
from polyarch.errors import ConfigError
from polyarch.plugins import EXPERIMENTS

Command = Callable[..., CompletedProcess[str]]


def test_every_experiment_is_listed(polyarch: Command) -> None:
    listed = polyarch("experiment", "list")
    assert listed.returncode == 0, listed.stderr
    assert all(name in listed.stdout for name in EXPERIMENTS)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("spiral_dept",), "Expected an experiment out of"),
        (("spiral_depth", "--preset", "gpu"), "Expected a preset out of quick, cpu, paper. Got 'gpu'."),
    ],
)
def test_unknown_names(words: tuple[str, ...], sentence: str, polyarch: Command) -> None:
    refused = polyarch("experiment", "run", *words, "--out", "unused")
    assert refused.returncode == 2
    assert sentence in " ".join(refused.stderr.split())


def test_without_experiments_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "EXPERIMENTS", {})
    with pytest.raises(ConfigError, match=r"Found none: pip install polyarch-experiments, or pip install -e exp"):
        experiments.list_experiments()
