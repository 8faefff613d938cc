"""Fixtures of the whole suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile("polyarch", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("polyarch")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Small tensors are faster with one thread, and the machine may be shared."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data: POLYARCH_DATA, or the shared folder beside the repository."""
    root = Path(os.environ.get("POLYARCH_DATA") or ROOT.parent / "shared" / "data")
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
