"""Made-up runs of experiments, to see what judges, tables and figures make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyarch_experiments import Experiment
from polyarch_experiments.experiment import Settings, Table
from polyarch_experiments.results import Claim

DATA = ["fashion_mnist", "cifar10"]

Run = dict[str, Any]
Changes = Mapping[str, Mapping[str, Any]]
"""Fields of some runs, by ``data, method``; a key such as ``test.accuracy`` leads to one number of a field."""


@dataclass(frozen=True)
class MadeUp:
    """An experiment with settings of the tests' own, and a made-up run for every method."""

    experiment: Experiment
    settings: Settings
    methods: Mapping[str, Run]

    def runs(self, changes: Changes) -> dict[str, Run]:
        """The run of a method for every seed and data set, but for the changes; a list has one value per seed."""
        runs = {}
        for key, (name, seed) in self.experiment.items(self.settings).items():
            run = copied(self.methods[name.split(", ")[1]])
            for path, values in changes.get(name, {}).items():
                *way, last = path.split(".")
                place = run
                for step in way:
                    place = place[step]
                assert last in place  # a change of nothing would change nothing
                place[last] = values[seed] if isinstance(values, list) else values
            runs[key] = run
        return runs

    def claims(self, changes: Changes) -> list[Claim]:
        """What the judge says."""
        return self.experiment.judge(self.settings, self.runs(changes))

    def failing(self, changes: Changes) -> list[int]:
        """The positions of the claims that do not hold."""
        return [position for position, claim in enumerate(self.claims(changes)) if not claim.supported]

    def tables(self, changes: Changes) -> dict[str, Table]:
        """By caption."""
        return self.experiment.tables(self.settings, self.runs(changes))

    def figures(self, changes: Changes) -> dict[str, Any]:
        """By name."""
        return self.experiment.figures(self.settings, self.runs(changes))


def copied(value: Any) -> Any:
    return {key: copied(part) for key, part in value.items()} if isinstance(value, dict) else value


def named(tables: Mapping[str, Table], start: str) -> Table:
    (found,) = (table for caption, table in tables.items() if caption.startswith(start))
    assert found.rows and all(len(row) == len(found.columns) for row in found.rows)
    return found


def panels(spec: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The rows behind every panel of a figure."""
    return [panel["data"]["values"] for panel in spec.get("concat", [spec])]


def require_same_form(experiment: Experiment, made_up: Run, item: str, folder: Path) -> None:
    """A real quick run has the fields of a made-up one.

    Up to the names of sizes, policies, strange inputs and attacks, which are those of the preset.
    """
    settings = experiment.presets["quick"]
    real, expected = _keys(experiment.task(settings, experiment.items(settings)[item], folder)), _keys(made_up)
    assert list(real) == list(expected)
    for name in ("ensemble", "detection", "attacks"):
        if name in real and "accuracy" not in real[name]:
            real[name], expected[name] = (next(iter(one[name].values())) for one in (real, expected))
    assert {**real, "policies": None} == {**expected, "policies": None}


def _keys(value: Any) -> Any:
    return {key: _keys(part) for key, part in value.items()} if isinstance(value, dict) else None
