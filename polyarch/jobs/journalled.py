"""Many items, each finished once: results go to a journal as they arrive, and a killed run skips them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from polyarch.executors.executor import Item, Mapper, Result
from polyarch.files import Journal
from polyarch.jobs.display import Report


def run_missing(
    items: Mapping[str, Item],
    journal: Journal,
    run: Mapper[Item, Result],
    to_record: Callable[[Result], dict[str, Any]],
    report: Report,
) -> dict[str, dict[str, Any]]:
    """Runs the items whose key is not in the journal; returns the records of all, by key in the order of the items."""
    known = {record["key"]: record["value"] for record in journal.records if record["key"] in items}
    missing = [key for key in items if key not in known]
    report(len(known), len(items), "")
    if missing:
        for index, result in run([items[key] for key in missing]):
            value = to_record(result)
            journal.append({"key": missing[index], "value": value})
            known[missing[index]] = value
            report(len(known), len(items), "")
    return {key: known[key] for key in items}
