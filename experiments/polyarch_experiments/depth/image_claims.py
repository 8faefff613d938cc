"""What the runs on images say: claims and figures of the experiment `image_depth`."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import Any

from polyarch.methods.depth.search import RULES
from polyarch_experiments.experiment import Settings
from polyarch_experiments.figures import Spec, grouped_bars, side_by_side, summary, with_spread
from polyarch_experiments.images import NAMES
from polyarch_experiments.measures import spread
from polyarch_experiments.results import Claim

CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 1.01)
"""Confidences of early exit; above 1 no input leaves early."""
EXIT_CONFIDENCE = 0.95
"""The one that the claim on early exit is about."""
MEASURES = {"accuracy": "accuracy", "mean_log_p": "mean log p", "mean_p": "mean p"}


def _seeds(settings: Settings, runs: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [runs[f"{name} seed {seed}"] for seed in range(settings["seeds"])]


def _values(settings: Settings, runs: dict[str, Any], name: str, kind: str, measure: str) -> list[float]:
    return [run["test"][kind][measure] for run in _seeds(settings, runs, name)]


def _depths(settings: Settings, runs: dict[str, Any], name: str, rule: str) -> list[float]:
    return [float(run["depths"][rule]) for run in _seeds(settings, runs, name)]


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Orderings and differences of means over seeds."""
    names = settings["data"]
    means = [statistics.fmean(_depths(settings, runs, name, "95%")) for name in names]
    in_order = all(first < second for first, second in pairwise(means))
    order = " < ".join(NAMES[name] for name in names)
    return [
        Claim(
            number=5,
            text=f"Harder data get deeper networks: {order} (rule 95 %).",
            supported=in_order if len(names) > 1 else None,
            numbers="; ".join(
                f"{NAMES[name]}: 95 % {spread(_depths(settings, runs, name, '95%'), 1)}, "
                f"argmax {spread(_depths(settings, runs, name, 'argmax'), 1)}, "
                f"expected {spread(_depths(settings, runs, name, 'expected'), 1)}"
                for name in names
            )
            + f" (D = {settings['max_depth']})",
            document="about 18 (MNIST), 28 (Fashion-MNIST) and 30 (SVHN) of D = 50",
        ),
        _pruning(settings, runs),
        _calibration(settings, runs),
        _speed(settings, runs),
        _early_exit(settings, runs),
    ]


def _pruning(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, kept = [], []
    for name in settings["data"]:
        found = {
            (kind, measure): _values(settings, runs, name, kind, measure)
            for kind in ("unpruned", "pruned 95%")
            for measure in MEASURES
        }
        means = {key: statistics.fmean(values) for key, values in found.items()}
        kept.append(
            abs(means["pruned 95%", "accuracy"] - means["unpruned", "accuracy"]) <= 0.005
            and abs(means["pruned 95%", "mean_log_p"] - means["unpruned", "mean_log_p"]) <= 0.02
        )
        sides = [
            f"{shown} {spread(found['pruned 95%', measure], 4)} pruned, {spread(found['unpruned', measure], 4)} full"
            for measure, shown in MEASURES.items()
        ]
        parts.append(f"{NAMES[name]}: {', '.join(sides)}")
    return Claim(
        number=6,
        text="Pruning by the 95 % rule keeps accuracy (within 0.5 points) and log-likelihood (within 0.02 nats).",
        supported=all(kept),
        numbers="; ".join(parts),
        document="no loss against the unpruned mixture",
    )


def _calibration(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, better = [], {}
    for name in settings["data"]:
        ours, theirs = (
            _values(settings, runs, name, kind, "calibration_error") for kind in ("pruned 95%", "fixed depth")
        )
        better[name] = statistics.fmean(ours) < statistics.fmean(theirs)
        parts.append(f"{NAMES[name]}: {spread(ours, 4)} learned, {spread(theirs, 4)} fixed depth")
    easiest, *harder = settings["data"]
    return Claim(
        number=7,
        text=f"A learned depth is better calibrated than a fixed one on harder data, and worse on {NAMES[easiest]}.",
        supported=all(better[name] for name in harder) and not better[easiest] if harder else None,
        numbers="; ".join(parts) + " (expected calibration error, 15 bins; a fixed depth of the same number of blocks)",
        document="lower error on Fashion-MNIST and SVHN, higher on MNIST (underconfident)",
    )


def _speed(settings: Settings, runs: dict[str, Any]) -> Claim:
    shares = {name: [1 - run["share_of_forward"] for run in _seeds(settings, runs, name)] for name in settings["data"]}
    return Claim(
        number=8,
        text="The pruned network's forward pass is faster than that of the full depth.",
        supported=all(statistics.fmean(found) > 0 for found in shares.values()),
        numbers="; ".join(
            f"{NAMES[name]}: {spread([100 * value for value in found], 0)} % less time"
            for name, found in shares.items()
        ),
        document="62 % (MNIST), 41 % (Fashion-MNIST) and 37 % (SVHN) faster than D = 50",
    )


def _early_exit(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, kept = [], []
    for name in settings["data"]:
        curves = [{point["confidence"]: point for point in run["exits"]} for run in _seeds(settings, runs, name)]
        early, full = ([curve[confidence] for curve in curves] for confidence in (EXIT_CONFIDENCE, CONFIDENCES[-1]))
        lost = [other["accuracy"] - point["accuracy"] for point, other in zip(early, full, strict=True)]
        used, whole = ([point["mean_depth"] for point in side] for side in (early, full))
        kept.append(statistics.fmean(lost) <= 0.002 and statistics.fmean(used) < statistics.fmean(whole))
        parts.append(
            f"{NAMES[name]}: {spread(used, 1)} of {spread(whole, 1)} blocks, accuracy lower by {spread(lost, 4)}"
        )
    return Claim(
        text=f"Early exit at confidence {EXIT_CONFIDENCE} uses fewer blocks and loses at most 0.2 points of accuracy.",
        supported=all(kept),
        numbers="; ".join(parts),
    )


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Posteriors, rules, calibration, speed and early exit."""
    names = settings["data"]
    posterior = [
        {"x": depth, "series": NAMES[name], **summary([run["q"][depth] for run in _seeds(settings, runs, name)])}
        for name in names
        for depth in range(settings["max_depth"] + 1)
    ]
    alone = [
        {"x": depth, "series": NAMES[name], **summary([run["alone"][depth] for run in _seeds(settings, runs, name)])}
        for name in names
        for depth in range(settings["max_depth"] + 1)
    ]

    def bars(kinds: dict[str, str], measure: str) -> list[dict[str, Any]]:
        return [
            {"x": NAMES[name], "series": shown, **summary(_values(settings, runs, name, kind, measure))}
            for name in names
            for kind, shown in kinds.items()
        ]

    rules = {"unpruned": "full mixture", **{f"pruned {rule}": f"pruned, {rule}" for rule in RULES}}
    sides = {"pruned 95%": "learned, pruned", "unpruned": "learned, full", "fixed depth": "fixed depth"}
    saved = {name: [1 - run["share_of_forward"] for run in _seeds(settings, runs, name)] for name in names}
    speed = [{"x": NAMES[name], "series": "time saved", **summary(found)} for name, found in saved.items()]
    exits = [
        {"x": point["mean_depth"], "series": NAMES[name], **summary([point["accuracy"]])}
        for name in names
        for point in _seeds(settings, runs, name)[0]["exits"]
    ]
    return {
        "image_posteriors": side_by_side(
            with_spread(posterior, "depth", "q(depth)", series="", title="Posterior over the depth"),
            with_spread(alone, "depth", "test mean log p", series="", title="Every depth alone"),
        ),
        "image_rules": side_by_side(
            grouped_bars(bars(rules, "accuracy"), "", "test accuracy", series="", title="Accuracy by pruning rule"),
            grouped_bars(bars(rules, "mean_log_p"), "", "test mean log p", series="", title="Log-likelihood by rule"),
        ),
        "image_calibration": grouped_bars(
            bars(sides, "calibration_error"), "", "expected calibration error", series="", title="Calibration"
        ),
        "image_speed": grouped_bars(speed, "", "share of forward time saved", series="", title="Speed-up by pruning"),
        "image_exits": with_spread(
            exits, "mean depth used", "test accuracy", series="", title="Early exit, seed 0: confidence 0.5 to never"
        ),
    }
