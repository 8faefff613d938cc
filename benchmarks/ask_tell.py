"""Asking for an architecture and telling its score, late in a long search."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from measure import Goal, options, report

from polyarch.randomness import derive_seed
from polyarch.searchers import Limits, StudySearcher, evolution, exhaustive_search, random_search
from polyarch.searchers.searcher import MakeSampler
from polyarch.supernets import NB201Supernet

NAME = "ask_tell"
GOAL = Goal("<=", 5.0)
WINDOW = 16
LAST = 1000
"""The last proposals, whose time counts."""

SAMPLERS: dict[str, MakeSampler] = {
    "evolution": evolution(population=50, tournament=10),
    "random": random_search,
    "exhaustive": exhaustive_search,
}


def timed(make_sampler: MakeSampler, storage: Path | None, count: int) -> tuple[float, float, float]:
    """Milliseconds per architecture at the end and at the start, and seconds of all."""
    net = NB201Supernet(channels=1, cells=1)
    net.space = replace(net.space, canonical=None)  # every one of the 15,625 cells counts
    searcher = StudySearcher(Limits(net), make_sampler, seed=0, window=WINDOW, storage=storage)
    times = []
    for _ in range(count):
        started = time.perf_counter()
        architecture = searcher.ask(WINDOW)[0]
        searcher.tell([architecture], [[derive_seed(0, "score", architecture.key) / 2**63]])
        times.append(time.perf_counter() - started)
    searcher.close()
    last = min(LAST, count // 4)
    return 1000 * median(times[-last:]), 1000 * median(times[:last]), sum(times)


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    count = 1000 if asked.quick else 10_000
    cases = [("evolution", "journal"), ("evolution", "db"), ("random", "journal"), ("exhaustive", "journal")]
    details = {}
    with tempfile.TemporaryDirectory() as folder:
        for sampler, kind in cases if not asked.quick else cases[:2]:
            last, first, seconds = timed(SAMPLERS[sampler], Path(folder) / f"{sampler}.{kind}", count)
            details[f"{sampler}, {kind}"] = {
                "last_milliseconds": round(last, 2), "first_milliseconds": round(first, 2), "seconds": round(seconds, 1)
            }  # fmt: skip
            print(f"{sampler}, {kind}: {last:.2f} ms at the end, {first:.2f} ms at the start, {seconds:.0f} s")
    report(
        NAME,
        details["evolution, journal"]["last_milliseconds"],
        GOAL,
        options=asked,
        settings={"architectures": count, "window": WINDOW, "last": min(LAST, count // 4), "population": 50},
        details={"milliseconds": details},
    )


if __name__ == "__main__":
    main()
