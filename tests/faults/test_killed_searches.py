"""Searches that are killed at random moments, export included, end with the bits of one that never stopped."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killing import METHODS, Search, in_export, programs, write_points

from polyarch.prediction.predictor import Predictor

Outcome = Callable[[Path], dict[str, Any]]
Searching = Callable[..., Search]
KILLS = int(os.environ.get("KILLS", "8"))
"""Of every method with one and with two workers: 112 in all."""
SEED = int(os.environ.get("SEED", "0"))
"""Others than 0 kill at other moments."""


@pytest.fixture(scope="module")
def searching(tmp_path_factory: pytest.TempPathFactory, preloaded: Path, environment: dict[str, str]) -> Searching:
    folder = tmp_path_factory.mktemp("kills")
    data = write_points(folder / "points.npz")

    def start(method: str, name: str, workers: int = 1) -> Search:
        return Search(method, folder / name, data, preloaded, environment, workers)

    return start


def ends_the_same(search: Search, untouched: Search, outcome: Outcome) -> None:
    assert outcome(search.folder) == outcome(untouched.folder)
    assert programs(search.folder).keys() == programs(untouched.folder).keys() != set()
    for folder in {Path(name).parent for name in programs(search.folder)}:
        Predictor.load(search.folder / folder)


def test_kills_in_training_and_in_export(searching: Searching, outcome: Outcome) -> None:
    untouched, killed = searching("variational-depth", "untouched"), searching("variational-depth", "killed")
    assert untouched.run()
    assert not killed.run(0.0, lambda folder: any((folder / "checkpoints").rglob("*.ckpt")))
    assert not killed.run(0.2, in_export)
    assert killed.run()
    ends_the_same(killed, untouched, outcome)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_kills_at_random_moments(method: str, workers: int, searching: Searching, outcome: Outcome) -> None:
    """Every third kill during export, the others at uniform moments of what is left, in as many runs as it takes."""
    generator = random.Random(f"{method} {workers} {SEED}")
    untouched = searching(method, f"{method}-{workers}", workers)
    assert untouched.run()
    kills = runs = 0
    while kills < KILLS:
        killed = searching(method, f"{method}-{workers}-killed{runs}", workers)
        ended = False
        while not ended and kills < KILLS:
            moment = generator.uniform(0, 0.8 * untouched.seconds)
            ended = killed.run(generator.uniform(0, 2), in_export) if kills % 3 == 2 else killed.run(moment)
            kills += not ended
        assert ended or killed.run()
        ends_the_same(killed, untouched, outcome)
        runs += 1
    print(f"{method}, {workers} workers: {kills} kills in {runs} runs ended the same")
