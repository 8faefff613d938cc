"""What every experiment is: a claim of a paper, settings for every preset, and a run that ends in results."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import polyarch
from polyarch.errors import ConfigError, CorruptFile
from polyarch.executors import Executor, Processes, Serial
from polyarch.files import Journal, write_json
from polyarch.runs.display import Display
from polyarch.runs.workspace import run_missing
from polyarch.training import StopRequest
from polyarch_experiments.figures import Spec, write_figures
from polyarch_experiments.results import Claim, ExperimentResults

PRESETS = ("quick", "cpu", "long", "paper")
"""About a minute, for tests; ten to sixty minutes on two cores; hours, where an experiment has it; the paper's own."""

Settings = dict[str, Any]


def _no_figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    return {}


@dataclass(frozen=True)
class Table:
    """Titles of columns, and rows of cells."""

    columns: list[str]
    rows: list[list[str]]


def _no_tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    return {}


@dataclass(frozen=True)
class Experiment:
    """A claim and how to test it.

    Args:
        document: the paper whose claim it is, by its name in `PAPERS`.
        claim: what is tested, in a sentence.
        presets: the settings of every preset; not all have ``long``.
        items: the independent runs of given settings, by name; they go to workers one by one.
        task: runs one item; gets (settings, item, folder) and returns plain values.
        judge: turns settings and all results by name into claims.
        figures: turns them into figures by name; names are the experiment's own.
        tables: turns them into tables by caption.
        gradual: whether ``judge``, ``figures`` and ``tables`` also take the results that have arrived so far;
            ``results.json`` is then written after every item.
    """

    name: str
    document: str
    claim: str
    presets: dict[str, Settings]
    items: Callable[[Settings], dict[str, Any]]
    task: Callable[[Settings, Any, Path], dict[str, Any]]
    judge: Callable[[Settings, dict[str, Any]], list[Claim]]
    figures: Callable[[Settings, dict[str, Any]], dict[str, Spec]] = _no_figures
    tables: Callable[[Settings, dict[str, Any]], dict[str, Table]] = _no_tables
    gradual: bool = False

    def run(
        self, preset: str, out: Path, display: Display, stop: StopRequest, workers: int | None = None
    ) -> ExperimentResults:
        """Runs what is not yet in the folder and writes ``results.json`` and ``figures/``."""
        settings = self.presets[preset]
        self._claim_folder(out, preset)
        executor: Executor = Serial() if workers == 1 else Processes(workers)
        task, items, journal = _Task(self.task, settings, out), self.items(settings), Journal(out / "runs.jsonl")
        with display.stage(self.name) as report, stop.at_once(), executor.open(task) as run:

            def stored(done: int, total: int, note: str) -> None:
                report(done, total, note)
                if self.gradual and done < total:
                    known = {record["key"]: record["value"] for record in journal.records}
                    self._results(preset, {key: known[key] for key in items if key in known}).write(path)

            path = out / "results.json"
            runs = run_missing(items, journal, run, dict, stored)
        results = self._results(preset, runs)
        results.write(path)
        write_figures(self.figures(settings, runs), out / "figures")
        return results

    def _results(self, preset: str, runs: dict[str, Any]) -> ExperimentResults:
        settings = self.presets[preset]
        return ExperimentResults(
            polyarch=polyarch.__version__,
            torch=torch.__version__,
            experiment=self.name,
            preset=preset,
            settings=settings,
            claims=self.judge(settings, runs),
            runs=runs,
        )

    def _claim_folder(self, out: Path, preset: str) -> None:
        """A folder belongs to one experiment with one set of settings: results of others must not mix with its own."""
        mark = out / "experiment.json"
        value = {"experiment": self.name, "preset": preset, "settings": self.presets[preset]}
        if mark.exists():
            found = _read_mark(mark)
            odd = sorted(key for key in value.keys() | found.keys() if value.get(key) != found.get(key))
            if odd:
                raise ConfigError(
                    f"Expected a folder for experiment {self.name!r}, preset {preset!r}, with the settings it has now. "
                    f"Found {out}, of {found.get('experiment')!r}, preset {found.get('preset')!r}: not the same "
                    f"{', '.join(odd)}; choose another --out."
                )
        write_json(mark, value)


def _read_mark(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise CorruptFile(f"Expected the experiment of a folder, as JSON. Got a damaged file {path}.") from error
    if not isinstance(content, dict):
        raise CorruptFile(f"Expected the experiment of a folder, as a JSON object. Got another value in {path}.")
    return content


@dataclass(frozen=True)
class _Task:
    task: Callable[[Settings, Any, Path], dict[str, Any]]
    settings: Settings
    folder: Path

    def __call__(self, item: Any) -> dict[str, Any]:
        return self.task(self.settings, item, self.folder)
