"""A depth for tables, images and arrays of one's own."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from depth_checks import SMALL, SPIRALS, check_artifacts, check_numbers, depth_of

import polyarch as library
from polyarch.data import load


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two numbers, one of them sometimes missing, and a word."""
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("table") / "flowers.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["height", "colour", "petals", "kind"])
        for _ in range(160):
            petals, colour = int(generator.integers(3, 9)), str(generator.choice(["red", "blue"]))
            height = "" if generator.random() < 0.1 else f"{generator.normal(30 + 5 * (petals > 5), 3):.2f}"
            writer.writerow([height, colour, petals, "rose" if (petals > 5) != (colour == "red") else "iris"])
    return path


@pytest.mark.parametrize("updates", ["gradient", "em"])
def test_a_table(updates: str, flowers: Path, tmp_path: Path) -> None:
    """Mixed columns; the widest choice of the tool is kept small here."""
    settings = {**SMALL, "space.kind": "depth_fc", "space.max_depth": 3, "depth.updates": updates}
    found = library.search(
        flowers,
        target="kind",
        out=tmp_path / "run",
        quiet=True,
        report=False,
        settings={**settings, "train.epochs": 40},
    )
    check_numbers(found.results)
    check_artifacts(found, load(str(flowers), target="kind"))
    assert depth_of(found.results).functions is None
    assert found.predictor().is_table and found.predictor().classes == ("iris", "rose")
    assert depth_of(found.results).updates == updates


def test_a_table_of_two_numbers_has_pictures(tmp_path: Path) -> None:
    """Under the names of its columns, in their units; a missing value is no point."""
    generator = np.random.default_rng(0)
    path = tmp_path / "two.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["width", "length", "kind"])
        for index in range(80):
            width = "" if index % 20 == 0 else f"{generator.normal(100, 20):.1f}"
            writer.writerow([width, f"{generator.normal(0, 1):.2f}", index % 2])
    settings = {**SMALL, "space.kind": "depth_fc", "space.max_depth": 2, "space.width": 4}
    found = library.search(path, target="kind", out=tmp_path / "run", quiet=True, report=False, settings=settings)
    functions = depth_of(found.results).functions
    assert functions is not None and functions.names == ("width", "length")
    assert 20 < functions.x_range[0] < functions.x_range[1] < 180
    assert 0 < len(functions.points) <= found.results.data["train"]
    assert all(np.isfinite(point[:2]).all() for point in functions.points)
    check_numbers(found.results)


@pytest.mark.parametrize("updates", ["gradient", "em"])
def test_images(updates: str, tmp_path: Path) -> None:
    settings = {
        **SMALL,
        "space.kind": "depth_cnn",
        "space.max_depth": 2,
        "space.channels": 4,
        "space.inner_channels": 2,
        "train.epochs": 6,
        "train.batch_size": 32,
        "data.limit": 120,
        "depth.updates": updates,
    }
    found = library.search("digits", out=tmp_path / "run", quiet=True, report=False, settings=settings)
    check_numbers(found.results)
    check_artifacts(found, load("digits"))
    assert depth_of(found.results).functions is None
    exit_confidence = json.loads((tmp_path / "run" / "posterior" / "metadata.json").read_text())["exit_confidence"]
    assert exit_confidence == depth_of(found.results).exit_confidence


def test_closed_form_updates_with_one_example_more_than_whole_batches(tmp_path: Path) -> None:
    """257 for training, which the E step takes in batches of 256."""
    generator = np.random.default_rng(0)
    pair = (generator.normal(size=(401, 3)), np.arange(401) % 2)
    settings = {**SPIRALS, "depth.updates": "em", "train.epochs": 3}
    found = library.search(pair, out=tmp_path / "run", quiet=True, report=False, settings=settings)
    assert found.results.data["train"] == 257
