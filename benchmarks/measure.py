"""What the benchmark scripts share: interleaved timing, medians, the result line and its file."""

from __future__ import annotations

import argparse
import json
import operator
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"

COMPARISONS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True)
class Goal:
    """What the ratio should be, e.g. ``Goal("<=", 1.03)``."""

    comparison: str
    bound: float

    def met(self, ratio: float) -> bool:
        return COMPARISONS[self.comparison](ratio, self.bound)

    def __str__(self) -> str:
        return f"{self.comparison}{self.bound:g}"


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    quick: bool
    out: Path | None


def options(name: str, description: str) -> Options:
    """Reads the command line; without ``--quick`` the result goes to ``results/NAME.json``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a smaller measurement in under a minute, not stored")
    parser.add_argument("--out", type=Path, default=None, help="where to write the result instead")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    stored = None if arguments.quick else RESULTS / f"{name}.json"
    return Options(arguments.quick, arguments.out or stored)


Clock = Callable[[], float]


def seconds(action: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """How long one call takes."""
    started = clock()
    action()
    return clock() - started


def interleaved(
    sides: Mapping[str, Callable[[], object]], rounds: int, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Times every side once per round, the order turned around each time so that drift hits all alike.

    Processor seconds (``time.process_time``) are less disturbed by other work on the machine.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for _ in range(rounds):
        for name in names:
            times[name].append(seconds(sides[name], clock))
        names.reverse()
    return times


def medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of every side."""
    return {name: statistics.median(values) for name, values in times.items()}


def summary(times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Every time taken and the medians, for the file."""
    rounded = {name: [round(value, 4) for value in values] for name, values in times.items()}
    return {"seconds": rounded, "median_seconds": medians(rounded)}


def report(
    name: str, ratio: float, goal: Goal, *, options: Options, settings: Mapping[str, Any], details: Mapping[str, Any]
) -> None:
    """Writes the file if one is asked for, and prints the line that ends every benchmark."""
    if options.out:
        content = {
            "name": name,
            "ratio": round(ratio, 4),
            "goal": str(goal),
            "met": goal.met(ratio),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "quick": options.quick,
            "settings": dict(settings),
            **details,
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=2) + "\n")
    print(f"{name} ratio={ratio:.2f} goal{goal}")
