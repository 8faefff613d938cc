"""How many files of the package a search goes through, and how often it makes the same thing again.

Counts files and pairs of files (caller, callee) by a profile hook, and calls of functions by name, in one process:

    python benchmarks/entered_files.py
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import polyarch

PACKAGE = Path(polyarch.__file__).parent
COUNTED = ("parse", "estimators", "limits", "build", "supernet")
OPTIONS = {
    "data.limit": 300,
    "train.epochs": 2,
    "rank.architectures": 5,
    "search.budget": 8,
    "scores.steps": 4,
    "retrain.epochs": 1,
    "retrain.seeds": 1,
    "retrain.random_architectures": 1,
    "programs": [],
}


def main() -> None:
    files: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(str(PACKAGE)):
            return
        callee = frame.f_code.co_filename
        files.add(callee)
        back = frame.f_back
        if back is not None and back.f_code.co_filename.startswith(str(PACKAGE)):
            pairs.add((back.f_code.co_filename, callee))
        if frame.f_code.co_name in COUNTED and Path(callee).parent.name in ("jobs", "runs"):
            calls[f"{Path(callee).stem}.{frame.f_code.co_name}"] += 1

    with tempfile.TemporaryDirectory() as folder:
        polyarch.search("digits", out=Path(folder) / "warm-up", quiet=True, settings=OPTIONS)  # imports everything
        sys.setprofile(note)
        try:
            polyarch.search("digits", out=Path(folder) / "run", quiet=True, settings=OPTIONS)
        finally:
            sys.setprofile(None)
    print(
        f"{len(files)} files entered, {len({pair for pair in pairs if pair[0] != pair[1]})} pairs of caller and callee"
    )
    for name, count in calls.most_common():
        print(f"{name}: {count} calls")


if __name__ == "__main__":
    main()
