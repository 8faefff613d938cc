"""NAS-Bench-201: what differentiable searches find, by the true accuracy of the cell they point at, epoch by epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyarch.ranking import RankSamples
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, side_by_side
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import DIFFERENTIABLE_SEARCH
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of, seeded
from polyarch_experiments.training_speed.searched_cells import content_of, courses, ends, growth, search
from polyarch_experiments.verdict import claim, finding, over_seeds, paired

COLLAPSED = 0.5
"""The share of skips above which a search counts as collapsed."""
WORSE = 1.0
"""Points of accuracy that a longer search may lose."""
PREDICTS = -0.5
"""The rank correlation of growth and accuracy below which growth predicts failure."""
REPORTED = {
    "darts": 59.84, "darts-second-order": 65.38, "sotl-darts": 92.66, "sovl-darts": 54.30, "drnas": 93.76,
    "sotl-drnas": 93.76,
}  # fmt: skip
"""True accuracies on CIFAR-10 in table 4.6 of the thesis."""


def items(settings: Settings) -> dict[str, tuple[str, int]]:
    """Every method with its seeds, all first seeds first."""
    return seeded(settings["methods"])


def run(settings: Settings, item: tuple[str, int], folder: Path) -> dict[str, Any]:
    """One search."""
    method, seed = item
    content = content_of(settings["run"], method, settings["own"].get(method, {}))
    return search(content, seed, folder / "searches" / f"{method}-{seed}")


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claims 9, 10, 11 and 14 of the thesis."""
    return [
        _collapse(
            settings, runs, "DARTS collapses to skips.", "darts", 9,
            "DARTS ends with all skips, 54.30 % in the worst case, 59.84 % on average", above=COLLAPSED,
        ),
        _collapse(
            settings, runs, "SoTL-DARTS does not collapse to skips.", "sotl-darts", 9, "92.66 %", below=COLLAPSED
        ),
        _better_cell(settings, runs),
        _collapse(
            settings, runs, "The sum of validation losses collapses to skips, too.", "sovl-darts", 10,
            "54.30 %, all skips", above=COLLAPSED,
        ),
        _longer(settings, runs),
        _eigenvalue(settings, runs),
    ]  # fmt: skip


def _told(settings: Settings, runs: dict[str, Any], method: str) -> str:
    searches = runs_of(runs, settings["methods"], method)
    skips, accuracy = ends(searches, "skips"), ends(searches, "true_accuracy")
    return f"{method}: {spread(skips, 1)} of 6 skips, {spread(accuracy, 2)} %"


def _collapse(
    settings: Settings, runs: dict[str, Any], text: str, method: str, number: int, document: str, **bounds: float
) -> Claim:
    shares = ends(runs_of(runs, settings["methods"], method), "skip_share")
    return claim(
        text,
        [finding("share of skips", over_seeds(shares), **bounds)],
        _told(settings, runs, method),
        number=number,
        document=document,
        ours=f"a collapse is a share of skips above {COLLAPSED}",
    )


def _better_cell(settings: Settings, runs: dict[str, Any]) -> Claim:
    ours, theirs = (
        ends(runs_of(runs, settings["methods"], method), "true_accuracy") for method in ("sotl-darts", "darts")
    )
    return claim(
        "SoTL-DARTS finds better cells than DARTS.",
        [finding("points of true accuracy ahead", paired(ours, theirs), above=0)],
        number=9,
        document="92.66 % against 59.84 % (table 4.6)",
    )


def _longer(settings: Settings, runs: dict[str, Any]) -> Claim:
    half, end = (
        ends(runs_of(runs, settings["methods"], "sotl-darts"), "true_accuracy", at=share) for share in (0.5, 1.0)
    )
    return claim(
        "SoTL-DARTS does not get worse when it searches longer.",
        [finding("points of accuracy gained in the second half", paired(end, half), above=-WORSE)],
        f"after half of the epochs {spread(half, 2)} %, at the end {spread(end, 2)} %",
        number=11,
        document="the true accuracy stays where it is",
        ours=f"a loss of less than {WORSE:g} point counts as none",
    )


def _eigenvalue(settings: Settings, runs: dict[str, Any]) -> Claim:
    pairs = []
    for method in settings["methods"]:
        for one in runs_of(runs, settings["methods"], method):
            grown = growth(one["rows"])
            if grown is not None:
                pairs.append((grown, one["rows"][-1]["true_accuracy"]))
    text = "Growth of the dominant eigenvalue does not predict failure."
    document = "the eigenvalue grows for searches that succeed and that fail"
    ours = f"a rank correlation of growth and accuracy above {PREDICTS} predicts nothing"
    if len(pairs) < 4:
        return claim(text, [], f"{len(pairs)} runs are too few", number=14, document=document, ours=ours)
    samples = RankSamples([accuracy for _, accuracy in pairs])
    correlation = samples.interval(samples.spearman([grown for grown, _ in pairs]))
    return claim(
        text,
        [finding("rank correlation with the true accuracy", correlation, above=PREDICTS)],
        f"{len(pairs)} runs; growth {min(pairs)[0]:.2f} to {max(pairs)[0]:.2f} times; the interval is over runs",
        number=14,
        document=document,
        ours=ours,
    )


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Table 4.6."""
    rows = []
    for method, seeds in settings["methods"].items():
        searches = runs_of(runs, settings["methods"], method)
        values = [
            spread(ends(searches, name), digits)
            for name, digits in (("true_accuracy", 2), ("skips", 1), ("cell_depth", 1), ("entropy_share", 2))
        ]
        minutes = spread([one["seconds"] / 60 for one in searches], 1)
        rows.append([method, str(seeds), *values, minutes, f"{REPORTED[method]:.2f}" if method in REPORTED else "-"])
    columns = ["method", "seeds", "true accuracy, %", "skips", "depth", "entropy share", "minutes", "thesis, %"]
    return {
        "The cell that q points at after the last epoch, by the NAS-Bench-201 table (CIFAR-10)": Table(columns, rows)
    }


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Figure 4.16 and the skips and eigenvalues along the search."""
    searches = {method: runs_of(runs, settings["methods"], method) for method in settings["methods"]}
    return {
        "true_accuracy": courses(searches, "true_accuracy", "true accuracy of the cell, %"),
        "search_course": side_by_side(
            courses(searches, "skips", "skips of 6"), courses(searches, "eigenvalue", "dominant eigenvalue")
        ),
    }


def _run(
    *, size: int | None, limit: int | None, channels: int, cells: int, epochs: int, every: int, shift: int = 2
) -> Settings:
    return {
        "data": {"name": "cifar10", "split": "nb201", "size": size, "limit": limit, "shift": shift, "flip": True},
        "space": {"kind": "nb201", "channels": channels, "cells": cells},
        "train": {
            "epochs": epochs, "batch_size": 64, "learning_rate": 0.025, "final_learning_rate": 0.001,
            "weight_decay": 5e-4,
        },
        "differentiable": {"eigenvalue_every": every, "guard": "warn"},
        "rank": {"truth": "nb201"},
        "checkpoint_seconds": 120,
    }  # fmt: skip


_STEPS = 10
_Q = {"q_learning_rate": 0.004}
_Q_SUM = {"q_learning_rate": 0.004 * _STEPS, "steps": _STEPS}
_OWN: Settings = {
    **{method: {"differentiable": _Q} for method in ("darts", "darts-second-order", "drnas", "gdas")},
    **{method: {"differentiable": _Q_SUM} for method in ("sotl-darts", "sovl-darts", "sotl-drnas")},
}
_METHODS = ("darts", "sotl-darts", "sovl-darts", "drnas", "sotl-drnas", "gdas", "darts-second-order")
_CPU: Settings = {
    "methods": dict.fromkeys(_METHODS[:-1], 2),
    "run": _run(size=16, limit=2500, channels=8, cells=1, epochs=50, every=5),
    "own": _OWN,
}

CELL_SEARCH = Experiment(
    name="cell_search",
    document=DIFFERENTIABLE_SEARCH,
    claim="Differentiable searches on NAS-Bench-201 by true accuracy (table 4.6, figure 4.16).",
    presets={
        "quick": {
            "methods": {"darts": 1, "sotl-darts": 1, "sovl-darts": 1},
            "run": _run(size=8, limit=130, channels=2, cells=1, epochs=2, every=1),
            "own": {method: {"differentiable": {"steps": 2}} for method in ("sotl-darts", "sovl-darts")},
        },
        "cpu": _CPU,
        "paper": {
            "methods": dict.fromkeys(_METHODS, 3),
            "run": _run(size=None, limit=None, channels=16, cells=5, epochs=50, every=5, shift=4),
            "own": {},
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
