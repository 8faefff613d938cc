"""Where polyarch looks for data sets on this machine."""

import os
from pathlib import Path

from polyarch.errors import MissingData


def data_root() -> Path:
    """The folder named by ``POLYARCH_DATA``, or ``polyarch`` in the user's cache folder."""
    named = os.environ.get("POLYARCH_DATA")
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "polyarch"


def find(folder: Path, name: str) -> Path | None:
    """The path of a file that is there plain or gzipped; None if it is not."""
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    return None


def missing(dataset: str, folder: Path, expected: str) -> MissingData:
    """The error for a file that is not there; says how to get it."""
    return MissingData(
        f"Expected {expected} in {folder}. Found no such file; POLYARCH_DATA names the data folder, and "
        f"`polyarch data download {dataset}` fetches the files."
    )
