"""What networks with shared weights say: claims, tables and figures of the experiment `shared_wirings`."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from polyarch_experiments.experiment import Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, lines, scatter, side_by_side, summary, with_spread
from polyarch_experiments.images import NAMES
from polyarch_experiments.measures import spread
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import by_seed, runs_of
from polyarch_experiments.verdict import claim, finding, over_seeds, paired_by_seed

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
    """Claims 1, 2 and 3, by intervals over seeds."""
    return [
        _variance(settings, runs),
        _disparity(settings, runs),
        _order(settings, runs),
        _gain(settings, runs),
        *_unseen(settings, runs),
    ]


def _by_seed(
    settings: Settings, runs: dict[str, Any], data: str, method: str, value: Callable[[dict[str, Any]], float]
) -> dict[int, float]:
    """A value of every finished run of a method."""
    return {seed: value(run) for seed, run in by_seed(runs, counts(settings), f"{data}, {method}").items()}


Sides = dict[str, tuple[dict[int, float], dict[int, float]]]
"""For every data set the values of two methods by seed."""


def _claim(number: int, text: str, sides: Sides, quantity: str, told: str, document: str) -> Claim:
    """That the first side is above the second on every data set."""
    findings = [
        finding(f"{NAMES[data]}, {quantity}", paired_by_seed(first, second), above=0.0)
        for data, (first, second) in sides.items()
    ]
    parts = [
        f"{NAMES[data]}: {spread(list(first.values()), 4)} against {spread(list(second.values()), 4)}"
        for data, (first, second) in sides.items()
        if first and second
    ]
    return claim(text, findings, "; ".join([*parts, told]), number=number, document=document)


def _variance(settings: Settings, runs: dict[str, Any]) -> Claim:
    sides = {
        data: (
            _by_seed(settings, runs, data, f"nsa {MANY}", lambda run: run["mean_variance"]["batch"]),
            _by_seed(settings, runs, data, f"nsa-i {MANY}", lambda run: run["mean_variance"]["example"]),
        )
        for data in settings["data"]
    }
    return _claim(
        1,
        "Batch means move less from batch to batch where every example has a wiring of its own.",
        sides,
        "relative var(mean), per batch minus per example",
        "variance of batch means over the variance within batches, mean over layers",
        "the covariances of examples that share a wiring stay in var(mean), whatever the batch size",
    )


def gap(run: dict[str, Any]) -> float:
    """How far accuracy falls from batch to running statistics, in points, mean over wirings."""
    return 100 * (statistics.fmean(run["batch"]) - statistics.fmean(run["running"]))


def _disparity(settings: Settings, runs: dict[str, Any]) -> Claim:
    sides = {}
    for data in settings["data"]:
        first, second = (
            _by_seed(settings, runs, data, f"{name} {MANY}", lambda run: abs(gap(run))) for name in ("nsa", "nsa-i")
        )
        sides[data] = first, second
    return _claim(
        1,
        "Accuracy differs less between batch and running statistics with a wiring per example than per batch.",
        sides,
        "gap of NSA minus gap of NSA-i, points",
        f"points between batch and running statistics, mean over {settings['judged']} wirings",
        "NSA is unstable in test, NSA-i is not (figures 2 and 3)",
    )


def _order(settings: Settings, runs: dict[str, Any]) -> Claim:
    sides = {}
    for data in settings["data"]:
        each, shared = (
            _by_seed(settings, runs, data, f"{method} {MANY}", lambda run: run["spearman"] or 0.0)
            for method in ("nsa-i", "nsa")
        )
        sides[data] = each, shared
    return _claim(
        1,
        "The orders of wirings by batch and by running statistics agree more for NSA-i than for NSA (Spearman).",
        sides,
        "Spearman of NSA-i minus that of NSA",
        f"{settings['judged']} wirings",
        "0.33 / 0.37 / 0.26 for NSA, 0.59 / 0.40 / 0.62 for NSA-i (S = 500 / 5,000 / 50,000)",
    )


def gain(run: dict[str, Any], size: int) -> float:
    """What an ensemble of this size has over one wiring, in points of accuracy; the mean wiring, not the first."""
    return 100 * (float(run["ensemble"][str(size)]["accuracy"]) - statistics.fmean(run["running"]))


def largest(run: dict[str, Any]) -> int:
    """The size of the largest ensemble that was judged."""
    return max(map(int, run["ensemble"]))


def _gain(settings: Settings, runs: dict[str, Any]) -> Claim:
    """With coefficients of their own only, as in figure 4."""
    own = max((name for name in settings["methods"] if name.startswith("coefficients")), key=_count)
    compared = (own, f"nsa-i {MANY}")
    found = [run for data in settings["data"] for name in compared for run in of(settings, runs, data, name)]
    size = min(map(largest, found), default=0)
    sides = {}
    for data in settings["data"]:
        dependent, shared = (_by_seed(settings, runs, data, name, lambda run: gain(run, size)) for name in compared)
        sides[data] = dependent, shared
    return _claim(
        2,
        "An ensemble of wirings gains more over a single one where wirings have coefficients of their own.",
        sides,
        f"gain of {own} minus that of nsa-i {MANY}, points",
        f"{size} wirings together against the mean of single ones",
        "NSA-i gains about 0.3 % and flattens; with coefficients of its own more, flat after about 20 (figure 4)",
    )


def _count(method: str) -> int:
    return int(method.split()[1])


def _unseen(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    names = sorted((name for name in settings["methods"] if name.startswith("nsa-i ")), key=_count)
    found = {
        data: {name: [run["seen_auc"] for run in of(settings, runs, data, name)] for name in names}
        for data in settings["data"]
    }
    told = "; ".join(
        f"{NAMES[data]}, S = {_count(name)}: {spread(values, 2)}"
        for data, sides in found.items()
        for name, values in sides.items()
        if values
    )
    document = "1.00 / 0.77 / 0.57 / 0.52 for S = 5 / 50 / 500 / 5,000"
    few, many = names[0], names[-1]
    return [
        claim(
            "Accuracy tells seen from unseen wirings where training saw few.",
            [
                finding(f"{NAMES[data]}, AUC of {few}", over_seeds(sides[few]), above=0.9)
                for data, sides in found.items()
                if sides[few]
            ],
            told,
            number=3,
            document=document,
            ours="an AUC above 0.9 for the smallest S",
        ),
        claim(
            "Accuracy hardly tells seen from unseen wirings where training saw many.",
            [
                finding(f"{NAMES[data]}, AUC of {many}", over_seeds(sides[many]), below=0.65)
                for data, sides in found.items()
                if sides[many]
            ],
            told,
            number=3,
            document=document,
            ours="an AUC below 0.65 for the largest S",
        ),
    ]


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Table 1, batch statistics, and policies of statistics side by side."""
    seen, modes, policies = [], [], []
    for data in settings["data"]:
        for method in settings["methods"]:
            found = of(settings, runs, data, method)
            if not found:
                continue
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
            if not found:
                continue
            for epoch in range(settings["epochs"]):
                values = [100 * run["curve"][epoch] for run in found]
                panels["curve"].append({"x": epoch + 1, "series": method, **summary(values)})
            for size in found[0]["ensemble"]:
                values = [100 * run["ensemble"][size]["accuracy"] for run in found]
                panels["ensemble"].append({"x": int(size), "series": method, **summary(values)})
            if method in (f"nsa {MANY}", f"nsa-i {MANY}"):
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
