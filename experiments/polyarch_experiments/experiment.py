"""What every experiment is: a claim of a paper, settings for every preset, and a run that ends in results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import polyarch
from polyarch.data import data_root
from polyarch.errors import ConfigError, CorruptFile, MissingData, UnknownName
from polyarch.executors import Executor, Items, Mapper, executor_named
from polyarch.files import Journal, write_json
from polyarch.runs.display import Display
from polyarch.runs.settings import with_overrides
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


def _never(settings: Settings) -> None:
    return None


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
        partial: whether ``judge``, ``figures`` and ``tables`` also take a part of the results: those that have arrived
            so far, which are then stored after every item, or those whose data are not missing.
        outdated: why results with given settings are of something else than what is tested now, if they are: what a
            test would take. Their claims are undecided.
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
    partial: bool = False
    outdated: Callable[[Settings], str | None] = _never

    def run(
        self,
        preset: str,
        out: Path,
        display: Display,
        stop: StopRequest,
        workers: int | None = None,
        changes: Mapping[str, Any] | None = None,
        executor: Executor | None = None,
    ) -> ExperimentResults:
        """Runs what is not yet in the folder and writes ``results.json`` and ``figures/``.

        Items whose data are missing are run when the same folder is used again; until then claims on them are open.

        Args:
            changes: other values of settings of the preset, by dotted name.
            executor: runs the items; by default so many worker processes.
        """
        settings = self._changed(preset, changes or {})
        self._claim_folder(out, preset, settings)
        executor = executor or executor_named("processes", workers=workers)
        task, items, journal = _Task(self.task, settings, out), self.items(settings), Journal(out / "runs.jsonl")
        arrivals = _Arrivals(Journal(out / "costs.jsonl"))

        def conclude(runs: dict[str, Any]) -> ExperimentResults:
            seconds = arrivals.processor_seconds
            costs = {key: seconds[key] for key in runs if key in seconds}
            return self._conclude(preset, settings, runs, costs, arrivals.missing, out)

        with display.stage(self.name) as report, stop.at_once(), executor.open(task) as run:

            def arrived(done: int, total: int, note: str) -> None:
                report(done, total, note)
                if self.partial and 0 < done < total:
                    known = {record["key"]: record["value"] for record in journal.records}
                    conclude({key: known[key] for key in items if key in known})

            named = {key: (key, item) for key, item in items.items()}
            runs = run_missing(named, journal, arrivals.noted(run), dict, arrived)
        return conclude(runs)

    def _conclude(
        self,
        preset: str,
        settings: Settings,
        runs: dict[str, Any],
        costs: dict[str, float],
        missing: Sequence[str],
        out: Path,
    ) -> ExperimentResults:
        """Judges what there is and writes it down; ``missing`` says why some results are not there."""
        can_judge = bool(runs) and (self.partial or not missing)
        why = "; ".join(sorted(set(missing)))
        results = ExperimentResults(
            polyarch=polyarch.__version__,
            torch=torch.__version__,
            experiment=self.name,
            preset=preset,
            settings=settings,
            claims=[
                *(self.judge(settings, runs) if can_judge else []),
                *([Claim(text=self.claim, supported=None, numbers=why)] if why else []),
            ],
            runs=runs,
            processor_seconds=costs,
        )
        results.write(out / "results.json")
        if can_judge:
            write_figures(self.figures(settings, runs), out / "figures")
        return results

    def _changed(self, preset: str, changes: Mapping[str, Any]) -> Settings:
        for name in changes:
            if name.partition(".")[0] not in self.presets[preset]:
                raise UnknownName(f"setting of {self.name}", name, self.presets[preset])
        return with_overrides(self.presets[preset], changes)

    def _claim_folder(self, out: Path, preset: str, settings: Settings) -> None:
        """A folder belongs to one experiment with one set of settings: results of others must not mix with its own."""
        mark = out / "experiment.json"
        value = {"experiment": self.name, "preset": preset, "settings": settings}
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
class _Result:
    """What an item found, or why its data are missing, and the processor seconds that it took."""

    key: str
    found: dict[str, Any] | str
    seconds: float


@dataclass(frozen=True)
class _Task:
    task: Callable[[Settings, Any, Path], dict[str, Any]]
    settings: Settings
    folder: Path

    def __call__(self, item: tuple[str, Any]) -> _Result:
        started = time.process_time()  # whatever else the machine does meanwhile
        try:
            found: dict[str, Any] | str = self.task(self.settings, item[1], self.folder)
        except MissingData as error:
            found = str(error).replace(str(data_root()), "the data folder")
        return _Result(item[0], found, time.process_time() - started)


@dataclass(frozen=True)
class _Arrivals:
    """What results cost, kept in a journal, and why the data of others are missing."""

    costs: Journal
    missing: list[str] = field(default_factory=list)

    @property
    def processor_seconds(self) -> dict[str, float]:
        """By the name of the item."""
        return {record["key"]: record["value"] for record in self.costs.records}

    def noted(self, run: Mapper[Any, _Result]) -> Mapper[Any, dict[str, Any]]:
        """The same without the items whose data are missing, so that no journal has them."""

        def others(items: Items[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
            for index, result in run(items):
                if isinstance(result.found, str):
                    self.missing.append(result.found)
                else:
                    self.costs.append({"key": result.key, "value": round(result.seconds, 1)})
                    yield index, result.found

        return others
