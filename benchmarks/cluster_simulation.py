"""Simulates a search on a cluster: one driver that asks and tells, and 1 to 1,024 workers that score.

Items take lognormal times. The driver handles one event at a time: it tells a result, proposes and sends the next, in
the time that `ask_tell` and `ray_overhead` measure. Proposal k waits for the results of 0..k-L, or, with a barrier, for
the whole batch before its own.
"""

from __future__ import annotations

import argparse
import heapq
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass

from polyarch.estimators import Score
from polyarch.supernets import NB201Supernet


@dataclass(frozen=True)
class Outcome:
    """Items per second, and the shares of the time for which the driver is busy and workers wait."""

    rate: float
    driver: float
    idle: float


def simulate(
    workers: int, window: int, *, item: float, driver: float, spread: float, items: int, barrier: bool = False
) -> Outcome:
    """A search of so many items; times in seconds, ``spread`` is that of the logarithm of an item's time."""
    generator = random.Random(0)
    running: list[tuple[float, int]] = []
    finished: set[int] = set()
    proposed, oldest, free_at, working = 0, 0, 0.0, 0.0

    def may_propose() -> bool:
        first = proposed // window * window if barrier else proposed - window + 1
        return proposed < items and len(running) < workers and oldest >= first

    now = 0.0
    while oldest < items:
        while may_propose():
            free_at = max(free_at, now) + driver
            length = item * generator.lognormvariate(-(spread**2) / 2, spread)
            working += length
            heapq.heappush(running, (free_at + length, proposed))
            proposed += 1
        now, number = heapq.heappop(running)
        finished.add(number)
        while oldest in finished:
            finished.remove(oldest)
            oldest += 1
    return Outcome(items / now, items * driver / now, 1 - working / (now * workers))


def message_bytes() -> int:
    """Of an architecture that is sent and a score that comes back."""
    architecture = next(NB201Supernet(channels=1, cells=1).space.enumerate())
    return len(pickle.dumps([architecture])) + len(pickle.dumps([Score(-1.0, "sotl", None, 1.0)]))


def rows(item: float, driver: float, spread: float, per_worker: int) -> Iterator[str]:
    message = message_bytes()
    for workers in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        window, items = per_worker * workers, max(40 * workers, 400)
        found = simulate(workers, window, item=item, driver=driver, spread=spread, items=items)
        with_barrier = simulate(workers, workers, item=item, driver=driver, spread=spread, items=items, barrier=True)
        yield (
            f"| {workers} | {found.rate:.2f} | {found.driver:.0%} | {found.idle:.0%} | {with_barrier.idle:.0%} | "
            f"{found.rate * message / 1e3:.1f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--item", type=float, default=4.0, help="mean seconds of an item")
    parser.add_argument("--spread", type=float, default=0.5, help="spread of the logarithm of its time")
    parser.add_argument("--driver", type=float, default=5.0, help="milliseconds of the driver per item")
    parser.add_argument("--per-worker", type=int, default=2, help="the window over the number of workers")
    asked = parser.parse_args()
    driver = asked.driver / 1000
    print(f"Items of {asked.item:g} s, {1000 * driver:.2f} ms of the driver each, L = {asked.per_worker} per worker.\n")
    print("| workers | items/s | driver busy | idle | idle with a barrier | kB/s |")
    print("|---|---|---|---|---|---|")
    for row in rows(asked.item, driver, asked.spread, asked.per_worker):
        print(row)


if __name__ == "__main__":
    main()
