"""What cells differentiable searches like: skips in the space S2, and depth there and in NAS-Bench-1shot1."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyarch.spaces import S2_OPERATIONS, cell_depths, nb101_space
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, side_by_side
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import DIFFERENTIABLE_SEARCH
from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed.searched_cells import content_of, courses, ends, search
from polyarch_experiments.verdict import claim, finding, over_seeds, paired

METHODS = ("darts", "sotl-darts")
EDGES = 16
"""Operations of both cells of S2."""
FEW = 1.5
"""Skips below which a search has none or one."""


def items(settings: Settings) -> dict[str, tuple[str, str, int]]:
    """Every space with both methods, all first seeds first."""
    return {
        f"{space} {method} seed {seed}": (space, method, seed)
        for seed in range(settings["seeds"])
        for space in settings["spaces"]
        for method in METHODS
    }


def run(settings: Settings, item: tuple[str, str, int], folder: Path) -> dict[str, Any]:
    """One search."""
    space, method, seed = item
    content = content_of(
        {**settings["run"], "space": settings["spaces"][space]}, method, settings["own"].get(method, {})
    )
    return search(content, seed, folder / "searches" / f"{space}-{method}-{seed}")


def searches_of(settings: Settings, runs: dict[str, Any], space: str) -> dict[str, list[dict[str, Any]]]:
    """The searches in a space, by method."""
    return {method: [runs[f"{space} {method} seed {seed}"] for seed in range(settings["seeds"])] for method in METHODS}


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claims 12 and 13 of the thesis."""
    short, long, nodes = (searches_of(settings, runs, space) for space in settings["spaces"])
    skips = {name: {m: ends(side[m], "skips") for m in METHODS} for name, side in (("short", short), ("long", long))}
    depths = {m: ends(short[m], "cell_depth_normal") for m in METHODS}
    on_nodes = {m: ends(nodes[m], "cell_depth") for m in METHODS}
    usual, number = _mean_depth(settings), list(settings["spaces"].values())[2]["space"]
    layers = [space["layers"] for space in list(settings["spaces"].values())[:2]]
    return [
        claim(
            "In S2 DARTS takes many skips.",
            [finding(f"of {EDGES} at {layers[0]} layers", over_seeds(skips["short"]["darts"]), above=EDGES / 2)],
            f"at {layers[1]} layers {spread(skips['long']['darts'], 1)}",
            number=12,
            document="up to 12 of 16",
            ours="many are more than half",
        ),
        claim(
            "In S2 SoTL-DARTS takes no skip in the shorter network.",
            [finding(f"of {EDGES} at {layers[0]} layers", over_seeds(skips["short"]["sotl-darts"]), below=FEW)],
            number=12,
            document="none at 8 layers",
            ours=f"a mean below {FEW} counts as none",
        ),
        claim(
            "In S2 SoTL-DARTS takes more skips in the longer network.",
            [finding("more skips", paired(*(skips[side]["sotl-darts"] for side in ("long", "short"))), above=0)],
            f"{layers[0]} layers {spread(skips['short']['sotl-darts'], 1)}, {layers[1]} layers "
            f"{spread(skips['long']['sotl-darts'], 1)}",
            number=12,
            document="none at 8 layers, some at 20",
        ),
        claim(
            "SoTL-DARTS finds deeper cells than DARTS in S2.",
            [finding("normal cell, deeper by", paired(depths["sotl-darts"], depths["darts"]), above=0)],
            ", ".join(f"{m} {spread(depths[m], 1)}" for m in METHODS),
            number=13,
            document="SoTL cells are deeper (figure 4.13)",
        ),
        claim(
            "SoTL-DARTS finds cells in NAS-Bench-1shot1 that are deeper than the mean.",
            [finding("depth", over_seeds(on_nodes["sotl-darts"]), above=usual)],
            f"mean of all cells {usual:.1f}; darts {spread(on_nodes['darts'], 1)}",
            number=13,
            document="too deep on 1shot1: SoTL-DARTS has the maximum depth, DARTS the minimum (figure 4.14)",
            ours="deep is deeper than the mean of all cells",
            needs=None if number == 3 else f"space 3 of NAS-Bench-1shot1, where the thesis has it, not {number}",
        ),
    ]


def _mean_depth(settings: Settings) -> float:
    """Of all cells of the 1shot1 space."""
    space = nb101_space(list(settings["spaces"].values())[2]["space"])
    wirings: dict[tuple[int, ...], int] = {}
    positions = [index for index, choice in enumerate(space.choices) if choice.kind == "wiring"]
    for architecture in space.enumerate():
        key = tuple(architecture.indices[position] for position in positions)
        if key not in wirings:
            wirings[key] = cell_depths(architecture)["cell"]
    return statistics.fmean(wirings.values())


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Skips and depths of the cells at the end."""
    rows = []
    for space in settings["spaces"]:
        for method, found in searches_of(settings, runs, space).items():
            rows.append([space, method, spread(ends(found, "skips"), 1), _depths(found), _minutes(found)])
    return {"Cells at the end of the search": Table(["space", "method", "skips", "depth", "minutes"], rows)}


def _depths(found: Sequence[dict[str, Any]]) -> str:
    names = [name for name in found[0]["rows"][-1] if name.startswith("cell_depth")]
    return ", ".join(
        f"{name.removeprefix('cell_depth').strip('_') or 'cell'} {spread(ends(found, name), 1)}" for name in names
    )


def _minutes(found: Sequence[dict[str, Any]]) -> str:
    return spread([one["seconds"] / 60 for one in found], 1)


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Skips (figures 4.12 and 4.15) and depths (4.13) along the search."""
    short, long, nodes = settings["spaces"]
    return {
        "skips": side_by_side(
            *(courses(searches_of(settings, runs, one), "skips", f"skips, {one}") for one in (short, long))
        ),
        "depths": side_by_side(
            courses(searches_of(settings, runs, short), "cell_depth_normal", f"depth of the normal cell, {short}"),
            courses(searches_of(settings, runs, nodes), "cell_depth", f"depth of the cell, {nodes}"),
        ),
    }


def _spaces(*, layers: tuple[int, int], channels: int, cells: int, nodes: int = 1) -> Settings:
    """S2 in a shorter and a longer network, and the space of NAS-Bench-1shot1 with the number ``nodes``."""
    s2 = {"kind": "darts", "operations": list(S2_OPERATIONS), "channels": channels}
    return {
        f"S2, {layers[0]} layers": {**s2, "layers": layers[0]},
        f"S2, {layers[1]} layers": {**s2, "layers": layers[1]},
        f"1shot1, space {nodes}": {"kind": "nb101", "space": nodes, "channels": channels, "cells": cells},
    }


def _run(*, size: int | None, limit: int | None, epochs: int, shift: int = 2) -> Settings:
    return {
        "data": {"name": "cifar10", "split": "nb201", "size": size, "limit": limit, "shift": shift, "flip": True},
        "train": {
            "epochs": epochs, "batch_size": 64, "learning_rate": 0.025, "final_learning_rate": 0.001,
            "weight_decay": 3e-4,
        },
        "differentiable": {"guard": "warn"},
        "checkpoint_seconds": 120,
    }  # fmt: skip


_STEPS = 5
_OWN: Settings = {
    "darts": {"differentiable": {"q_learning_rate": 0.03}},
    "sotl-darts": {"differentiable": {"q_learning_rate": 0.03 * _STEPS, "steps": _STEPS}},
}

CELL_SHAPE = Experiment(
    name="cell_shape",
    document=DIFFERENTIABLE_SEARCH,
    claim="Skips in S2 and depths of cells (figures 4.12, 4.13 and 4.15).",
    presets={
        "quick": {
            "seeds": 1, "spaces": _spaces(layers=(3, 4), channels=2, cells=1),
            "run": _run(size=8, limit=130, epochs=1), "own": {"sotl-darts": {"differentiable": {"steps": 2}}},
        },
        "cpu": {
            "seeds": 2, "spaces": _spaces(layers=(4, 6), channels=4, cells=1),
            "run": _run(size=16, limit=1000, epochs=16), "own": _OWN,
        },
        "paper": {
            "seeds": 3, "spaces": _spaces(layers=(8, 20), channels=16, cells=3, nodes=3),
            "run": _run(size=None, limit=None, epochs=50, shift=4), "own": {},
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
