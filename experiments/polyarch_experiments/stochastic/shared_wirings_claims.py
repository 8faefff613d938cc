"""What networks with shared weights say: claims, tables and figures of the experiment `shared_wirings`."""

from __future__ import annotations

import statistics
from typing import Any

from polyarch_experiments.experiment import Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, lines, scatter, side_by_side, summary, with_spread
from polyarch_experiments.images import NAMES
from polyarch_experiments.measures import spread
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of

MANY = "500"
"""How many wirings the two kinds of draws are compared with."""
REPORTED_AUC = {"nsa-i 5": 1.00, "nsa-i 50": 0.77, "nsa-i 500": 0.57, "nsa-i 5000": 0.52}
"""Of telling seen from unseen wirings, table 1."""


def counts(settings: Settings) -> dict[str, int]:
    """How many seeds every ``data, method`` has."""
    return {f"{data}, {method}": settings["seeds"] for data in settings["data"] for method in settings["methods"]}


def of(settings: Settings, runs: dict[str, Any], data: str, method: str) -> list[dict[str, Any]]:
    """The runs of one method on one data set, one per seed."""
    return runs_of(runs, counts(settings), f"{data}, {method}")


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claims 1, 2 and 3; a claim holds if it holds on every data set, by means over seeds."""
    return [
        _variance(settings, runs),
        _disparity(settings, runs),
        _order(settings, runs),
        _gain(settings, runs),
        _unseen(settings, runs),
    ]


def _values(settings: Settings, runs: dict[str, Any], data: str, method: str, name: str) -> list[float]:
    return [run[name] for run in of(settings, runs, data, method)]


def _variance(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, held = [], []
    for data in settings["data"]:
        shared, each = (
            [run["mean_variance"][draws] for run in of(settings, runs, data, f"{method} {MANY}")]
            for method, draws in (("nsa", "batch"), ("nsa-i", "example"))
        )
        held.append(statistics.fmean(each) < statistics.fmean(shared))
        parts.append(f"{NAMES[data]}: {spread(shared, 4)} with a wiring per batch, {spread(each, 4)} per example")
    return Claim(
        number=1,
        text="Batch means move less from batch to batch where every example has a wiring of its own.",
        supported=all(held),
        numbers="; ".join(parts) + " (variance of batch means over the variance within batches, mean over layers)",
        document="the covariances of examples that share a wiring stay in var(mean), whatever the batch size",
    )


def gaps(settings: Settings, runs: dict[str, Any], data: str, method: str) -> list[float]:
    """How far accuracy falls from batch to running statistics, in points, mean over wirings, one value per seed."""
    return [
        100 * (statistics.fmean(run["batch"]) - statistics.fmean(run["running"]))
        for run in of(settings, runs, data, method)
    ]


def _disparity(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, held = [], []
    for data in settings["data"]:
        found = {method: gaps(settings, runs, data, f"{method} {MANY}") for method in ("nsa", "nsa-i")}
        held.append(statistics.fmean(map(abs, found["nsa-i"])) < statistics.fmean(map(abs, found["nsa"])))
        parts.append(f"{NAMES[data]}: NSA {spread(found['nsa'], 2)}, NSA-i {spread(found['nsa-i'], 2)} points")
    return Claim(
        number=1,
        text="Accuracy differs less between batch and running statistics with a wiring per example than per batch.",
        supported=all(held),
        numbers="; ".join(parts) + f" (batch minus running, mean over {settings['judged']} wirings)",
        document="NSA is unstable in test, NSA-i is not (figures 2 and 3)",
    )


def _order(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, held = [], []
    for data in settings["data"]:
        found = {
            method: [value or 0.0 for value in _values(settings, runs, data, f"{method} {MANY}", "spearman")]
            for method in ("nsa", "nsa-i")
        }
        held.append(statistics.fmean(found["nsa-i"]) > statistics.fmean(found["nsa"]))
        parts.append(f"{NAMES[data]}: NSA {spread(found['nsa'], 2)}, NSA-i {spread(found['nsa-i'], 2)}")
    return Claim(
        number=1,
        text="The orders of wirings by batch and by running statistics agree more for NSA-i than for NSA (Spearman).",
        supported=all(held),
        numbers="; ".join(parts) + f" ({settings['judged']} wirings)",
        document="0.33 / 0.37 / 0.26 for NSA, 0.59 / 0.40 / 0.62 for NSA-i (S = 500 / 5,000 / 50,000)",
    )


def gain(run: dict[str, Any], size: int) -> float:
    """What an ensemble of this size has over one wiring, in points of accuracy; the mean wiring, not the first."""
    return 100 * (float(run["ensemble"][str(size)]["accuracy"]) - statistics.fmean(run["running"]))


def largest(run: dict[str, Any]) -> int:
    """The size of the largest ensemble that was judged."""
    return max(map(int, run["ensemble"]))


def _gain(settings: Settings, runs: dict[str, Any]) -> Claim:
    own = max(
        (name for name in settings["methods"] if name.startswith("nsa-id")), key=lambda name: int(name.split()[1])
    )
    parts, held = [], []
    for data in settings["data"]:
        sides = [of(settings, runs, data, name) for name in (f"nsa-i {MANY}", own)]
        size = min(largest(side[0]) for side in sides)
        shared, dependent = ([gain(run, size) for run in side] for side in sides)
        held.append(statistics.fmean(dependent) > statistics.fmean(shared))
        parts.append(f"{NAMES[data]}: NSA-i {spread(shared, 2)}, NSA-id {spread(dependent, 2)} points")
    return Claim(
        number=2,
        text="An ensemble of wirings gains more over a single one where wirings have weights of their own.",
        supported=all(held),
        numbers="; ".join(parts)
        + f" ({own} against nsa-i {MANY}; {size} wirings together against the mean of single ones)",
        document="NSA-i gains about 0.3 % and flattens; NSA-id gains more and is flat after about 20",
    )


def _unseen(settings: Settings, runs: dict[str, Any]) -> Claim:
    methods = sorted(
        (name for name in settings["methods"] if name.startswith("nsa-i ")), key=lambda n: int(n.split()[1])
    )
    parts, held = [], []
    for data in settings["data"]:
        found = {name: _values(settings, runs, data, name, "seen_auc") for name in methods}
        means = [statistics.fmean(values) for values in found.values()]
        held.append(means[0] > 0.9 and means[-1] < 0.65)
        told = ", ".join(f"S = {name.split()[1]}: {spread(values, 2)}" for name, values in found.items())
        parts.append(f"{NAMES[data]}: {told}")
    return Claim(
        number=3,
        text="Accuracy tells seen from unseen wirings where training saw few (AUC above 0.9 for the smallest S), and "
        "hardly where it saw many (below 0.65 for the largest).",
        supported=all(held),
        numbers="; ".join(parts),
        document="1.00 / 0.77 / 0.57 / 0.52 for S = 5 / 50 / 500 / 5,000",
    )


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Table 1, batch statistics, and policies of statistics side by side."""
    seen, modes, policies = [], [], []
    for data in settings["data"]:
        for method in settings["methods"]:
            found = of(settings, runs, data, method)
            where = [NAMES[data], method]
            running = spread([100 * statistics.fmean(run["running"]) for run in found], 2)
            if "unseen" in found[0]:
                unseen = spread([100 * statistics.fmean(run["unseen"]) for run in found], 2)
                auc = spread([run["seen_auc"] for run in found], 2)
                edges = [spread([run["edges"][side] for run in found], 1) for side in ("seen", "unseen")]
                reported = f"{REPORTED_AUC[method]:.2f}" if method in REPORTED_AUC else "-"
                seen.append([*where, running, unseen, *edges, auc, reported])
            modes.append(
                [
                    *where,
                    spread([100 * statistics.fmean(run["batch"]) for run in found], 2),
                    running,
                    spread([run["spearman"] or 0.0 for run in found], 2),
                    *(spread([run["mean_variance"][draws] for run in found], 4) for draws in ("batch", "example")),
                    spread([gain(run, largest(run)) for run in found], 2),
                ]
            )
            names = list(found[0]["policies"])
            policies.append([*where, *(spread([100 * run["policies"][name] for run in found], 2) for name in names)])
    return {
        "Accuracy of seen and unseen wirings, %": Table(
            ["data", "method and S", "seen", "unseen", "edges, seen", "edges, unseen", "AUC", "paper's AUC"], seen
        ),
        "Batch and running statistics; var(mean) is relative, for one wiring per batch and per example": Table(
            ["data", "method and S", "batch, %", "running, %", "Spearman", "var(mean), batch", "var(mean), example",
             "ensemble's gain, points"],
            modes,
        ),
        "Mean accuracy of a few wirings by the policy of batch statistics, %": Table(
            ["data", "method and S", *names], policies
        ),
    }  # fmt: skip


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Validation curves, ensembles by size, both modes of statistics (first seed), seen against unseen wirings."""
    curves, ensembles, modes, unseen = [], [], [], []
    for data in settings["data"]:
        panels: dict[str, list[dict[str, Any]]] = {"curve": [], "ensemble": [], "modes": [], "unseen": []}
        for method in settings["methods"]:
            found = of(settings, runs, data, method)
            for epoch in range(settings["epochs"]):
                values = [100 * run["curve"][epoch] for run in found]
                panels["curve"].append({"x": epoch + 1, "series": method, **summary(values)})
            for size in found[0]["ensemble"]:
                values = [100 * run["ensemble"][size]["accuracy"] for run in found]
                panels["ensemble"].append({"x": int(size), "series": method, **summary(values)})
            if method.endswith(f" {MANY}"):
                panels["modes"] += [
                    {"x": 100 * batch, "y": 100 * running, "series": method}
                    for batch, running in zip(found[0]["batch"], found[0]["running"], strict=True)
                ]
            if "unseen" in found[0]:
                for side, name in (("seen", "running"), ("unseen", "unseen")):
                    values = [100 * statistics.fmean(run[name]) for run in found]
                    panels["unseen"].append({"x": method, "series": side, **summary(values)})
        title = NAMES[data]
        curves.append(lines(panels["curve"], "epoch", "validation accuracy, %", title=title))
        ensembles.append(
            with_spread(
                panels["ensemble"], "wirings T", "test accuracy of the ensemble, %", series="", log=True, title=title
            )
        )
        modes.append(
            scatter(
                panels["modes"],
                "accuracy with batch statistics, %",
                "with running statistics, %",
                series="",
                title=title,
            )
        )
        unseen.append(grouped_bars(panels["unseen"], "", "mean test accuracy, %", series="", title=title))
    return {
        "wiring_curves": side_by_side(*curves),
        "wiring_ensembles": side_by_side(*ensembles),
        "wiring_norm_modes": side_by_side(*modes),
        "wiring_unseen": side_by_side(*unseen),
    }
