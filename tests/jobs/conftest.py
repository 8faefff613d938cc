"""A run small enough for tests, and the command line as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TINY = {
    "data.limit": 256,
    "space.channels": 4,
    "train.epochs": 4,
    "train.batch_size": 32,
    "scores.steps": 4,
    "scores.policy_batches": 2,
    "rank.architectures": 5,
    "search.budget": 8,
    "search.batch": 4,
    "search.population": 4,
    "search.tournament": 2,
    "retrain.epochs": 2,
    "retrain.seeds": 2,
    "retrain.random_architectures": 2,
    "checkpoint_seconds": 0.2,
}

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tiny_options() -> list[str]:
    return [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONWARNINGS": "default"}


@pytest.fixture
def polyarch(environment: dict[str, str]) -> Command:
    """Runs the command line in a process of its own."""

    def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "polyarch.cli", *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, **options)

    return run


@pytest.fixture
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
