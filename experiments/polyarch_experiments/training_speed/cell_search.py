"""NAS-Bench-201: what differentiable searches find, by the true accuracy of the cell they point at, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyarch.ranking import RankSamples
from polyarch.runs.suggestion import merged
from polyarch.spaces import nb201_space
from polyarch.tables import NASBench201, parse_architecture
from polyarch_experiments.distinct_cells import OTHER_DATA, TRUTHS, truth_on
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, side_by_side
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import DIFFERENTIABLE_SEARCH
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of, seeded
from polyarch_experiments.training_speed.searched_cells import content_of, courses, growth, method_of, search, values_at
from polyarch_experiments.verdict import claim, finding, over_seeds, paired

EDGES = 6
"""Of a cell of NAS-Bench-201."""
COLLAPSED = 0.5
"""The share of skips above which a search counts as collapsed."""
WORSE = 1.0
"""Points of accuracy that a longer search may lose."""
PREDICTS = -0.5
"""The rank correlation of growth and accuracy below which growth predicts failure."""
JUDGED = {"cifar10": "true_accuracy", "cifar100": "true_cifar100", "imagenet16": "true_imagenet16"}
"""What is kept of every epoch, by data set; claims are judged by the accuracies on the data of the search."""
COLUMNS = {JUDGED[data]: column for data, (column, _) in TRUTHS.items()}
"""The same -> the column of the NAS-Bench-201 table."""
REPORTED = {
    "darts": "59.84 / 61.26 / 37.88", "darts-second-order": "65.38 / 60.49 / 36.79",
    "sotl-darts": "92.66 / 68.13 / 36.60", "sotl-darts, 150 epochs": "89.89 / 71.03 / 33.75",
    "sovl-darts": "54.30 / 15.61 / 17.37", "drnas": "93.76 / 68.82 / 41.44", "sotl-drnas": "93.76 / 71.11 / 41.44",
    "gdas": "93.23 / 68.17 / 39.40",
}  # fmt: skip
"""True accuracies on CIFAR-10, CIFAR-100 and ImageNet16-120 in table 4.6 of the thesis, which searches on each."""
SHOWN = {**dict.fromkeys(COLUMNS, 2), "skips": 1, "cell_depth": 1, "entropy_share": 2}
"""The values in the table, with their digits."""
LONGER = 150
"""Epochs of the longer search in table 4.6."""


def items(settings: Settings) -> dict[str, tuple[str, int]]:
    """Every search with its seeds."""
    return seeded(settings["methods"])


def run(settings: Settings, item: tuple[str, int], folder: Path) -> dict[str, Any]:
    """One search, with the true accuracies of its cells on three data sets, epoch by epoch."""
    name, seed = item
    content = content_of(settings["run"], name, settings["own"].get(name, {}))
    found = search(content, seed, folder / "searches" / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}")
    table, space = NASBench201.load(), nb201_space()
    for row, key in zip(found["rows"], found["architectures"], strict=True):
        cell = parse_architecture(key, space)
        row |= {kept: round(table.value(cell, column), 3) for kept, column in COLUMNS.items()}
    return found


def readings(settings: Settings, name: str, searches: Sequence[Mapping[str, Any]]) -> list[int]:
    """The epochs after which searches of this name are read: where settings say, or after the last."""
    ends = sorted({len(one["rows"]) for one in searches})
    return settings["readings"].get(name, ends) if searches else []


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claims 9, 10, 11 and 14 of the thesis."""
    return [
        *_collapses(settings, runs),
        claim(
            "SoTL-DARTS finds better cells than DARTS when both search on CIFAR-100 and on ImageNet16-120.",
            [],
            number=9,
            document="68.13 and 36.60 % against 61.26 and 37.88 % (table 4.6)",
            needs=OTHER_DATA,
        ),
        *_validation_collapse(settings, runs),
        *_longer(settings, runs),
        _eigenvalue(settings, runs),
    ]


def truth_of(settings: Settings) -> str:
    """The name of the accuracies that claims are judged by."""
    return JUDGED[truth_on(settings["run"]["data"]["name"])]


def _told(searches: Sequence[Mapping[str, Any]], name: str, epoch: int, truth: str) -> str:
    skips, accuracy = (values_at(searches, value, epoch) for value in ("skips", truth))
    return f"{name}: {spread(skips, 1)} of {EDGES} skips, {spread(accuracy, 2)} %"


def _collapse(
    settings: Settings, searches: Sequence[Mapping[str, Any]], name: str, epoch: int, text: str, number: int,
    document: str, **bounds: float,
) -> Claim:  # fmt: skip
    return claim(
        text,
        [finding("share of skips", over_seeds(values_at(searches, "skip_share", epoch), step=1 / EDGES), **bounds)],
        _told(searches, name, epoch, truth_of(settings)),
        number=number,
        document=document,
        ours=f"a collapse is a share of skips above {COLLAPSED}",
    )


def _collapses(settings: Settings, runs: dict[str, Any]) -> Iterator[Claim]:
    """Three claims for every number of epochs after which both methods are read."""
    searches = {name: runs_of(runs, settings["methods"], name) for name in ("darts", "sotl-darts")}
    epochs = [set(readings(settings, name, found)) for name, found in searches.items()]
    if not all(searches.values()):
        yield claim("DARTS collapses to skips and SoTL-DARTS does not.", [], number=9, document="table 4.6")
    for epoch in sorted(set.intersection(*epochs)):
        yield _collapse(
            settings, searches["darts"], "darts", epoch, f"After {epoch} epochs DARTS has collapsed to skips.", 9,
            "DARTS ends with all skips, 54.30 % in the worst case, 59.84 % on average", above=COLLAPSED,
        )  # fmt: skip
        yield _collapse(
            settings, searches["sotl-darts"], "sotl-darts", epoch,
            f"After {epoch} epochs SoTL-DARTS has not collapsed to skips.", 9, "92.66 %", below=COLLAPSED,
        )  # fmt: skip
        theirs, ours = (values_at(found, truth_of(settings), epoch) for found in searches.values())
        shared = min(len(ours), len(theirs))  # while runs arrive
        yield claim(
            f"After {epoch} epochs SoTL-DARTS has found better cells than DARTS.",
            [finding("points of true accuracy ahead", paired(ours[:shared], theirs[:shared]), above=0)],
            number=9,
            document="92.66 % against 59.84 % (table 4.6)",
        )


def _validation_collapse(settings: Settings, runs: dict[str, Any]) -> Iterator[Claim]:
    searches = runs_of(runs, settings["methods"], "sovl-darts")
    if not searches:
        yield claim(
            "The sum of validation losses collapses to skips, too.", [], number=10, document="54.30 %, all skips"
        )
    for epoch in readings(settings, "sovl-darts", searches):
        yield _collapse(
            settings, searches, "sovl-darts", epoch, "The sum of validation losses collapses to skips, too.", 10,
            "54.30 %, all skips", above=COLLAPSED,
        )  # fmt: skip


def _longer(settings: Settings, runs: dict[str, Any]) -> Iterator[Claim]:
    """One claim for every SoTL-DARTS that is read more than once."""
    for name in settings["methods"]:
        searches = runs_of(runs, settings["methods"], name)
        epochs = readings(settings, name, searches)
        if method_of(name) != "sotl-darts" or not searches or len(epochs) < 2:
            continue
        first, last = epochs[0], epochs[-1]
        before, after = (values_at(searches, truth_of(settings), epoch) for epoch in (first, last))
        yield claim(
            f"SoTL-DARTS does not get worse when it searches longer: after {last} epochs instead of {first} of the "
            "same search.",
            [finding("points of accuracy gained", paired(after, before), above=-WORSE)],
            f"after {first} epochs {spread(before, 2)} %, after {last} {spread(after, 2)} %",
            number=11,
            document="92.66 % after 50 epochs, 89.89 +- 2.52 % after 150, in searches of their own; 'the performance "
            "does not degrade'",
            ours=f"a loss of less than {WORSE:g} point counts as none",
        )


def _eigenvalue(settings: Settings, runs: dict[str, Any]) -> Claim:
    pairs = []
    for method in settings["methods"]:
        for one in runs_of(runs, settings["methods"], method):
            grown = growth(one["rows"])
            if grown is not None:
                pairs.append((grown, one["rows"][-1][truth_of(settings)]))
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
    for name in settings["methods"]:
        searches = runs_of(runs, settings["methods"], name)
        for epoch in readings(settings, name, searches):
            values = [spread(values_at(searches, value, epoch), digits) for value, digits in SHOWN.items()]
            minutes = spread([one["seconds"] / 60 for one in searches], 1)
            method = method_of(name)
            reported = REPORTED.get(f"{method}, {epoch} epochs" if epoch == LONGER else method, "-")
            rows.append([name, str(epoch), str(len(searches)), *values, minutes, reported])
    columns = [
        "method", "epochs", "seeds", "CIFAR-10, %", "CIFAR-100, %", "ImageNet16-120, %", "skips", "depth",
        "entropy share", "minutes", "thesis, %",
    ]  # fmt: skip
    data = TRUTHS[truth_on(settings["run"]["data"]["name"])][1]
    caption = (
        f"Test accuracies in the NAS-Bench-201 table of the cell that q points at. All searches are on {data}, those "
        "of the thesis on each data set. A search that is read twice has one schedule: at its first reading the rate "
        "is still high. Minutes are those of whole searches"
    )
    return {caption: Table(columns, rows)}


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Figure 4.16 and the skips and eigenvalues along the search."""
    searches = {method: runs_of(runs, settings["methods"], method) for method in settings["methods"]}
    return {
        "true_accuracy": courses(searches, truth_of(settings), "true accuracy of the cell, %"),
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
_STAGES: Settings = {"train": {"epochs": 75}, "differentiable": {"warmup_epochs": 10}}
"""Three stages of 25 epochs, in the first 10 of which q is left alone (P-DARTS, Chen et al. 2019)."""
_OWN: Settings = {
    **{method: {"differentiable": _Q} for method in ("darts", "darts-second-order", "drnas", "gdas")},
    **{method: {"differentiable": _Q_SUM} for method in ("sotl-darts", "sovl-darts", "sotl-drnas")},
    "pdarts": merged(_STAGES, {"differentiable": _Q}),
    "sotl-pdarts": merged(_STAGES, {"differentiable": _Q_SUM}),
}
_METHODS = (
    "darts", "sotl-darts", "sovl-darts", "drnas", "sotl-drnas", "gdas", "darts-second-order", "pdarts", "sotl-pdarts",
)  # fmt: skip
_CPU: Settings = {
    "methods": dict.fromkeys(_METHODS[:6], 2),
    "readings": {"sotl-darts": [25, 50]},
    "run": _run(size=16, limit=2500, channels=8, cells=1, epochs=50, every=5),
    "own": {method: _OWN[method] for method in _METHODS[:6]},
}
_LONG: Settings = {
    "methods": {"darts": 5, "sotl-darts": 5, "sovl-darts": 3, **dict.fromkeys(_METHODS[3:], 2)},
    "readings": {"darts": [50, LONGER], "sotl-darts": [50, LONGER]},
    "run": _CPU["run"],
    "own": _OWN | {method: merged(_OWN[method], {"train": {"epochs": LONGER}}) for method in _METHODS[:2]},
}

CELL_SEARCH = Experiment(
    name="cell_search",
    document=DIFFERENTIABLE_SEARCH,
    claim="Differentiable searches on NAS-Bench-201 by true accuracy (table 4.6, figure 4.16).",
    presets={
        "quick": {
            "methods": {"darts": 1, "sotl-darts": 1, "sovl-darts": 1},
            "readings": {"darts": [1, 2], "sotl-darts": [1, 2]},
            "run": _run(size=8, limit=130, channels=2, cells=1, epochs=2, every=1),
            "own": {method: {"differentiable": {"steps": 2}} for method in ("sotl-darts", "sovl-darts")},
        },
        "cpu": _CPU,
        "long": _LONG,
        "paper": {
            "methods": dict.fromkeys((*_METHODS, f"sotl-darts, {LONGER} epochs"), 3),
            "readings": {f"sotl-darts, {LONGER} epochs": [50, LONGER]},
            "run": _run(size=None, limit=None, channels=16, cells=5, epochs=50, every=5, shift=4),
            "own": {
                "pdarts": _STAGES,
                "sotl-pdarts": _STAGES,
                f"sotl-darts, {LONGER} epochs": {"train": {"epochs": LONGER}},
            },
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
    partial=True,
)  # fmt: skip
