"""What cells differentiable searches like: skips in the space S2, and depth there and in NAS-Bench-1shot1."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyarch.spaces import NB101_OPERATIONS, S2_OPERATIONS, cell_depths, nb101_space
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, side_by_side
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import DIFFERENTIABLE_SEARCH
from polyarch_experiments.ranked_supernets import trial_of
from polyarch_experiments.results import Claim, Finding
from polyarch_experiments.seeds import runs_of, seeded
from polyarch_experiments.training_speed.searched_cells import content_of, courses, ends, search, with_accuracies
from polyarch_experiments.verdict import claim, finding, over_seeds, paired

METHODS = ("darts", "sotl-darts")
EDGES = 16
"""Operations of both cells of S2."""

CONVOLUTION = NB101_OPERATIONS[1]
"""The 3x3 convolution of NAS-Bench-1shot1, which both methods are said to choose for most nodes."""
FEW = 1.5
"""Skips below which a search has none or one."""
LEAST_LAYERS = 8
"""Of the networks in which the thesis searches: a shallower one has less use for skips."""

Searches = Mapping[str, Sequence[Mapping[str, Any]]]
"""Method -> its searches in one space, one per seed."""
Judged = Callable[[], tuple[list[Finding], str]]
"""What was found, and further numbers."""


def counts(settings: Settings) -> dict[str, int]:
    """The seeds of every ``SPACE METHOD``."""
    return {f"{space} {method}": settings["seeds"][space] for space in settings["spaces"] for method in METHODS}


def items(settings: Settings) -> dict[str, tuple[str, int]]:
    """Every space with both methods and its seeds."""
    return seeded(counts(settings))


def run(settings: Settings, item: tuple[str, int], folder: Path) -> dict[str, Any]:
    """One search."""
    name, seed = item
    space, _, method = name.rpartition(" ")
    content = content_of(
        {**settings["run"], "space": settings["spaces"][space]}, method, settings["own"].get(method, {})
    )
    found = with_convolutions(search(content, seed, folder / "searches" / f"{space}-{method}-{seed}"))
    its = content["space"]
    benchmark = "nb301" if its["kind"] == "darts" else f"nb101:{its['space']}"
    return with_accuracies(found, benchmark, trial_of(content).net.space)


def with_convolutions(found: dict[str, Any]) -> dict[str, Any]:
    """The same search with the number of 3x3 convolutions among the nodes of its cell, epoch by epoch."""
    for row, key in zip(found["rows"], found["architectures"], strict=True):
        row["convolutions"] = key.split("|").count(CONVOLUTION)
    return found


def searches_of(settings: Settings, runs: dict[str, Any], space: str) -> dict[str, list[dict[str, Any]]]:
    """The searches in a space, by method."""
    return {method: runs_of(runs, counts(settings), f"{space} {method}") for method in METHODS}


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claims 12 and 13 of the thesis, undecided where searches are missing or no test of them."""
    short, long, nodes = (searches_of(settings, runs, space) for space in settings["spaces"])
    shorter, longer = (space["layers"] for space in list(settings["spaces"].values())[:2])
    return [
        _many_skips(short, shorter),
        _few_skips(short, shorter),
        _more_skips(short, long, (shorter, longer)),
        _deeper(short, shorter),
        _too_deep(nodes, _mean_depth(settings), list(settings["spaces"].values())[2]["space"]),
    ]


def _claim(
    number: int,
    text: str,
    document: str,
    searches: Sequence[Searches],
    judged: Judged,
    *,
    ours: str | None = None,
    needs: str | None = None,
) -> Claim:
    """A claim on searches: what ``judged`` finds in them if they are there."""
    there = all(found for one in searches for found in one.values())
    findings, numbers = judged() if there else ([], "not measured yet")
    return claim(text, findings, numbers, number=number, document=document, ours=ours, needs=needs)


def _deep_enough(layers: int) -> str | None:
    """What a fair test would take where the network is too shallow."""
    return None if layers >= LEAST_LAYERS else f"networks of {LEAST_LAYERS} layers or more, as preset long has them"


def _told(searches: Searches, name: str, suffix: str = "") -> str:
    return ", ".join(f"{method} {spread(ends(searches[method], name), 1)}{suffix}" for method in METHODS)


def _more(name: str, more: Sequence[float], less: Sequence[float]) -> Finding:
    """A difference of counts that is expected to be positive, with the seeds that both sides have."""
    shared = min(len(more), len(less))
    return finding(name, paired(more[:shared], less[:shared], step=1), above=0)


def _many_skips(short: Searches, layers: int) -> Claim:
    return _claim(
        12,
        f"In S2 DARTS takes many skips with {layers} layers.",
        "11 of 16 with DARTS at 8 layers (figure 4.15)",
        [short],
        lambda: (
            [finding(f"skips of {EDGES}", over_seeds(ends(short["darts"], "skips"), step=1), above=EDGES / 2)],
            "",
        ),
        ours="many are more than half",
        needs=_deep_enough(layers),
    )


def _few_skips(short: Searches, layers: int) -> Claim:
    return _claim(
        12,
        f"In S2 SoTL-DARTS takes no skip with {layers} layers.",
        "none with SoTL-DARTS at 8 layers, at all times",
        [short],
        lambda: ([finding(f"skips of {EDGES}", over_seeds(ends(short["sotl-darts"], "skips"), step=1), below=FEW)], ""),
        ours=f"a mean below {FEW} counts as none",
        needs=_deep_enough(layers),
    )


def _more_skips(short: Searches, long: Searches, layers: tuple[int, int]) -> Claim:
    def judged() -> tuple[list[Finding], str]:
        told = (f"{n} layers: {_told(one, 'skips')}" for n, one in zip(layers, (short, long), strict=True))
        more = [_more(f"more with {m}", ends(long[m], "skips"), ends(short[m], "skips")) for m in METHODS]
        return more, f"{'; '.join(told)} (of {EDGES})"

    return _claim(
        12,
        f"In S2 both methods take more skips with {layers[1]} layers than with {layers[0]}.",
        "up to 15 of 16 with DARTS at 20 layers, a moderate number with SoTL-DARTS (figure 4.12)",
        [short, long],
        judged,
        needs=_deep_enough(layers[0]),
    )


def _deeper(short: Searches, layers: int) -> Claim:
    def judged() -> tuple[list[Finding], str]:
        theirs, ours = (ends(short[method], "cell_depth_normal") for method in METHODS)
        return [_more("deeper by", ours, theirs)], _told(short, "cell_depth_normal")

    return _claim(
        13,
        "SoTL-DARTS finds deeper normal cells than DARTS in S2.",
        "SoTL cells are deeper (figure 4.13, in the whole DARTS space)",
        [short],
        judged,
        needs=_deep_enough(layers),
    )


def _too_deep(nodes: Searches, usual: float, number: int) -> Claim:
    def judged() -> tuple[list[Finding], str]:
        theirs, ours = (ends(nodes[method], "cell_depth") for method in METHODS)
        found = [_more("deeper by", ours, theirs), finding("depth", over_seeds(ours, step=1), above=usual)]
        return found, f"{_told(nodes, 'cell_depth')}, mean of all cells {usual:.1f}"

    return _claim(
        13,
        "In NAS-Bench-1shot1 SoTL-DARTS finds cells that are deeper than those of DARTS and than the mean.",
        "too deep on 1shot1, where DARTS chooses shallow cells (figure 4.14)",
        [nodes],
        judged,
        ours="deep is deeper than the mean of all cells",
        needs=None if number == 3 else f"space 3 of NAS-Bench-1shot1, where the thesis has it, not {number}",
    )


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
            if found:
                values = [spread(ends(found, "skips"), 1), _depths(found), _minutes(found)]
                rows.append([space, method, str(len(found)), *values])
    columns = ["space", "method", "seeds", "skips", "depth", "minutes"]
    return {"Cells at the end of the search": Table(columns, rows)} if rows else {}


def _depths(found: Sequence[dict[str, Any]]) -> str:
    names = [name for name in found[0]["rows"][-1] if name.startswith("cell_depth")]
    return ", ".join(
        f"{name.removeprefix('cell_depth').strip('_') or 'cell'} {spread(ends(found, name), 1)}" for name in names
    )


def _minutes(found: Sequence[dict[str, Any]]) -> str:
    return spread([one["seconds"] / 60 for one in found], 1)


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Along the search: skips (figures 4.12, 4.15), depths and operations (4.13, 4.14), eigenvalues (4.15, 4.16), and
    true accuracies where the benchmarks are here (4.12, 4.14 and 4.15)."""
    found = {space: searches_of(settings, runs, space) for space in settings["spaces"]}
    if not runs:
        return {}
    short, long, nodes = found
    drawn = {
        "skips": side_by_side(*(courses(found[one], "skips", f"skips, {one}") for one in (short, long))),
        "depths": side_by_side(
            courses(found[short], "cell_depth_normal", f"depth of the normal cell, {short}"),
            courses(found[nodes], "cell_depth", f"depth of the cell, {nodes}"),
            courses(found[nodes], "convolutions", f"3x3 convolutions, {nodes}"),
        ),
    }
    if settings["run"]["differentiable"]["eigenvalue_every"]:
        drawn["shape_eigenvalues"] = side_by_side(
            *(courses(found[one], "eigenvalue", f"dominant eigenvalue, {one}") for one in (short, nodes))
        )
    if any("true_accuracy" in row for run in runs.values() for row in run["rows"]):
        drawn["shape_accuracies"] = side_by_side(
            *(courses(searches, "true_accuracy", f"true accuracy, %, {one}") for one, searches in found.items())
        )
    return drawn


def _spaces(*, layers: tuple[int, int], channels: int, cells: int, nodes: int = 1) -> Settings:
    """S2 in a shorter and a longer network, and the space of NAS-Bench-1shot1 with the number ``nodes``."""
    s2 = {"kind": "darts", "operations": list(S2_OPERATIONS), "channels": channels}
    return {
        f"S2, {layers[0]} layers": {**s2, "layers": layers[0]},
        f"S2, {layers[1]} layers": {**s2, "layers": layers[1]},
        f"1shot1, space {nodes}": {"kind": "nb101", "space": nodes, "channels": channels, "cells": cells},
    }


def _run(*, size: int | None, limit: int | None, epochs: int, shift: int = 2, every: int = 0) -> Settings:
    return {
        "data": {"name": "cifar10", "split": "nb201", "size": size, "limit": limit, "shift": shift, "flip": True},
        "train": {
            "epochs": epochs, "batch_size": 64, "learning_rate": 0.025, "final_learning_rate": 0.001,
            "weight_decay": 3e-4,
        },
        "differentiable": {"guard": "warn", "eigenvalue_every": every},
        "checkpoint_seconds": 120,
    }  # fmt: skip


def _rates(rate: float, steps: int) -> Settings:
    """T and rates of q with which it can move as far as in DARTS' own schedule, whose steps are many and small."""
    return {
        "darts": {"differentiable": {"q_learning_rate": rate}},
        "sotl-darts": {"differentiable": {"q_learning_rate": rate * steps, "steps": steps}},
    }


def _preset(seeds: tuple[int, int, int], spaces: Settings, run: Settings, own: Settings) -> Settings:
    return {"seeds": dict(zip(spaces, seeds, strict=True)), "spaces": spaces, "run": run, "own": own}


CELL_SHAPE = Experiment(
    name="cell_shape",
    document=DIFFERENTIABLE_SEARCH,
    claim="Skips in S2 and depths of cells (figures 4.12 to 4.15).",
    presets={
        "quick": _preset(
            (1, 1, 1), _spaces(layers=(3, 4), channels=2, cells=1), _run(size=8, limit=130, epochs=1),
            {"sotl-darts": {"differentiable": {"steps": 2}}},
        ),
        "cpu": _preset(
            (2, 2, 2), _spaces(layers=(4, 6), channels=4, cells=1), _run(size=16, limit=1000, epochs=16),
            _rates(0.03, steps=5),
        ),
        "long": _preset(
            (3, 1, 3), _spaces(layers=(8, 20), channels=4, cells=1, nodes=3),
            _run(size=16, limit=2500, epochs=50, every=5), _rates(0.004, steps=10),
        ),
        "paper": _preset(
            (3, 3, 3), _spaces(layers=(8, 20), channels=16, cells=3, nodes=3),
            _run(size=None, limit=None, epochs=50, shift=4, every=5), {},
        ),
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
    partial=True,
)  # fmt: skip
