"""Fixtures of all tests: those of the package and those of the experiments."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import settings

from polyarch.export import Artifact, write_artifact
from polyarch.prediction.predictor import Predictor

PRELOADED = Path(__file__).parent / "tests" / "processes" / "preloaded.py"
SHARED_DATA = Path(__file__).resolve().parent.parent / "shared" / "data"

TINY_RUN = {
    "data.limit": 256,
    "space.channels": 4,
    "train.epochs": 4,
    "train.batch_size": 32,
    "scores.steps": 4,
    "scores.policy_batches": 2,
    "rank.architectures": 5,
    "rank.supernets": 1,
    "search.budget": 8,
    "search.window": 4,
    "search.population": 4,
    "search.tournament": 2,
    "retrain.epochs": 2,
    "retrain.seeds": 2,
    "retrain.random_architectures": 2,
    "checkpoint_seconds": 0,
    "programs": "[]",  # exporting takes longer than everything else
}

Command = Callable[..., subprocess.CompletedProcess[str]]

settings.register_profile("polyarch", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("polyarch")


def seed_by_name(*names: object) -> None:
    """Networks that tests build draw their weights from the global generator: they are the same in every run."""
    torch.manual_seed(crc32(repr(names).encode()))


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """What a fixture makes does not depend on which test is the first to ask for it."""
    seed_by_name(fixturedef.baseid, fixturedef.argname, getattr(request, "param_index", 0))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """What a test draws does not depend on the tests before it."""
    seed_by_name(item.nodeid)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Small tensors are faster with one thread, and the machine may be shared."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data: POLYARCH_DATA, or the shared folder beside the repository."""
    root = Path(os.environ.get("POLYARCH_DATA") or SHARED_DATA)
    if not root.is_dir():
        pytest.skip(f"needs real data: {root} is not there, set POLYARCH_DATA")
    return root


@pytest.fixture(scope="session")
def nb201_table_path(data_root: Path) -> Path:
    """The table of all NAS-Bench-201 cells."""
    path = data_root / "nas_bench_201" / "nb201_table.csv.gz"
    if not path.is_file():
        pytest.skip(f"needs the NAS-Bench-201 table: {path} is not there")
    return path


@pytest.fixture(scope="session")
def tiny_options() -> list[str]:
    """Options of a run that is small enough for tests."""
    return [word for key, value in TINY_RUN.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """For processes of the tests: one thread, a wide terminal."""
    data = os.environ.get("POLYARCH_DATA") or str(SHARED_DATA)
    return {**os.environ, "POLYARCH_DATA": data, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONWARNINGS": "default"}


@pytest.fixture(scope="session")
def preloaded() -> Iterator[Path]:
    """The address of a process that runs commands in forks of itself: importing takes seconds each time."""
    with tempfile.TemporaryDirectory(prefix="polyarch-") as folder:  # an address of a socket must be short
        address = Path(folder) / "socket"
        command = [sys.executable, str(PRELOADED), "serve", str(address)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield address
            process.stdin.close()


@pytest.fixture(scope="session")
def polyarch(environment: dict[str, str], preloaded: Path) -> Command:
    """Runs the command line in a process of its own."""

    def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(PRELOADED), "run", str(preloaded), *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, **options)

    return run


@pytest.fixture(scope="session")
def examples() -> ModuleType:
    """Small artifacts and inputs for them."""
    return importlib.import_module("artifact_examples")


@pytest.fixture(scope="session")
def image_artifact(examples: ModuleType) -> Artifact:
    """An artifact with two members."""
    artifact: Artifact = examples.image_artifact(2)
    return artifact


@pytest.fixture
def written(tmp_path: Path, folders: dict[str, Path], image_artifact: Artifact) -> tuple[Path, Artifact]:
    """A folder of its own with this artifact, and the artifact."""
    return Path(shutil.copytree(folders["image"], tmp_path / "artifact")), image_artifact


@pytest.fixture(scope="session")
def folders(
    image_artifact: Artifact, examples: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """An artifact for every kind of data; tests read them only."""
    made = {"image": image_artifact, "table": examples.table_artifact(2), "vector": examples.vector_artifact(2)}
    found = {kind: tmp_path_factory.mktemp(kind) for kind in made}
    for kind, artifact in made.items():
        write_artifact(found[kind], artifact)
    return found


@pytest.fixture(scope="session")
def predictors(folders: dict[str, Path]) -> dict[str, Predictor]:
    """What these artifacts predict."""
    return {kind: Predictor.load(folder) for kind, folder in folders.items()}


@pytest.fixture(scope="session")
def table(examples: ModuleType) -> pd.DataFrame:
    """40 rows as a person writes them, with a column of labels."""
    values = examples.rows(40, seed=3)
    frame = pd.DataFrame(values.numpy(), columns=[column.name for column in examples.COLUMNS])
    for column in examples.COLUMNS:
        if column.categories is not None:
            words = {**dict(enumerate(column.categories)), -1: "never seen"}
            frame[column.name] = [None if np.isnan(code) else words[int(code)] for code in frame[column.name]]
    frame["label"] = ["low", "=high", "-", "low"] * 10
    return frame


@pytest.fixture(scope="session")
def outcome() -> Callable[[Path], dict[str, Any]]:
    """Everything of a finished run that must not depend on when it was stopped."""

    def read(folder: Path) -> dict[str, Any]:
        results = json.loads((folder / "results.json").read_text())
        del results["seconds"]
        return {
            "results": results,
            "weights": (folder / "artifact" / "weights.safetensors").read_bytes(),
            "architecture": (folder / "artifact" / "architecture.json").read_text(),
            "settings": (folder / "config.toml").read_text(),
        }

    return read


@pytest.fixture
def mlflow_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder that MLflow keeps runs in; a data base takes seconds to make."""
    pytest.importorskip("mlflow", reason="needs mlflow-skinny")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return (tmp_path / "mlruns").as_uri()
