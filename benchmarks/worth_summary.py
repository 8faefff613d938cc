"""What `worth` found, as a table in Markdown, and how often a race wins."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Seeds = Mapping[str, Mapping[str, Any]]
"""What was measured with each seed."""


def alternative(run: Mapping[str, Any]) -> tuple[str, Mapping[str, float]]:
    """The name and the results of the best alternative by validation data."""
    sides: Mapping[str, Mapping[str, float]] = run["alternatives"]
    return max(sides.items(), key=lambda pair: pair[1]["valid_accuracy"])


def differences(seeds: Seeds, key: str = "accuracy") -> list[float]:
    """Of the default predictor over the alternative, with every seed."""
    return [run["default"][key] - alternative(run)[1][key] for run in seeds.values()]


def table(runs: Mapping[str, Seeds]) -> Iterator[str]:
    """A row per data set: means over seeds, and the difference with two standard errors."""
    headings = ("data", "seeds", "default predictor", "single network (parameters)", "best alternative")
    yield f"| {' | '.join((*headings, 'difference, points', 'NLL of both'))} |"
    yield "|---|---|---|---|---|---|---|"
    for name, seeds in runs.items():
        ours = [run["default"] for run in seeds.values()]
        alone = [run["single"] for run in seeds.values()]
        names, others = zip(*map(alternative, seeds.values()), strict=True)
        yield (
            f"| `{name}` | {len(ours)} | {_mean(ours, 'accuracy'):.4f} "
            f"| {_mean(alone, 'accuracy'):.4f} ({_mean(alone, 'parameters'):,.0f}) "
            f"| {_mean(others, 'accuracy'):.4f} ({' or '.join(dict.fromkeys(names))}) "
            f"| {_difference(differences(seeds))} | {_mean(ours, 'loss'):.4f}, {_mean(others, 'loss'):.4f} |"
        )


def totals(runs: Mapping[str, Seeds]) -> Iterator[str]:
    """How often a race wins: the default predictor, and single networks against plain and against random ones."""
    gains = [statistics.fmean(differences(seeds)) for seeds in runs.values()]
    losses = [statistics.fmean(differences(seeds, "loss")) for seeds in runs.values()]
    yield (
        f"Default predictor: at least as accurate as the alternative on {sum(gain >= 0 for gain in gains)} of "
        f"{len(gains)} sets, {100 * statistics.fmean(gains):+.2f} points on average; lower NLL on "
        f"{sum(loss < 0 for loss in losses)}."
    )
    limited = {name: seeds for name, seeds in runs.items() if all("limited" in run for run in seeds.values())}
    for name, seeds in limited.items():
        pairs = [
            (run["limited"]["single"]["accuracy"], run["alternatives"]["plain"]["accuracy"]) for run in seeds.values()
        ]
        yield f"Single network within the parameters of the plain one, {name}: {_pairs(pairs)}."
    yield _against_random(runs, "accuracy", 1)
    yield _against_random(runs, "uncalibrated_loss", -1)


def _against_random(runs: Mapping[str, Seeds], key: str, sign: int) -> str:
    """In how many runs, and on how many sets by the mean, the single network is better than a random one."""
    gains = [[sign * (run["single"][key] - run["random"][key]) for run in seeds.values()] for seeds in runs.values()]
    counts = [
        f"better {where} {sum(gain > 0 for gain in found)} of {len(found)} {what}, as good {where} {found.count(0.0)}"
        for where, what, found in (
            ("in", "runs", [gain for each in gains for gain in each]),
            ("on", "sets", [statistics.fmean(each) for each in gains]),
        )
    ]
    name = key.replace("_", " ")
    return f"Single network against a random one, trained as long, by {name}: {'; '.join(counts)}."


def _mean(sides: Sequence[Mapping[str, float]], key: str) -> float:
    return statistics.fmean(side[key] for side in sides)


def _pairs(pairs: Sequence[tuple[float, float]]) -> str:
    ours, theirs = (statistics.fmean(pair[place] for pair in pairs) for place in (0, 1))
    return f"{ours:.4f} against {theirs:.4f}, {_difference([one - other for one, other in pairs])} points"


def _difference(values: Sequence[float]) -> str:
    mean = 100 * statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:+.2f}"
    margin = 200 * statistics.stdev(values) / len(values) ** 0.5
    return f"{mean:+.2f} ± {margin:.2f}" + (" (a tie)" if abs(mean) <= margin else "")
