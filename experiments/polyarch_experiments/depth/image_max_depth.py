"""Images: how chosen depth, predictions and speed change with the maximum depth D (figures 4, 9 and 11)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyarch.ranking import Interval
from polyarch_experiments.depth.image_networks import IMAGES, LONG, PAPER, QUICK, ImageProblem
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec, side_by_side, summary, with_spread
from polyarch_experiments.images import NAMES
from polyarch_experiments.measures import rank_correlation
from polyarch_experiments.papers import VARIATIONAL_DEPTH
from polyarch_experiments.results import Claim, Finding
from polyarch_experiments.verdict import claim, finding, over_seeds, paired

Item = tuple[str, str, int, int]
Measure = Callable[[dict[str, Any]], float]
WAYS = {"pruned 95%": "learned, 95 %", "pruned expected": "learned, expected", "unpruned": "learned, all depths"}


def items(settings: Settings) -> dict[str, Item]:
    """Learned depths up to every D and fixed depths D, for every data set and seed; all first seeds come first."""
    return {
        f"{name} {kind} {depth} seed {seed}": (name, kind, depth, seed)
        for seed in range(settings["seeds"])
        for name in settings["data"]
        for depth in settings["max_depths"]
        for kind in ("learned", "fixed")
    }


def run(settings: Settings, item: Item, folder: Path) -> dict[str, Any]:
    """One network."""
    name, kind, depth, seed = item
    one = ImageProblem.of(settings, name, seed)
    store = folder / "checkpoints" / f"{name}-{kind}-{depth}-{seed}"
    if kind == "learned":
        return one.learned(depth, store)
    measured, epochs = one.fixed(depth, store)
    return {"test": measured, "epochs": epochs}


def _seeds(settings: Settings, runs: dict[str, Any], name: str, kind: str, depth: int) -> list[dict[str, Any]]:
    return [runs[f"{name} {kind} {depth} seed {seed}"] for seed in range(settings["seeds"])]


def _correlations(settings: Settings, runs: dict[str, Any], name: str, measure: Measure) -> list[float]:
    """Spearman's correlation of D with a measure of learned depths, seed by seed."""
    depths = settings["max_depths"]
    by_seed = zip(*(map(measure, _seeds(settings, runs, name, "learned", depth)) for depth in depths), strict=True)
    return [rank_correlation(depths, found) for found in by_seed]


def _growth(settings: Settings, runs: dict[str, Any], name: str, measure: Measure) -> list[float]:
    """How many blocks a depth grows by per block of D, from the smallest D to the largest, seed by seed."""
    low, high = settings["max_depths"][0], settings["max_depths"][-1]
    first, last = (map(measure, _seeds(settings, runs, name, "learned", depth)) for depth in (low, high))
    return [(end - start) / (high - low) for start, end in zip(first, last, strict=True)]


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Rank correlations with D, and differences paired by seed."""
    names, (*_, deepest) = settings["data"], settings["max_depths"]
    expected = {name: over_seeds(_correlations(settings, runs, name, _expected)) for name in names}
    growths = {
        name: paired(_growth(settings, runs, name, _expected), _growth(settings, runs, name, _by_95)) for name in names
    }
    saved = {name: over_seeds(_correlations(settings, runs, name, _saved)) for name in names}
    _, *harder = names
    gains = {}
    for name in harder:
        sides = [_seeds(settings, runs, name, kind, deepest) for kind in ("learned", "fixed")]
        ours, theirs = [run["test"]["pruned 95%"]["mean_log_p"] for run in sides[0]], sides[1]
        gains[name] = paired(ours, [run["test"]["mean_log_p"] for run in theirs])
    return [
        claim(
            "The expected depth grows with D.",
            _above_0(expected),
            "Spearman with D",
            number=5,
            document="it grows with D on all data (figure 9)",
        ),
        claim(
            "The depth of the 95 % rule grows more slowly with D than the expected depth.",
            _above_0(growths),
            "blocks of the expected depth minus blocks of the 95 % rule, per block of D",
            number=5,
            document="it tends to saturate (figure 9)",
        ),
        claim(
            f"On harder data the 95 %-pruned mixture has a higher log-likelihood than a fixed depth of {deepest}.",
            _above_0(gains),
            "difference of test mean log p" if gains else "one data set",
            number=6,
            document="it outperforms networks of fixed depth on Fashion-MNIST and SVHN (figure 9)",
        ),
        claim(
            "The time that pruning saves grows with D.",
            _above_0(saved),
            "Spearman of D and the share of the time that is saved",
            number=8,
            document="it grows with D (figure 11)",
        ),
    ]


def _above_0(found: dict[str, Interval]) -> list[Finding]:
    return [finding(NAMES[name], interval, above=0) for name, interval in found.items()]


def _expected(run: dict[str, Any]) -> float:
    return float(run["expected"])


def _by_95(run: dict[str, Any]) -> float:
    return float(run["depths"]["95%"])


def _saved(run: dict[str, Any]) -> float:
    return 1 - float(run["share_of_forward"])


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Depths, log-likelihood, accuracy and saved time over D, a column per data set."""
    names, depths = settings["data"], settings["max_depths"]

    def curve(name: str, series: str, kind: str, measure: Measure) -> list[dict[str, Any]]:
        return [
            {
                "x": depth,
                "series": series,
                **summary([measure(run) for run in _seeds(settings, runs, name, kind, depth)]),
            }
            for depth in depths
        ]

    def panel(name: str, title: str, rows: list[dict[str, Any]]) -> Spec:
        return with_spread(rows, "maximum depth D", title, series="", title=NAMES[name])

    chosen = [
        panel(name, "depth", curve(name, "95 %", "learned", _by_95) + curve(name, "expected", "learned", _expected))
        for name in names
    ]
    tested = {
        measure: [
            panel(
                name,
                title,
                [
                    row
                    for way, shown_way in WAYS.items()
                    for row in curve(name, shown_way, "learned", _tested(measure, way))
                ]
                + curve(name, "fixed depth", "fixed", _tested(measure)),
            )
            for name in names
        ]
        for measure, title in (("mean_log_p", "test mean log p"), ("accuracy", "test accuracy"))
    }
    saved = [row for name in names for row in curve(name, NAMES[name], "learned", _saved)]
    columns = len(names)
    return {
        "image_max_depths": side_by_side(*chosen, columns=columns),
        "image_max_depth_log_p": side_by_side(*tested["mean_log_p"], columns=columns),
        "image_max_depth_accuracy": side_by_side(*tested["accuracy"], columns=columns),
        "image_max_depth_speed": with_spread(saved, "maximum depth D", "share of the time that is saved", series=""),
    }


def _tested(measure: str, way: str | None = None) -> Measure:
    """A measure on test images, of a way to predict with a learned depth or of a fixed depth."""

    def of(run: dict[str, Any]) -> float:
        return float((run["test"] if way is None else run["test"][way])[measure])

    return of


IMAGE_MAX_DEPTH = Experiment(
    name="image_max_depth",
    document=VARIATIONAL_DEPTH,
    claim="Chosen depth, predictions and speed over the maximum depth (figures 4, 9 and 11).",
    presets={
        "quick": {**QUICK, "max_depths": [1, 3]},
        "cpu": {**IMAGES, "data": ["mnist", "fashion_mnist"], "max_depths": [5, 10, 20]},
        "long": {**LONG, "max_depths": [5, 10, 20, 30]},
        "paper": {**PAPER, "max_depths": [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)
