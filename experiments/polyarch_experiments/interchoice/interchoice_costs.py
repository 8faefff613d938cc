"""What inter-choice weights cost in training on NAS-Bench-201: table 1 and appendix D of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyarch.ranking import Interval
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Row, Spec, grouped_bars
from polyarch_experiments.interchoice.training_costs import cost_table, extra_seconds, training_costs
from polyarch_experiments.interchoice.weighted_supernets import PAPER_CELLS, all_kinds, settings_of, short_recipe
from polyarch_experiments.papers import INTERCHOICE_WEIGHTS
from polyarch_experiments.results import Claim, Finding
from polyarch_experiments.verdict import claim, finding, not_run

SLOWER = ("shared bias", "attention", "deep attention")
"""Kinds of weights of appendix D, which are not in table 1."""


def items(settings: Settings) -> dict[str, str]:
    """Every space."""
    return {space: space for space in settings["spaces"]}


def run(settings: Settings, space: str, folder: Path) -> dict[str, Any]:
    """Steps of all kinds of weights on the same batches and paths."""
    return training_costs({kind: settings_of(settings, space, kind) for kind in settings["weights"]})


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Only the paper's batches of its own images are a fair test."""
    needs = None if settings["run"] == PAPER_CELLS else "the paper's batches of its images"

    def everywhere(kind: str, than: str, **bounds: float) -> list[Finding]:
        names = {space: f"{kind} in {space}, per cent" for space in settings["spaces"]}
        return [
            finding(name, extra_seconds(runs[space], kind, than), **bounds) if space in runs else not_run(name)
            for space, name in names.items()
        ]

    return [
        claim(
            "A bias costs less than 18 % of a training step on NAS-Bench-201, the least that the paper reports.",
            everywhere("bias", "base", below=18),
            "of the processor time of a step; intervals are over steps",
            number=3,
            document="bias +18 to 38 %, split +1 to 21 % (table 1)",
            needs=needs,
        ),
        claim(
            "Inter-choice weights take at most 12 % more memory in training on NAS-Bench-201.",
            [_most_memory(settings, runs, space) for space in settings["spaces"]],
            "of weights, momentum, gradients and activations, which are counted; without the kinds of appendix D",
            number=3,
            document="15.8 % of a GPU's memory without them and 17.4 % with a bias; split at most +1 % (table 1)",
            needs=needs,
        ),
        claim(
            "A shared bias and attention take more time than a bias.",
            [one for kind in SLOWER for one in everywhere(kind, "bias", above=0)],
            document="a shared bias +38 to 128 % on NAS-Bench-201, attention much slower (appendix D)",
            needs=needs,
        ),
    ]


def _most_memory(settings: Settings, runs: Mapping[str, Any], space: str) -> Finding:
    """What the kinds of table 1 take at most, which is counted and would be the same again."""
    name = f"the most in {space}, per cent"
    if space not in runs:
        return not_run(name)
    sizes = runs[space]["bytes"]
    most = max(100 * sizes[kind] / sizes["base"] - 100 for kind in settings["weights"] if kind not in SLOWER)
    return finding(name, Interval(most, most, most), below=12)


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Table 1."""
    return {"What training costs: the median processor time of a step, and counted memory": cost_table(runs)}


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """The time of a step by kind of weights and space; bars extend over the interval over steps."""
    bars: list[Row] = []
    for space, found in runs.items():
        for kind in (kind for kind in settings["weights"] if kind != "base"):
            extra = extra_seconds(found, kind)
            bars.append({"x": kind, "series": space, "mean": extra.value, "low": extra.low, "high": extra.high})
    return {"step_costs": grouped_bars(bars, "", "more time per step, %", series="space")}


_SPACES = ["all", "no zero", "only conv"]
_PAPER: Settings = {"spaces": _SPACES, "weights": all_kinds(125), "run": PAPER_CELLS}

INTERCHOICE_COSTS = Experiment(
    name="interchoice_costs",
    document=INTERCHOICE_WEIGHTS,
    claim="Time and memory of training with inter-choice weights, with the paper's own networks and batches (table 1).",
    presets={
        "quick": {
            "spaces": ["only conv"], "weights": all_kinds(1),
            "run": short_recipe(size=8, cells=1, epochs=2, limit=200, adapting=2),
        },
        "cpu": _PAPER,
        "paper": _PAPER,
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
    partial=True,
)  # fmt: skip
