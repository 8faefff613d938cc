"""What the runs on images say: claims and figures of the experiment `image_depth`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from polyarch.methods.depth.search import RULES
from polyarch_experiments.depth.image_networks import CONFIDENCES
from polyarch_experiments.experiment import Settings
from polyarch_experiments.figures import Spec, grouped_bars, side_by_side, summary, with_spread
from polyarch_experiments.images import NAMES
from polyarch_experiments.measures import spread, with_noise
from polyarch_experiments.results import Claim
from polyarch_experiments.verdict import claim, finding, interval_in_words, over_seeds, paired

EXIT_CONFIDENCE = 0.95
"""The one that the claim on early exit is about."""
_RULES = {"95%": "95 %", "argmax": "argmax", "expected": "expected"}
MEASURES = {"accuracy": "accuracy", "mean_log_p": "mean log p", "mean_p": "mean p"}


def _seeds(settings: Settings, runs: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [runs[f"{name} seed {seed}"] for seed in range(settings["seeds"])]


def _values(settings: Settings, runs: dict[str, Any], name: str, kind: str, measure: str) -> list[float]:
    return [run["test"][kind][measure] for run in _seeds(settings, runs, name)]


def _depths(settings: Settings, runs: dict[str, Any], name: str, rule: str) -> list[float]:
    return [float(run["depths"][rule]) for run in _seeds(settings, runs, name)]


FAIR = "12,000 images, about 5,600 steps, a faster q and 5 seeds (preset long)"


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Differences between data sets and between sides, paired by seed."""
    return [
        _order(settings, runs),
        _pruning(settings, runs),
        _calibration(settings, runs),
        _speed(settings, runs),
        _early_exit(settings, runs),
    ]


def _order(settings: Settings, runs: dict[str, Any]) -> Claim:
    names = settings["data"]
    depths = {name: _depths(settings, runs, name, "95%") for name in names}
    steps = [
        finding(f"blocks from {NAMES[first]} to {NAMES[second]}", paired(depths[second], depths[first]), above=0)
        for first, second in pairwise(names)
    ]
    rules = "; ".join(
        f"{NAMES[name]}: "
        + ", ".join(
            f"{shown_rule} {spread(_depths(settings, runs, name, rule), 1)}" for rule, shown_rule in _RULES.items()
        )
        for name in names
    )
    return claim(
        f"Harder data get deeper networks: {' < '.join(NAMES[name] for name in names)} (rule 95 %).",
        steps,
        f"{rules} (D = {settings['max_depth']})",
        number=5,
        document="about 18 (MNIST), 28 (Fashion-MNIST) and 30 (SVHN) of D = 50",
        needs=FAIR if settings["train"] < 12_000 else None,
    )


def _pruning(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, kept = [], []
    for name in settings["data"]:
        sides = {
            measure: paired(
                _values(settings, runs, name, "pruned 95%", measure), _values(settings, runs, name, "unpruned", measure)
            )
            for measure in MEASURES
        }
        kept += [
            finding(f"{NAMES[name]}, accuracy", sides["accuracy"], above=-0.005, below=0.005),
            finding(f"{NAMES[name]}, mean log p", sides["mean_log_p"], above=-0.02, below=0.02),
        ]
        told = [f"{title} {interval_in_words(sides[measure], 4)}" for measure, title in MEASURES.items()]
        parts.append(f"{NAMES[name]}: {', '.join(told)}")
    return claim(
        "Pruning by the 95 % rule keeps accuracy (within 0.5 points) and log-likelihood (within 0.02 nats).",
        kept,
        f"pruned minus full: {'; '.join(parts)}",
        number=6,
        document="no loss against the unpruned mixture",
        ours="0.5 points and 0.02 nats",
    )


def _calibration(settings: Settings, runs: dict[str, Any]) -> Claim:
    """Against a network of full depth; earlier results have only one of the depth that was chosen."""
    kind = "full depth" if "full depth" in next(iter(runs.values()))["test"] else "fixed depth"
    parts, differences = [], {}
    for name in settings["data"]:
        sides = [[run["test"][side] for run in _seeds(settings, runs, name)] for side in ("pruned 95%", kind)]
        ours, theirs = ([test["calibration_error"] for test in side] for side in sides)
        differences[name] = paired(ours, theirs)
        learned, fixed = map(with_noise, sides)
        parts.append(
            f"{NAMES[name]}: {learned} learned, {fixed} fixed, difference {interval_in_words(differences[name], 4)}"
        )
    easiest, *harder = settings["data"]
    findings = [finding(NAMES[name], differences[name], below=0) for name in harder]
    findings.append(finding(NAMES[easiest], differences[easiest], above=0))
    noise = "; noise floor; interval" if "calibration_floor" in next(iter(runs.values()))["test"][kind] else ""
    against = "full depth" if kind == "full depth" else "the depth that was chosen"
    return claim(
        f"A learned depth is better calibrated than a fixed one on harder data, and worse on {NAMES[easiest]}.",
        findings if harder else [],
        f"expected calibration error, 15 bins{noise}, against a network of {against}: {'; '.join(parts)}",
        number=7,
        document="lower error on Fashion-MNIST and SVHN, higher on MNIST (underconfident)",
    )


def _speed(settings: Settings, runs: dict[str, Any]) -> Claim:
    shares = {
        name: over_seeds([1 - run["share_of_forward"] for run in _seeds(settings, runs, name)])
        for name in settings["data"]
    }
    return claim(
        "The pruned network's forward pass is faster than that of the full depth.",
        [finding(NAMES[name], found, above=0) for name, found in shares.items()],
        "share of the time that is saved",
        number=8,
        document="62 % (MNIST), 41 % (Fashion-MNIST) and 37 % (SVHN) faster than D = 50",
    )


def _early_exit(settings: Settings, runs: dict[str, Any]) -> Claim:
    kept = []
    for name in settings["data"]:
        curves = [{point["confidence"]: point for point in run["exits"]} for run in _seeds(settings, runs, name)]
        early, full = ([curve[confidence] for curve in curves] for confidence in (EXIT_CONFIDENCE, CONFIDENCES[-1]))
        lost, saved = (
            paired([other[key] for other in full], [point[key] for point in early])
            for key in ("accuracy", "mean_depth")
        )
        kept += [
            finding(f"{NAMES[name]}, accuracy lost", lost, below=0.002),
            finding(f"{NAMES[name]}, blocks saved", saved, above=0),
        ]
    return claim(
        f"Early exit at confidence {EXIT_CONFIDENCE} uses fewer blocks and loses at most 0.2 points of accuracy.",
        kept,
        ours="a confidence of 0.95 and 0.2 points",
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
    sides = {"pruned 95%": "learned, pruned", "unpruned": "learned, full", "fixed depth": "fixed, chosen depth"}
    if "full depth" in next(iter(runs.values()))["test"]:
        sides["full depth"] = "fixed, full depth"
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
