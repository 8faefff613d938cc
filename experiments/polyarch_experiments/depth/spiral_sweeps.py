"""Spirals: how the learned depth changes with the maximum depth, the width, the rotation and the number of points.

Figures 2 (right), 5 and 6: each experiment changes one setting and keeps the others.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyarch.ranking import Interval
from polyarch_experiments.depth.spirals import QUICK, SPIRALS, depths, measure_learned, values, weighted
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec, side_by_side, summary, with_spread
from polyarch_experiments.measures import rank_correlation, spread
from polyarch_experiments.papers import VARIATIONAL_DEPTH
from polyarch_experiments.results import Claim, Finding
from polyarch_experiments.verdict import claim, finding, interval_in_words, over_seeds, paired, spread_ratio

Judge = Callable[[Settings, dict[str, Any]], list[Claim]]

TITLES = {
    "max_depth": "maximum depth D", "width": "width", "rotation": "rotation in degrees", "train": "training points"
}  # fmt: skip

STABLE = 0.05
"""Nats: mean log p counts as stable when its means differ by no more."""


def items(settings: Settings) -> dict[str, float]:
    """The values of the setting that changes."""
    return {_name(settings, value): value for value in settings["values"]}


def run(settings: Settings, value: float, folder: Path) -> dict[str, Any]:
    """Networks with learned depth at one value, one per seed."""
    return measure_learned({**settings, settings["changes"]: value})


def _name(settings: Settings, value: float) -> str:
    return f"{settings['changes']} {value}"


def _at(settings: Settings, runs: dict[str, Any], value: float) -> dict[str, Any]:
    found: dict[str, Any] = runs[_name(settings, value)]
    return found


def _numbers(settings: Settings, runs: dict[str, Any]) -> str:
    """The chosen depth and the test log-likelihood at every value."""
    parts = []
    for value in settings["values"]:
        one = _at(settings, runs, value)
        learned = spread(depths(one, source="learned_depths"), 1)
        parts.append(f"{value}: depth {spread(depths(one), 1)} (learned q {learned}), log p {spread(_log_p(one), 3)}")
    return "; ".join(parts)


def _depth_correlation(settings: Settings, runs: dict[str, Any], most: float = float("inf")) -> Interval:
    """Spearman's correlation of the value with the chosen depth, seed by seed."""
    kept = [value for value in settings["values"] if value <= most]
    by_seed = zip(*(depths(_at(settings, runs, value)) for value in kept), strict=True)
    return over_seeds([rank_correlation(kept, chosen) for chosen in by_seed])


def _stability(
    settings: Settings, runs: dict[str, Any], low: float, high: float, measure: Callable[[dict[str, Any]], list[float]]
) -> dict[float, Interval]:
    """How far a measure at other values in low..high is from that at the lowest of them, paired by seed."""
    kept = [value for value in settings["values"] if low <= value <= high]
    return {
        value: paired(measure(_at(settings, runs, value)), measure(_at(settings, runs, kept[0]))) for value in kept[1:]
    }


def _log_p(run: dict[str, Any]) -> list[float]:
    return values(run, "pruned")


def _apart(name: str, found: dict[float, Interval], most: float) -> list[Finding]:
    """Differences that a claim expects to be small."""
    return [finding(f"{name} at {value}", one, above=-most, below=most) for value, one in found.items()]


def judge_max_depth(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Stable up to 50, unstable after."""
    chosen, logs = (_stability(settings, runs, 20, 50, measure) for measure in (depths, _log_p))
    learned = _stability(settings, runs, 20, 50, lambda run: depths(run, source="learned_depths"))
    from_q = ", ".join(f"{interval_in_words(one, 1)} at {value}" for value, one in learned.items())
    before, beyond = (
        [value for value in settings["values"] if (value > 50) == is_beyond] for is_beyond in (False, True)
    )
    spreads = {value: _std(_log_p(_at(settings, runs, value))) for value in settings["values"]}
    return [
        claim(
            "Chosen depth (within 2 blocks) and log-likelihood (within 0.05 nats) are stable for D = 20 to 50.",
            _apart("depth against that at D = 20", chosen, 2) + _apart("log p", logs, STABLE),
            f"depth from the learned q against that at D = 20: {from_q or 'not measured'}; {_numbers(settings, runs)}",
            number=2,
            document="both are stable up to about D = 50",
            ours="2 blocks and 0.05 nats",
        ),
        claim(
            "Beyond D = 50 the results become unstable (larger spread over seeds).",
            [
                finding(
                    f"standard deviation of log p at D = {beyond[-1]} over that at {before[-1]}",
                    spread_ratio(*(_log_p(_at(settings, runs, value)) for value in (beyond[-1], before[-1]))),
                    above=1,
                )
            ]
            if beyond
            else [],
            "; ".join(f"{deviation:.3f} at D = {value}" for value, deviation in spreads.items()),
            number=2,
            document="both become unstable",
        ),
    ]


def judge_width(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Wider networks need fewer blocks."""
    correlation = _depth_correlation(settings, runs)
    logs = _stability(settings, runs, 20, 500, _log_p)
    widest = max(settings["values"])
    return [
        claim(
            "The chosen depth falls as the width grows.",
            [finding("Spearman", correlation, below=0)],
            _numbers(settings, runs),
            number=3,
            document="it falls over widths 1 to 1000",
        ),
        claim(
            f"The test log-likelihood is stable (within 0.05 nats) for widths 20 to {min(widest, 500)}.",
            _apart("log p against that at width 20", logs, STABLE),
            number=3,
            document="stable for widths 20 to 500",
            ours="0.05 nats",
        ),
    ]


def judge_rotation(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """More complex data need more blocks."""
    correlation = _depth_correlation(settings, runs)
    return [
        claim(
            "The chosen depth grows with the rotation of the spirals.",
            [finding("Spearman", correlation, above=0)],
            _numbers(settings, runs),
            number=4,
            document="it grows with the rotation",
        )
    ]


def judge_points(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """More data allow more blocks, up to a point."""
    correlation = _depth_correlation(settings, runs, most=500)
    return [
        claim(
            "The chosen depth grows with the number of training points up to about 500.",
            [finding("Spearman up to 500 points", correlation, above=0)],
            _numbers(settings, runs),
            number=4,
            document="it grows until about 500 points and is stable from there",
        )
    ]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """The chosen depth and the test log-likelihood over the setting that changes."""
    title = TITLES[settings["changes"]]
    kinds = {"exact posterior": "depths", "learned q": "learned_depths"}
    chosen = [
        {"x": value, "series": name, **summary(depths(_at(settings, runs, value), source=source))}
        for name, source in kinds.items()
        for value in settings["values"]
    ]
    logs = [
        {"x": value, "series": name, **summary(measure(_at(settings, runs, value)))}
        for name, measure in _measures().items()
        for value in settings["values"]
    ]
    log = settings["changes"] in ("width", "train")
    return {
        settings["changes"]: side_by_side(
            with_spread(chosen, title, "chosen depth (argmax)", series="", log=log),
            with_spread(logs, title, "test mean log p", series="", log=log),
        )
    }


def _measures() -> dict[str, Callable[[dict[str, Any]], list[float]]]:
    """What is drawn of the test log-likelihood: pruned and whole mixtures overlap in the paper."""
    return {
        "pruned, weights by validation": _log_p,
        "pruned, learned q": lambda run: weighted(run, "learned"),
        "all depths, learned q": lambda run: values(run, "unpruned learned"),
    }


def _std(found: list[float]) -> float:
    return statistics.stdev(found) if len(found) > 1 else 0.0


def _sweep(
    name: str, claim: str, judge: Judge, changes: str, quick: list[int], cpu: list[int], paper: list[int]
) -> Experiment:
    return Experiment(
        name=name,
        document=VARIATIONAL_DEPTH,
        claim=claim,
        presets={
            "quick": {**QUICK, "changes": changes, "values": quick},
            "cpu": {**SPIRALS, "changes": changes, "values": cpu},
            "paper": {**SPIRALS, "changes": changes, "epochs": 8000, "values": paper},
        },
        items=items,
        task=run,
        judge=judge,
        figures=figures,
    )


SPIRAL_MAX_DEPTH = _sweep(
    "spiral_max_depth",
    "Chosen depth and performance are stable as D grows to about 50 (figure 2, right).",
    judge_max_depth, "max_depth", [2, 4], [5, 10, 20, 30, 50, 75, 100],
    [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
)  # fmt: skip
SPIRAL_WIDTH = _sweep(
    "spiral_width",
    "The chosen depth falls as the width grows (figure 5).",
    judge_width, "width", [5, 20], [1, 2, 5, 10, 20, 50, 100], [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
)  # fmt: skip
SPIRAL_ROTATION = _sweep(
    "spiral_rotation",
    "The chosen depth grows with the complexity of the data (figure 6, left).",
    judge_rotation, "rotation", [180, 360], [90, 180, 360, 540, 720, 900, 1080],
    [0, 90, 180, 270, 360, 450, 540, 630, 720, 810, 900, 990, 1080],
)  # fmt: skip
SPIRAL_POINTS = _sweep(
    "spiral_points",
    "The chosen depth grows with the number of points (figure 6, right).",
    judge_points, "train", [50, 100], [50, 100, 200, 350, 500, 1000],
    [50, 100, 150, 200, 300, 400, 500, 700, 1000, 1500, 2000],
)  # fmt: skip
