"""Small searches of every method that are killed at random moments and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from commands import KILLED, Process

TINY: dict[str, Any] = {
    "train.epochs": 3, "train.batch_size": 20, "retrain.epochs": 2, "scores.steps": 2, "scores.policy_batches": 1,
    "checkpoint_seconds": 0,
}  # fmt: skip
MLP: dict[str, Any] = {
    **TINY, "space.kind": "mlp", "space.width": 6, "space.inner_widths": [4, 6], "space.max_depth": 2,
}  # fmt: skip
DEPTHS: dict[str, Any] = {**TINY, "space.kind": "depth_fc", "space.max_depth": 2, "space.width": 6}
METHODS: dict[str, dict[str, Any]] = {
    "one-shot": {
        **MLP, "rank.architectures": 3, "rank.supernets": 1, "search.budget": 4, "search.window": 2,
        "search.population": 2, "search.tournament": 2, "retrain.members": 2,
    },
    "sotl-darts": MLP,
    "gdas": MLP,
    "stochastic": MLP,
    "posterior-guided": {
        **TINY, "space.kind": "residual_mlp", "space.width": 6, "guided.candidates": 3, "guided.random_candidates": 1,
    },
    "variational-depth": DEPTHS,
    "deterministic-depth": {**DEPTHS, "depth.depths": [1, 2]},
}  # fmt: skip
"""What ends by itself; races and fronts end by the clock, so that two of them need not have the same bits."""


def write_points(path: Path) -> Path:
    """100 points of two classes."""
    inputs = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    np.savez(path, x=inputs, y=(inputs[:, 0] > 0).astype(int))
    return path


class Search:
    """A search in a process group of its own; it starts anew or resumes, whichever the folder asks for."""

    def __init__(
        self,
        method: str,
        folder: Path,
        data: Path,
        address: Path,
        environment: dict[str, str],
        workers: int = 1,
        programs: str = "['pt2', 'onnx']",
    ) -> None:
        self.folder = folder
        self.words = ["search", "--data", str(data), "--method", method, "--set", f"programs={programs}"]
        self.words += [word for name, value in METHODS[method].items() for word in ("--set", f"{name}={value}")]
        self.address = address
        self.environment = environment
        self.workers = workers
        self.seconds = 0.0

    def run(self, kill_after: float | None = None, ready: Callable[[Path], bool] = lambda folder: True) -> bool:
        """Runs to the end, or kills the whole group some seconds after the folder looks ready; True if it ended."""
        started = (self.folder / "config.toml").exists()
        words = ["search", "--resume"] if started else self.words
        words = [*words, "--out", str(self.folder), "--workers", str(self.workers)]
        errors = self.folder.with_suffix(".errors")
        began = time.monotonic()
        process = Process(self.address, words, self.environment, errors)
        if kill_after is not None:
            while not ready(self.folder) and not process.ends_within(0.01):
                assert time.monotonic() < began + 600, "the folder never looks ready"
            if not process.ends_within(kill_after):
                process.kill()
        code = process.wait()
        self.seconds = time.monotonic() - began
        assert code in (0, KILLED), errors.read_text()
        return code == 0


def in_export(folder: Path) -> bool:
    """Whether weights are written and programs may be on their way."""
    return (folder / "artifact" / "weights.safetensors").exists()


def programs(folder: Path) -> dict[str, bytes]:
    """The exported programs of all artifacts of a run."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("*/model.*"))}
