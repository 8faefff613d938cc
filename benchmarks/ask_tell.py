"""Milliseconds of asking for an architecture and telling its score, late in a long search.

The ratio is in processor time, because other work on the machine stretches the time by the clock.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from measure import Goal, options, report

from polyarch.randomness import derive_seed
from polyarch.searchers import Limits, StudySearcher, evolution, random_search
from polyarch.searchers.searcher import MakeSampler
from polyarch.supernets import NB201Supernet

NAME = "ask_tell"
GOAL = Goal("<=", 5.0)
WINDOW = 16
LAST = 1000
"""The last proposals, whose time counts."""

SAMPLERS: dict[str, MakeSampler] = {"evolution": evolution(population=50, tournament=10), "random": random_search}


def timed(make_sampler: MakeSampler, storage: Path | None, count: int) -> dict[str, float]:
    """Milliseconds per architecture: medians of the first and the last proposals, by processor and by clock."""
    net = NB201Supernet(channels=1, cells=1)
    net.space = replace(net.space, canonical=None)  # every one of the 15,625 cells counts
    searcher = StudySearcher(Limits(net), make_sampler, seed=0, window=WINDOW, storage=storage)
    times: dict[str, list[float]] = {"processor": [], "clock": []}
    for _ in range(count):
        started = time.process_time(), time.perf_counter()
        architecture = searcher.ask(WINDOW)[0]
        searcher.tell([architecture], [[derive_seed(0, "score", architecture.key) / 2**63]])
        times["processor"].append(time.process_time() - started[0])
        times["clock"].append(time.perf_counter() - started[1])
    searcher.close()
    last = min(LAST, count // 4)
    ends = {"start": slice(0, last), "end": slice(-last, None)}
    return {
        f"{clock}_milliseconds_at_the_{end}": round(1000 * median(values[part]), 2)
        for clock, values in times.items()
        for end, part in ends.items()
    }


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    count = 1000 if asked.quick else 10_000
    cases = [("evolution", "journal", count), ("random", "journal", count), ("evolution", "db", count // 10)]
    details = {}
    with tempfile.TemporaryDirectory() as folder:
        for sampler, kind, number in cases:
            details[f"{sampler}, {kind}"] = found = timed(SAMPLERS[sampler], Path(folder) / f"{sampler}.{kind}", number)
            print(f"{sampler}, {kind}, {number}: {found}")
    report(
        NAME,
        details["evolution, journal"]["processor_milliseconds_at_the_end"],
        GOAL,
        options=asked,
        settings={"architectures": count, "window": WINDOW, "last": LAST, "population": 50},
        details={"milliseconds": details},
    )


if __name__ == "__main__":
    main()
