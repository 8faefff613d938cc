"""Runs side by side: what differs in their settings, how good they are, and which differences are more than chance."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from polyarch.errors import InvalidInput
from polyarch.overview.state import answer_of
from polyarch.randomness import derive_seed
from polyarch.reports.score_text import ScoreText
from polyarch.results import Estimate, PredictorRecord, Record, Results
from polyarch.runs.workspace import Workspace
from polyarch.settings import flat

VERSION = 1

APART = (
    "seed", "workers", "device", "executor", "decisions", "resume", "checkpoint_seconds", "tensorboard", "mlflow",
    "licence",
)  # fmt: skip
"""Settings that do not make a run another one: its seed, and how it was worked off."""


@dataclass(frozen=True)
class FinishedRun:
    """A run with an answer."""

    folder: Path
    results: Results

    @classmethod
    def read(cls, path: Path) -> "FinishedRun":
        """From the folder of a run, or from a results file."""
        file = path if path.is_file() else Workspace(path).results
        if not file.exists():
            raise InvalidInput(f"Expected a run with results in {path}. Found no {file.name} there.")
        found = cls(path, Results.read(file))
        if answer_of(found.results) is None:
            raise InvalidInput(f"Expected a run with an answer in {path}. Found one that has not reached its end.")
        return found

    @property
    def answer(self) -> PredictorRecord:
        """The default predictor."""
        found = answer_of(self.results)
        assert found is not None
        return found

    @property
    def single(self) -> PredictorRecord:
        """The network that is exported alone."""
        return next((one for one in self.results.predictors if len(one.members) == 1), self.answer)

    @property
    def seed(self) -> int:
        """Of the run."""
        return int(self.results.settings["seed"])

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Those that make it another run, by dotted names."""
        return dict(flat({name: value for name, value in self.results.settings.items() if name not in APART}))

    @property
    def test_examples(self) -> str | None:
        """Their fingerprint, where it is known."""
        return None if self.results.provenance is None else self.results.provenance.data.get("test examples")

    @property
    def stage_seconds(self) -> dict[str, float]:
        """What every stage took; other timings that a method keeps are left out."""
        return {name: value for name, value in self.results.seconds.items() if not name.startswith("forward_")}


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ in their seeds alone, in their order."""

    name: str
    runs: tuple[FinishedRun, ...]

    @property
    def seeds(self) -> list[int]:
        """One for each run."""
        return [one.seed for one in self.runs]

    def score(self, text: ScoreText, *, paired: bool = False) -> Estimate:
        """Of the default predictors.

        Args:
            paired: whether its seeds are resampled as those of other groups with the same seeds are.
        """
        return text.measured(*(one.answer for one in self.runs), stream="" if paired else self.name)

    def mean(self, name: str) -> float | None:
        """A metric of the default predictors; None where one of them does not have it."""
        values = [one.answer.metrics.get(name) for one in self.runs]
        return None if None in values else float(np.mean([value for value in values if value is not None]))


@dataclass(frozen=True)
class Difference:
    """The score of a group minus that of another one.

    Args:
        paired: what both sides share: ``seeds and test examples``, ``test examples``, or nothing.
        better: with how many of the shared seeds it is better.
    """

    estimate: Estimate
    paired: str
    better: int | None = None


class IntervalRecord(Record):
    """A value with its 95 % interval, where that is known."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, estimate: Estimate) -> "IntervalRecord":
        """Of an estimate."""
        low, high = estimate.interval or (None, None)
        return cls(value=estimate.value, low=low, high=high)


class DifferenceRecord(Record):
    """The score of a group minus that of the first one; see `Difference`."""

    score: IntervalRecord
    paired: str
    better: int | None = None

    @classmethod
    def of(cls, found: Difference) -> "DifferenceRecord":
        """The same in plain values."""
        return cls(score=IntervalRecord.of(found.estimate), paired=found.paired, better=found.better)


class GroupRecord(Record):
    """A group in numbers: means over its seeds, with intervals over test examples and seeds.

    ``loss`` is the negative log-likelihood of the answers, ``single`` the score of the networks that are exported
    alone, ``parameters`` theirs.
    """

    name: str
    folders: list[str]
    method: str
    seeds: list[int]
    answer: str
    score: IntervalRecord
    single: IntervalRecord
    loss: IntervalRecord
    calibration_error: float | None
    calibration_floor: float | None
    parameters: float | None
    minutes: float
    against_first: DifferenceRecord | None = None


class ComparisonRecord(Record):
    """What `polyarch compare` writes as JSON; ``settings`` are those in which groups differ, a value for each group."""

    version: int = VERSION
    metric: str
    groups: list[GroupRecord]
    settings: dict[str, list[Any]]


@dataclass(frozen=True)
class Comparison:
    """Groups of runs; the first one is what the others are compared with."""

    groups: tuple[RunGroup, ...]

    @property
    def text(self) -> ScoreText:
        """How scores are written."""
        return ScoreText.of(self.groups[0].runs[0].results)

    @cached_property
    def settings(self) -> dict[str, list[Any]]:
        """Settings in which the groups differ: name -> a value for each group, None where it has no such setting."""
        described = [group.runs[0].settings for group in self.groups]
        names = dict.fromkeys(name for one in described for name in one)
        values = {name: [one.get(name) for one in described] for name in names}
        return {name: found for name, found in values.items() if any(one != found[0] for one in found)}

    @cached_property
    def record(self) -> ComparisonRecord:
        """All of it in numbers."""
        first, *others = self.groups
        lines = [self._record(first), *(self._record(one, DifferenceRecord.of(self.difference(one))) for one in others)]
        return ComparisonRecord(metric=self.text.metric.name, groups=lines, settings=self.settings)

    def frame(self) -> pd.DataFrame:
        """A row for every group."""
        return pd.DataFrame(dict(flat(group.model_dump(), lists=False)) for group in self.record.groups)

    def difference(self, group: RunGroup) -> Difference:
        """How far a group is above the first one, on what both share."""
        first, text = self.groups[0], self.text
        sides = {side.seed: (side, other) for side in group.runs for other in first.runs if side.seed == other.seed}
        shares_seeds = len(sides) == len(group.runs) == len(first.runs)
        prints = {one.test_examples for one in (*group.runs, *first.runs)}
        if shares_seeds and all(_share_examples(*pair) for pair in sides.values()):
            gain = group.score(text, paired=True).minus(first.score(text, paired=True))
            paired = "seeds and test examples"
        elif len(prints) == 1 and None not in prints:
            gain, paired = group.score(text).minus(first.score(text)), "test examples"
        else:
            gain, paired = _shuffled(group.score(text)).minus(first.score(text)), ""
        gains = [text.metric.gain(side.answer.score, other.answer.score) for side, other in sides.values()]
        better = sum(one > 0 for one in gains) if shares_seeds else None
        return Difference(gain, paired, better)

    def _record(self, group: RunGroup, difference: DifferenceRecord | None = None) -> GroupRecord:
        noise = [one.answer.calibration for one in group.runs if one.answer.calibration is not None]
        sizes = [one.results.artifact["parameters"] for one in group.runs if one.results.artifact is not None]
        return GroupRecord(
            name=group.name,
            folders=[str(one.folder) for one in group.runs],
            method=group.runs[0].results.method,
            seeds=group.seeds,
            answer=group.runs[0].answer.name,
            score=IntervalRecord.of(group.score(self.text)),
            single=IntervalRecord.of(self.text.measured(*(one.single for one in group.runs))),
            loss=IntervalRecord.of(Estimate.of([one.answer for one in group.runs], "loss")),
            calibration_error=group.mean("calibration_error"),
            calibration_floor=float(np.mean([one.floor for one in noise])) if len(noise) == len(group.runs) else None,
            parameters=float(np.mean(sizes)) if sizes else None,
            minutes=sum(sum(one.stage_seconds.values()) for one in group.runs) / len(group.runs) / 60,
            against_first=difference,
        )


def compare(paths: Iterable[str | Path]) -> Comparison:
    """Compares finished runs; those that differ in their seed alone form a group. The first group is the yardstick.

    Args:
        paths: folders of runs, or results files.
    """
    runs = [FinishedRun.read(Path(path)) for path in paths]
    if len(runs) < 2:
        raise InvalidInput(f"Expected two or more runs to compare. Got {len(runs)}.")
    metrics = dict.fromkeys(one.results.task.metric for one in runs)
    if len(metrics) > 1:
        raise InvalidInput(f"Expected runs with one metric. Got {' and '.join(metrics)}.")
    found: list[list[FinishedRun]] = []
    for run in runs:
        alike = [group for group in found if group[0].settings == run.settings and run.seed not in _seeds(group)]
        if alike:
            alike[0].append(run)
        else:
            found.append([run])
    ordered = [tuple(sorted(group, key=lambda one: one.seed)) for group in found]
    return Comparison(tuple(RunGroup(*pair) for pair in zip(_names(ordered), ordered, strict=True)))


def _seeds(group: Sequence[FinishedRun]) -> list[int]:
    return [one.seed for one in group]


def _share_examples(one: FinishedRun, other: FinishedRun) -> bool:
    return one.test_examples is not None and one.test_examples == other.test_examples


def _shuffled(estimate: Estimate) -> Estimate:
    """Draws in another order, which are those of other examples."""
    if estimate.draws is None:
        return estimate
    order = np.random.default_rng(derive_seed(0, "other examples")).permutation(len(estimate.draws))
    return replace(estimate, draws=estimate.draws[order])


def _names(groups: Sequence[Sequence[FinishedRun]]) -> list[str]:
    """Names of folders; of several runs that of the first without a number at its end."""
    found = []
    for group in groups:
        name = group[0].folder.resolve().name
        found.append(name if len(group) == 1 else name.rstrip("-_. 0123456789") or name)
    if len(set(found)) == len(found):
        return found
    return [str(group[0].folder) for group in groups]
