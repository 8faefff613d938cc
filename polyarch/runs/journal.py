"""Many items, each finished once: results go to a journal as they arrive, and a killed run skips them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from polyarch.executors.executor import Item, Mapper, Result
from polyarch.files import Journal
from polyarch.runs.display import Report


def run_missing(
    items: Mapping[str, Item],
    journal: Journal,
    run: Mapper[Item, Result],
    to_record: Callable[[Result], dict[str, Any]],
    report: Report,
    *,
    wave: int | None = None,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> dict[str, dict[str, Any]]:
    """Runs the items whose key is not in the journal; returns the records by key in the order of the items.

    Args:
        wave: how many items are handed out at once; all by default.
        seconds_left: no further wave starts when less time is left than the last one took.
    """
    known = {record["key"]: record["value"] for record in journal.records if record["key"] in items}
    missing = [key for key in items if key not in known]
    report(len(known), len(items), "")
    size = wave if wave is not None and seconds_left() < math.inf else max(len(missing), 1)
    took = 0.0
    for start in range(0, len(missing), size):
        if known and seconds_left() < took:
            break
        started = time.monotonic()
        keys = missing[start : start + size]
        for index, result in run([items[key] for key in keys]):
            value = to_record(result)
            journal.append({"key": keys[index], "value": value})
            known[keys[index]] = value
            report(len(known), len(items), "")
        took = time.monotonic() - started
    return {key: known[key] for key in items if key in known}
