"""Three commands from one's own data to predictions, as a new user gives them."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyarch.methods.one_shot.record import OneShotRecord
from polyarch.results import Results

Command = Callable[..., subprocess.CompletedProcess[str]]

NETWORK = """
from torch import nn
from polyarch import Maybe, OneOf, Repeat

def build(input_shape, classes):
    channels = input_shape[0]
    return nn.Sequential(
        OneOf("stem", conv3=nn.Conv2d(channels, 8, 3, padding=1), conv5=nn.Conv2d(channels, 8, 5, padding=2)),
        Repeat("depth", [nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(2)]),
        Maybe("pool", nn.AvgPool2d(3, 1, 1)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, classes),
    )
"""


def tiny(options: list[str]) -> list[str]:
    """Without the width, which not every space has, and with programs."""
    pairs = zip(options[::2], options[1::2], strict=True)
    left_out = ("space.channels", "programs")
    return [word for pair in pairs if not pair[1].startswith(left_out) for word in pair]


def succeed(finished: subprocess.CompletedProcess[str]) -> str:
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture
def customers(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    path = tmp_path / "customers.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "city", "income", "bought"])
        for _ in range(150):
            age, city = int(generator.integers(18, 80)), str(generator.choice(["Rome", "Oslo", "=cmd()"]))
            income = "" if generator.random() < 0.1 else f"{generator.normal(30, 5):.2f}"
            writer.writerow([age, city, income, "yes" if (age > 40) != (city == "Oslo") else "no"])
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for label, name in enumerate(["dark", "light"]):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(30):
            height, width = generator.integers(18, 30, 2)
            pixels = generator.integers(100 * label, 100 * label + 100, (height, width, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "photos"


@pytest.mark.slow
def test_a_table(tmp_path: Path, polyarch: Command, tiny_options: list[str], customers: Path) -> None:
    assert "city" in succeed(polyarch("data", "info", str(customers), "--target", "bought"))
    run = tmp_path / "run"
    words = ["--data", str(customers), "--target", "bought", "--out", str(run), "--workers", "1"]
    said = succeed(polyarch("search", *words, *tiny(tiny_options)))
    assert "Chosen: space mlp: 3 columns" in said
    assert "artifact/model.onnx: largest difference" in said
    out = tmp_path / "predictions.csv"
    said = succeed(polyarch("predict", str(run / "ensemble"), str(customers), "--out", str(out)))
    assert "150 examples" in said and "Accuracy" in said
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 150
    assert {row["prediction"] for row in rows} <= {"yes", "no"}
    assert all(abs(float(row["p:yes"]) + float(row["p:no"]) - 1) < 1e-4 for row in rows)


@pytest.mark.slow
def test_a_folder_of_images_and_a_network_of_ones_own(
    tmp_path: Path, polyarch: Command, tiny_options: list[str], photos: Path
) -> None:
    (tmp_path / "net.py").write_text(NETWORK)
    words = ["--data", "photos", "--module", "net:build", "--max-macs", "2M", "--out", "run", "--workers", "2"]
    said = succeed(polyarch("search", *words, *tiny(tiny_options), cwd=tmp_path))
    assert "Chosen: space module: your own network" in said
    results = Results.read(tmp_path / "run" / "results.json")
    assert list(results.space["choices"]) == ["stem", "depth", "pool"]
    succeed(polyarch("search", *words, *tiny(tiny_options), "--resume", cwd=tmp_path))  # the same command goes on
    assert Results.read(tmp_path / "run" / "results.json").comparison == results.comparison
    assert Path(results.settings["data"]["name"]) == photos  # resumable from any folder
    record = results.found(OneShotRecord)
    assert record is not None and record.search is not None and record.search.limits == {"macs": 2e6}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    artifact = str(tmp_path / "run" / "artifact")
    said = succeed(polyarch("predict", artifact, str(photos), cwd=elsewhere))  # net.py is not needed
    assert "60 examples" in said
    assert (elsewhere / "predictions.csv").read_text().count("\n") == 61


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--data", "no/such/folder"], "no/such/folder"),
        (["--data", "digits", "--module", "nothing"], "such as mypackage.net:build"),
        (["--data", "digits", "--module", "net:build", "--space", "nb201"], "--module without --space"),
        (["--data", "digits", "--max-minutes", "0.01"], "minutes or more for a race"),
        (["--data", "digits", "--method", "one-shot", "--max-minutes", "0.01"], "The shortest takes about"),
        (["--data", "digits", "--max-params", "10"], "smallest seen"),
        (["--data", "spirals", "--space", "nb201"], "Expected images"),
        (["--data", "digits", "--ood", "spirals"], "images on both sides"),
    ],
)
def test_refusals_are_one_sentence(tmp_path: Path, polyarch: Command, words: list[str], sentence: str) -> None:
    refused = polyarch("search", *words, "--out", "run", cwd=tmp_path)
    assert refused.returncode == 2
    assert sentence in refused.stderr
    assert refused.stderr.count("\n") == 1 and "Traceback" not in refused.stderr
    assert not (tmp_path / "run").exists()
