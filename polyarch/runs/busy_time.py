"""Keeping to the minutes on a machine that does other work, too."""

import math
import time

from polyarch.runs.run import Run

MEASURED_SECONDS = 0.1
"""Of the processor: long enough to lose it to other processes a few times."""

MOST_OF_TIME = 0.5
"""The share of the minutes that the end of a run may have on a busy machine."""


def slowdown() -> float:
    """How many times as long work takes as on an idle machine: real seconds per second of the processor, at least 1."""
    started, worked = time.monotonic(), time.thread_time()
    while (used := time.thread_time() - worked) < MEASURED_SECONDS:
        pass
    return max((time.monotonic() - started) / used, 1.0)


def seconds_before(run: Run, end: float) -> float:
    """What is left of the minutes before an end of the run that takes so many seconds on an idle machine.

    Infinity without a limit on the minutes.
    """
    if run.settings.max_minutes is None:
        return math.inf
    most = max(MOST_OF_TIME * 60 * run.settings.max_minutes, end)
    return run.seconds_left() - min(end * slowdown(), most)
