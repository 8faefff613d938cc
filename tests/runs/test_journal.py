"""Items are run once, in waves that stop when the time is over."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from polyarch.executors import Items
from polyarch.files import Journal
from polyarch.runs.workspace import run_missing

ITEMS = {f"item {number}": number for number in range(5)}


class Recorder:
    def __init__(self) -> None:
        self.waves: list[list[int]] = []

    def __call__(self, items: Items[int]) -> Iterator[tuple[int, int]]:
        assert not callable(items)
        self.waves.append(list(items))
        return ((index, 10 * item) for index, item in enumerate(items))


def run(folder: Path, recorder: Recorder, **options: Any) -> dict[str, dict[str, Any]]:
    journal = Journal(folder / "journal.jsonl")
    return run_missing(ITEMS, journal, recorder, lambda value: {"value": value}, lambda *_: None, **options)


def test_what_is_in_the_journal_is_not_run_again(tmp_path: Path) -> None:
    first, second = Recorder(), Recorder()
    records = run(tmp_path, first)
    assert records == {f"item {number}": {"value": 10 * number} for number in range(5)}
    assert run(tmp_path, second) == records
    assert (first.waves, second.waves) == ([[0, 1, 2, 3, 4]], [])


def test_without_a_limit_all_items_are_one_wave(tmp_path: Path) -> None:
    recorder = Recorder()
    run(tmp_path, recorder, wave=2)
    assert recorder.waves == [[0, 1, 2, 3, 4]]


def test_the_first_wave_runs_even_without_time_and_the_rest_later(tmp_path: Path) -> None:
    late, later = Recorder(), Recorder()
    assert list(run(tmp_path, late, wave=2, seconds_left=lambda: -1.0)) == ["item 0", "item 1"]
    assert late.waves == [[0, 1]]
    assert len(run(tmp_path, later, wave=2, seconds_left=lambda: math.inf)) == 5
    assert later.waves == [[2, 3, 4]]
