"""What cells are worth that differentiable searches find in NAS-Bench-1shot1 and in the DARTS space, trained alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polyarch.runs.retraining import Retraining, tested
from polyarch.runs.suggestion import merged
from polyarch.tables import parse_architecture
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, side_by_side
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import DIFFERENTIABLE_SEARCH
from polyarch_experiments.ranked_supernets import trial_of
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of, seeded
from polyarch_experiments.training_speed.searched_cells import content_of, courses, ends, search, with_accuracies
from polyarch_experiments.verdict import claim, finding, paired

OTHER = "sotl-darts, T 10"
"""SoTL-DARTS with sums over 10 instead of 100 batches, and batches of 32: "diff. hparams" of table 4.7."""
REPORTED = {
    "1shot1, space 1": {"darts": "93.33", "sotl-darts": "91.86", OTHER: "93.28"},
    "1shot1, space 2": {"darts": "93.37", "sotl-darts": "90.15", OTHER: "93.33"},
    "1shot1, space 3": {"darts": "93.35", "sotl-darts": "87.87", OTHER: "92.87"},
    "DARTS": {
        "darts": "93.89 / 95.13 / 97.00", "darts-second-order": "93.79 / 95.09 / 97.24", "pdarts": "- / - / 97.50",
        "drnas": "93.75 / 95.53 / 97.54", "sotl-darts": "94.11 / 95.36 / 97.18", "sotl-drnas": "94.50 / 95.65 / 97.00",
        "sotl-pdarts": "93.51 / 95.39 / 96.73", "sotl-darts-20": "94.21 / 95.53 / 97.28",
        "darts-20": "93.31 / 94.94 / 97.03",
    },
}  # fmt: skip
"""Accuracies, %: NAS-Bench-101 in table 4.7; NAS-Bench-301 / 8 layers / 20 layers in table 4.8, means where it has them
and those of the best search elsewhere."""

Cells = Sequence[Mapping[str, Any]]
"""Results of one method in one space, one per seed."""


def counts(settings: Settings) -> dict[str, int]:
    """The seeds of every ``SPACE: METHOD``."""
    return {f"{space}: {name}": n for space, methods in settings["methods"].items() for name, n in methods.items()}


def items(settings: Settings) -> dict[str, tuple[str, int]]:
    """Every search with its seeds."""
    return seeded(counts(settings))


def content(settings: Settings, space: str, name: str) -> dict[str, Any]:
    """The description of a search."""
    described = {**settings["run"], "space": settings["spaces"][space]}
    return content_of(described, name, settings["own"].get(name, {}))


def evaluations(settings: Settings, space: str, name: str) -> dict[str, dict[str, Any]]:
    """The descriptions by which the cell of a search is trained alone."""
    found = {}
    for evaluation, size in settings["evaluations"][space].items():
        own = {"retrain": settings["retrain"], **({"space": {"evaluation": size}} if size else {})}
        found[evaluation] = merged(content(settings, space, name), own)
    return found


def run(settings: Settings, item: tuple[str, int], folder: Path) -> dict[str, Any]:
    """One search, its cell's value in the benchmark where that is here, and its accuracy after training it alone."""
    label, seed = item
    space, _, name = label.partition(": ")
    place = folder / "searches" / f"{label}-{seed}".replace(": ", "-").replace(", ", "-").replace(" ", "-")
    found = search(content(settings, space, name), seed, place)
    alone = {}
    for evaluation, described in evaluations(settings, space, name).items():
        trial = trial_of({**described, "seed": seed})
        cell = parse_architecture(found["architectures"][-1], trial.net.space)
        network, _ = Retraining(trial, place / f"alone-{evaluation.replace(' ', '-')}").train((cell, seed))
        alone[evaluation] = round(100 * tested(trial, network)["score"], 3)
    found = with_accuracies(found, settings["benchmarks"][space], trial.net.space)
    return {**found, "benchmark": found["rows"][-1].get("true_accuracy"), "alone": alone}


def found_in(settings: Settings, runs: dict[str, Any], space: str) -> dict[str, Cells]:
    """The results in a space by method, of those that have any."""
    found = {name: runs_of(runs, counts(settings), f"{space}: {name}") for name in settings["methods"][space]}
    return {name: cells for name, cells in found.items() if cells}


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """What the thesis reads off tables 4.7 and 4.8."""
    limit = settings["run"]["data"].get("limit")
    needs = f"all training images and the networks of the thesis, not {limit:,} images" if limit else None
    found: list[Claim] = []
    for space in settings["spaces"]:
        cells = found_in(settings, runs, space)
        for text, better, worse, evaluation, document in _pairs(settings, space):
            if better in cells and worse in cells:
                found.append(_above(text, cells[better], cells[worse], evaluation, document, needs))
    return found


def _accuracies(cells: Cells, evaluation: str) -> list[float]:
    return [one["alone"][evaluation] for one in cells]


def _above(text: str, better: Cells, worse: Cells, evaluation: str, document: str, needs: str | None) -> Claim:
    """Whether one method finds better cells than another, by the seeds that both have."""
    shared = min(len(better), len(worse))
    first, second = (_accuracies(side[:shared], evaluation) for side in (better, worse))
    ahead = finding("points ahead", paired(first, second), above=0)
    numbers = f"{spread(first, 2)} % against {spread(second, 2)} % ({evaluation})"
    return claim(text, [ahead], numbers, document=document, needs=needs)


def _pairs(settings: Settings, space: str) -> list[tuple[str, str, str, str, str]]:
    """Claims on a space: the text, the better and the worse method, the evaluation, and what the thesis reports."""
    if space != "DARTS":
        reported = REPORTED[space]
        return [
            (f"In {space}, SoTL-DARTS finds worse cells than DARTS.", "darts", "sotl-darts", "training alone",
             f"table 4.7: {reported['darts']} % and {reported['sotl-darts']} %"),
            (f"In {space}, sums over fewer and smaller batches mend SoTL-DARTS.", OTHER, "sotl-darts", "training alone",
             f"table 4.7: {reported[OTHER]} % and {reported['sotl-darts']} %"),
        ]  # fmt: skip
    shallow, deep = settings["evaluations"]["DARTS"]
    return [
        (f"{text}, by networks of {evaluation}.", better, worse, evaluation, f"table 4.8: {document}")
        for text, better, worse, evaluation, document in (
            ("SoTL-DARTS finds better cells than DARTS", "sotl-darts", "darts", shallow,
             "95.36 and 95.13 % with 8 layers"),
            ("SoTL-DARTS finds better cells if it searches in the deeper network", "sotl-darts-20", "sotl-darts", deep,
             "97.28 and 97.18 % with 20 layers"),
            ("DARTS finds better cells if it searches in the deeper network", "darts-20", "darts", deep,
             "97.11 and 97.00 % with 20 layers, the best of each"),
            ("Stages that get deeper do not mend SoTL-DARTS", "sotl-darts", "sotl-pdarts", deep,
             "97.18 and 96.73 % with 20 layers"),
        )
    ]  # fmt: skip


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Tables 4.7 and 4.8."""
    found = {}
    for space in settings["spaces"]:
        rows = []
        for name, cells in found_in(settings, runs, space).items():
            known = [one["benchmark"] for one in cells if one["benchmark"] is not None]
            alone = [spread(_accuracies(cells, evaluation), 2) for evaluation in settings["evaluations"][space]]
            depth = "cell_depth" if "cell_depth" in cells[0]["rows"][-1] else "cell_depth_normal"
            shape = [spread(ends(cells, value), 1) for value in ("skips", depth)]
            benchmark = spread(known, 2) if known else "not here"
            rows.append([name, str(len(cells)), benchmark, *alone, *shape, REPORTED[space].get(name, "-")])
        columns = ["method", "seeds", settings["benchmarks"][space], *settings["evaluations"][space]]
        if rows:
            caption = f"{space}: test accuracies, %, of the cells that are found; skips and depth of the (normal) cell"
            found[caption] = Table([*columns, "skips", "depth", "thesis, %"], rows)
    return found


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Along the search: skips and depths in the DARTS space (figures 4.12 and 4.13), depths in the first 1shot1 space,
    eigenvalues (4.16) and, where the benchmarks are here, true accuracies in both (4.10 and 4.14)."""
    first = next(iter(settings["spaces"]))
    cells, nodes = (found_in(settings, runs, space) for space in ("DARTS", first))
    drawn = {
        "evaluated_searches": side_by_side(
            courses(cells, "skips", "skips, DARTS"),
            courses(nodes, "cell_depth", f"depth of the cell, {first}"),
            courses(cells, "cell_depth_normal", "depth of the normal cell, DARTS"),
            courses(cells, "cell_depth_reduce", "depth of the reduction cell, DARTS"),
        )
    }
    if settings["run"]["differentiable"]["eigenvalue_every"]:
        drawn["evaluated_eigenvalues"] = side_by_side(
            courses(cells, "eigenvalue", "dominant eigenvalue, DARTS"),
            courses(nodes, "eigenvalue", f"dominant eigenvalue, {first}"),
        )
    if any("true_accuracy" in row for run in runs.values() for row in run["rows"]):
        drawn["evaluated_accuracies"] = side_by_side(
            courses(cells, "true_accuracy", "accuracy in NAS-Bench-301, %, DARTS"),
            courses(nodes, "true_accuracy", f"accuracy in NAS-Bench-101, %, {first}"),
        )
    return drawn


_DARTS = (
    "darts", "darts-second-order", "sotl-darts", "drnas", "sotl-drnas", "pdarts", "sotl-pdarts", "darts-20",
    "sotl-darts-20",
)  # fmt: skip
_SUMS = ("sotl-darts", "sotl-darts-20")
_NODES = ("darts", "sotl-darts", OTHER)
_STAGES: Settings = {"train": {"epochs": 75}, "differentiable": {"warmup_epochs": 10}}
_DIFFERENT: Settings = {"train": {"batch_size": 32}, "differentiable": {"steps": 10}}


def _preset(
    *,
    size: int | None,
    limit: int | None,
    epochs: int,
    channels: int,
    layers: int,
    sizes: Mapping[str, Settings],
    nodes: Sequence[int],
    cells: int,
    methods: tuple[Sequence[str], Sequence[str]],
    seeds: int,
    retrain: Settings,
    own: Settings,
    depth: int | None = None,
    shift: int = 2,
    every: int = 0,
) -> Settings:
    """One preset.

    Args:
        methods: those in 1shot1 spaces and those in the DARTS space.
        sizes: the evaluations of the DARTS space.
        every: epochs after which the eigenvalue is measured; never if 0.
        depth: in place of the 20 layers of methods that search in the deeper network.
    """
    deeper = {name: {"space": {"layers": depth}} for name in ("darts-20", "sotl-darts-20")} if depth else {}
    spaces: Settings = {
        f"1shot1, space {one}": {"kind": "nb101", "space": one, "channels": channels, "cells": cells} for one in nodes
    }
    return {
        "methods": {
            **{space: dict.fromkeys(methods[0], seeds) for space in spaces},
            "DARTS": dict.fromkeys(methods[1], seeds),
        },
        "spaces": {**spaces, "DARTS": {"kind": "darts", "channels": channels, "layers": layers}},
        "benchmarks": {**{f"1shot1, space {one}": f"nb101:{one}" for one in nodes}, "DARTS": "nb301"},
        "evaluations": {**{space: {"training alone": {}} for space in spaces}, "DARTS": dict(sizes)},
        "run": {
            "data": {"name": "cifar10", "split": "nb201", "size": size, "limit": limit, "shift": shift, "flip": True},
            "train": {
                "epochs": epochs, "batch_size": 64, "learning_rate": 0.025, "final_learning_rate": 0.001,
                "weight_decay": 3e-4,
            },
            "differentiable": {"guard": "warn", "eigenvalue_every": every},
            "checkpoint_seconds": 120,
        },
        "retrain": retrain,
        "own": merged(own, deeper),
    }  # fmt: skip


_RECIPE: Settings = {"learning_rate": 0.025, "weight_decay": 3e-4, "clip": 5.0}
"""Of DARTS' evaluation, for cells of 1shot1 as well."""

CELL_EVALUATION = Experiment(
    name="cell_evaluation",
    document=DIFFERENTIABLE_SEARCH,
    claim="Cells of searches in NAS-Bench-1shot1 and in the DARTS space, trained alone in a network of the search's "
    "depth and in a deeper one with drop-path and an auxiliary classifier (tables 4.7 and 4.8).",
    presets={
        "quick": _preset(
            size=8, limit=130, epochs=1, channels=2, layers=3, nodes=[1], cells=1, seeds=1,
            sizes={"3 layers": {"layers": 3, "channels": 2}, "4 layers": {"layers": 4, "channels": 2}},
            methods=(("darts", "sotl-darts"), ("sotl-darts", "sotl-darts-20")),
            retrain={**_RECIPE, "epochs": 1, "batch_size": 64, "cutout": 4},
            own={name: {"differentiable": {"steps": 2}} for name in _SUMS},
            depth=4,
        ),
        "cpu": _preset(
            size=16, limit=1000, epochs=16, channels=4, layers=5, nodes=[1], cells=1, seeds=1,
            sizes={"5 layers": {"layers": 5, "channels": 6}, "11 layers": {"layers": 11, "channels": 6}},
            methods=(_NODES, ("darts", "sotl-darts", "darts-20", "sotl-darts-20")),
            retrain={**_RECIPE, "epochs": 30, "batch_size": 64, "cutout": 8},
            own={
                **{name: {"differentiable": {"q_learning_rate": 0.03}} for name in ("darts", "darts-20")},
                **{name: {"differentiable": {"q_learning_rate": 0.15, "steps": 5}} for name in _SUMS},
                OTHER: {"train": {"batch_size": 32}, "differentiable": {"q_learning_rate": 0.06, "steps": 2}},
            },
            depth=11,
        ),
        "paper": _preset(
            size=None, limit=None, epochs=50, channels=16, layers=8, nodes=[1, 2, 3], cells=3, seeds=3, shift=4,
            every=5,
            sizes={"8 layers": {"layers": 8, "channels": 36}, "20 layers": {"layers": 20, "channels": 36}},
            methods=(_NODES, _DARTS),
            retrain={**_RECIPE, "epochs": 600, "batch_size": 96, "cutout": 16},
            own={OTHER: _DIFFERENT, "pdarts": _STAGES, "sotl-pdarts": _STAGES},
        ),
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
