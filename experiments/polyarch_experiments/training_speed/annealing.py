"""Fast annealing: is the advantage of SoTL over validation accuracy smaller in a short schedule? (figure 4.4)

The same cells are trained alone twice, with cosine annealing over many epochs and over few. After as many epochs as the
short schedule has, both have seen equally many batches, but only one has annealed its learning rate. The truth is the
test accuracy at the end of the long schedule. The curves are those of NATS-Bench (200 and 12 epochs), or of cells that
are trained here, by what ``polyarch truth build`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from polyarch.plugins import SUPERNET_METHOD
from polyarch.randomness import derive_seed
from polyarch.ranking.bootstrap import Interval, bootstrap
from polyarch.runs.display import Quiet
from polyarch.runs.settings import RunSettings
from polyarch.runs.start import Beginning
from polyarch.tables import CurveTable
from polyarch.training import StopRequest
from polyarch.truths.building import build_truth, resume_build, start_build
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Row, Spec, lines, side_by_side
from polyarch_experiments.papers import TRAINING_SPEED
from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed.curve_sets import CurveSet, Values, curves_of, load_curves
from polyarch_experiments.verdict import claim, finding

SCHEDULES = ("long", "short")
DIGITS = 4
"""Of the values of curves that are kept."""


def items(settings: Settings) -> dict[str, str]:
    """Both schedules."""
    return {schedule: schedule for schedule in SCHEDULES}


def run(settings: Settings, schedule: str, folder: Path) -> dict[str, Any]:
    """The curves of some cells with one schedule, and their accuracy at its end."""
    epochs = settings[schedule]["epochs"]
    if settings[schedule]["curves"] == "own":
        content = {**settings["run"], "retrain": {**settings["run"]["retrain"], "epochs": epochs}}
        curves = curves_of(own_table(content, folder / schedule), epochs)
    else:
        curves = load_curves(settings[schedule]["curves"], epochs)
    return {"cells": _kept(curves, settings["cells"])}


def own_table(content: Mapping[str, Any], folder: Path) -> CurveTable:
    """What ``polyarch truth build`` with these settings writes into a folder, which may have a part of it."""
    beginning = Beginning(folder, Quiet(), StopRequest())
    if (folder / "config.toml").exists():
        return build_truth(resume_build(beginning, None, {}, "the experiment")).table
    settings = RunSettings.parse({"method": SUPERNET_METHOD, "workers": 1, **content}, "the experiment")
    return build_truth(start_build(beginning, settings)).table


def _kept(curves: CurveSet, count: int) -> dict[str, dict[str, Any]]:
    """Random cells by key; the same ones of tables that have the same cells."""
    order = sorted(range(len(curves.keys)), key=lambda row: derive_seed(0, "cell", curves.keys[row]))
    return {
        curves.keys[row]: {
            "accuracy": round(float(curves.truth[row]), DIGITS),
            "losses": np.round(curves.losses[row], DIGITS).tolist(),
            "valid_accuracies": np.round(curves.valid_accuracies[row], DIGITS).tolist(),
        }
        for row in order[:count]
    }


def paired(runs: Mapping[str, Any]) -> tuple[Values, dict[str, dict[str, Values]]]:
    """The truth (n,) of the cells that both schedules have, and the predictions (n, T) by schedule and predictor."""
    long, short = (runs[schedule]["cells"] for schedule in SCHEDULES)
    keys = [key for key in long if key in short]
    truth = np.array([long[key]["accuracy"] for key in keys])
    return truth, {
        schedule: {
            "SoTL": -np.array([cells[key]["losses"] for key in keys]),
            "ValAcc": np.array([cells[key]["valid_accuracies"] for key in keys]),
        }
        for schedule, cells in zip(SCHEDULES, (long, short), strict=True)
    }


def spearman(predictions: Values, truth: Values) -> Values:
    """Of every epoch, (n, T) -> (T,), all at once: Pearson's correlation of ranks; 0 where one side does not vary."""
    ranks, known = (rankdata(values, axis=0) for values in (predictions, truth[:, None]))
    first, second = (values - values.mean(axis=0) for values in (ranks, known))
    scale = np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))
    found: Values = np.divide((first * second).sum(axis=0), scale, out=np.zeros(len(scale)), where=scale > 0)
    return found


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """At the end of the short schedule, as in the thesis, and over all of its epochs; intervals are over cells."""
    truth, predictions = paired(runs)
    end = settings["short"]["epochs"]
    last, along = (_cut(predictions, slice(first, end)) for first in (end - 1, 0))
    lengths = {schedule: settings[schedule]["epochs"] for schedule in SCHEDULES}
    told = "; ".join(
        f"{lengths[schedule]} epochs: "
        + ", ".join(f"{name} {spearman(values, truth)[0]:.3f}" for name, values in both.items())
        for schedule, both in last.items()
    )
    where = f"{len(truth):,} cells, Spearman after {lengths['short']} epochs with the accuracy after {lengths['long']}"
    early = _advantage(last, truth, "long")
    at_end, on_average = (_difference(given, truth) for given in (last, along))
    return [
        claim(
            "From scratch, SoTL ranks cells better than validation accuracy while the learning rate is high: in the "
            "long schedule, after the epochs of the short one.",
            [finding("SoTL minus ValAcc in the long schedule", early, above=0)],
            f"{where}: {told}",
            number=6,
            document="figure 4.4a: by more than 0.15 after 12 of 200 epochs",
        ),
        claim(
            "The advantage of SoTL is smaller under fast annealing: after the same epochs, in the short schedule.",
            [finding("SoTL minus ValAcc, long schedule less short schedule", at_end, above=0)],
            number=6,
            document="figure 4.4b: about 0.01 at the end of 12 epochs, more than 0.15 after 12 of 200",
        ),
        claim(
            "It is smaller on average over the epochs of the short schedule, too.",
            [finding("the same, mean over epochs", on_average, above=0)],
        ),
    ]


def _cut(predictions: Mapping[str, Mapping[str, Values]], epochs: slice) -> dict[str, dict[str, Values]]:
    return {
        schedule: {name: values[:, epochs] for name, values in both.items()} for schedule, both in predictions.items()
    }


def _advantage(predictions: Mapping[str, Mapping[str, Values]], truth: Values, schedule: str) -> Interval:
    """SoTL minus ValAcc with one schedule."""
    return bootstrap(lambda rows: _gap(predictions[schedule], truth, rows), len(truth))


def _difference(predictions: Mapping[str, Mapping[str, Values]], truth: Values) -> Interval:
    """SoTL minus ValAcc with the long schedule, less the same with the short one, on the same cells."""
    return bootstrap(
        lambda rows: _gap(predictions["long"], truth, rows) - _gap(predictions["short"], truth, rows), len(truth)
    )


def _gap(predictions: Mapping[str, Values], truth: Values, rows: NDArray[np.int64]) -> float:
    """Mean over epochs."""
    sotl, accuracy = (spearman(predictions[name][rows], truth[rows]) for name in ("SoTL", "ValAcc"))
    return float((sotl - accuracy).mean())


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Spearman by epoch, schedule and predictor."""
    truth, predictions = paired(runs)
    end = settings["short"]["epochs"]
    rows = [
        [f"{settings[schedule]['epochs']} epochs", name, *(f"{value:.3f}" for value in spearman(values, truth))]
        for schedule, both in _cut(predictions, slice(end)).items()
        for name, values in both.items()
    ]
    caption = f"Spearman with the accuracy at the end of the long schedule, {len(truth):,} cells, by epoch"
    return {caption: Table(["schedule", "", *map(str, range(1, end + 1))], rows)}


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Spearman over the epochs, a panel per schedule."""
    truth, predictions = paired(runs)

    def rows(schedule: str) -> list[Row]:
        return [
            {"x": epoch, "series": name, "mean": value, "low": value, "high": value}
            for name, values in predictions[schedule].items()
            for epoch, value in enumerate(spearman(values, truth).tolist(), start=1)
        ]

    return {
        "annealing": side_by_side(
            *(
                lines(
                    rows(schedule), "epochs", "Spearman", title=f"annealed over {settings[schedule]['epochs']} epochs"
                )
                for schedule in SCHEDULES
            )
        )
    }


_CPU: Settings = {
    "long": {"curves": "own", "epochs": 24},
    "short": {"curves": "own", "epochs": 4},
    "cells": 100,
    "run": {
        "data": {"name": "cifar10", "split": "nb201", "size": 16, "limit": 1500, "shift": 2, "flip": True},
        "space": {"kind": "nb201", "channels": 8, "cells": 1},
        "retrain": {"batch_size": 64, "learning_rate": 0.1, "weight_decay": 5e-4},
        "truth": {"architectures": 100},
    },
}

ANNEALING = Experiment(
    name="annealing",
    document=TRAINING_SPEED,
    claim="The advantage of SoTL over validation accuracy is smaller under fast annealing (figure 4.4).",
    presets={
        "quick": {
            **_CPU, "long": {"curves": "own", "epochs": 4}, "short": {"curves": "own", "epochs": 2}, "cells": 6,
            "run": {
                "data": {"name": "digits"}, "space": {"kind": "nb201", "channels": 4, "cells": 1},
                "retrain": {"batch_size": 64}, "truth": {"architectures": 6},
            },
        },
        "cpu": _CPU,
        "paper": {
            "long": {"curves": "nats:cifar10", "epochs": 200}, "short": {"curves": "nats:cifar10_12", "epochs": 12},
            "cells": 1000,
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
