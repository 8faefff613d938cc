"""What inter-choice weights add, as intervals, and the claims on the spaces of NAS-Bench-201."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polyarch.ranking import Interval, RankSamples
from polyarch.ranking.bootstrap import Positions, bootstrap
from polyarch.ranking.correlations import as_rows, pair_agreements
from polyarch_experiments.experiment import Settings
from polyarch_experiments.interchoice.weighted_supernets import TOP, Ranked, runs_with, weights_of
from polyarch_experiments.results import Claim
from polyarch_experiments.verdict import all_of, any_of, claim, finding, not_run, several_seeds, student

NEUTRAL = 0.02
"""A normalised improvement that differs by less counts as the same."""
RESAMPLES = 300
"""Of the intervals of Kendall's tau between seeds, which take longest."""

HELPS = {
    "only conv": (
        "help", "biases and splits 'consistently favor architectures that are superior' (figure 4, conclusions)",
        {"above": 0.0}, all_of,
    ),
    "no zero": (
        "do not hurt", "candidates 'at least equivalent to the baseline' (figure 4)", {"above": -NEUTRAL}, all_of,
    ),
    "all": (
        "can hurt", "the baseline is hard to beat, 'adding weights can be a bad choice' (figure 4)", {"below": 0.0},
        any_of,
    ),
}  # fmt: skip
"""What extra weights are said to do in a space, what the paper reports, the bounds of the gain, and whether they are
those of every kind of weights or of one."""
MINUS_BASE = "normalised improvement of the top 10 minus that without extra weights"
AGREEMENT = "Kendall's tau of two seeds minus that without extra weights"


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Paired differences from supernets without extra weights; the criteria were written before the runs."""
    return [*_selection(settings, runs), *_agreement(settings, runs)]


def gain_of(extra: Sequence[Ranked], base: Sequence[Ranked]) -> Interval:
    """What some supernets add to the normalised improvement of the top 10 of others (0: mean of all, 1: the best)."""
    return mean_gain([(extra, base)])


def mean_gain(spaces: Sequence[tuple[Sequence[Ranked], Sequence[Ranked]]]) -> Interval:
    """The same, mean over spaces, each with networks of its own; every seed is compared with the same one."""
    found = []
    for position, (extra, base) in enumerate(spaces):
        seeds, truth = min(len(extra), len(base)), base[0]["truth"]
        samples = RankSamples(truth, seed=position)
        k, scale = min(TOP, len(truth)), max(truth) - statistics.fmean(truth) or 1.0
        ours, theirs = (samples.top([run["val_acc"] for run in side[:seeds]], k) for side in (extra, base))
        found.append(several_seeds((ours - theirs) / scale, seeds))
    return samples.interval(np.mean(found, axis=0))


def agreement_change(extra: Sequence[Ranked], base: Sequence[Ranked]) -> Interval:
    """How much more the seeds of some supernets agree than those of others: mean over pairs of seeds.

    The interval adds two errors: that of a bootstrap over architectures, and that over n seeds, which is Student's with
    the jackknife's standard error, sqrt((n - 1) / n sum_i (d_i - mean d)^2), where d_i leaves seed i out. It takes
    three seeds: two have a single pair.
    """
    seeds = min(len(extra), len(base))
    sides = [as_rows([run["val_acc"] for run in side[:seeds]]) for side in (extra, base)]

    def change(drawn: Positions, left_out: int | None = None) -> float | None:
        kept = [seed for seed in range(seeds) if seed != left_out]
        ours, theirs = (pair_agreements("kendall", side[kept][:, drawn]) for side in sides)
        known = [value for value in (*ours, *theirs) if value is not None]
        if len(known) < len(ours) + len(theirs):
            return None
        return statistics.fmean(known[: len(ours)]) - statistics.fmean(known[len(ours) :])

    count = sides[0].shape[1]
    cells = bootstrap(change, count, resamples=RESAMPLES)
    if seeds < 3 or cells.value is None or cells.low is None or cells.high is None:
        return Interval(cells.value, None, None)
    others = [change(np.arange(count), seed) or 0.0 for seed in range(seeds)]
    half = student(seeds) * math.sqrt((seeds - 1) ** 2 / seeds * statistics.variance(others))
    below, above = cells.value - cells.low, cells.high - cells.value
    return Interval(cells.value, cells.value - math.hypot(below, half), cells.value + math.hypot(above, half))


def pairs(
    settings: Settings, runs: Mapping[str, Any], space: str, *, least: int = 1
) -> dict[str, tuple[list[Ranked], list[Ranked]]]:
    """Every kind of extra weights beside ``base``, where both have so many seeds."""
    if space not in settings["spaces"]:
        return {}
    found = {kind: runs_with(settings, runs, space, kind) for kind in weights_of(settings)}
    base = found.pop("base")
    return {kind: (extra, base) for kind, extra in found.items() if min(len(extra), len(base)) >= least}


def _selection(settings: Settings, runs: Mapping[str, Any]) -> Iterator[Claim]:
    for space, (does, document, bounds, decide) in HELPS.items():
        found = pairs(settings, runs, space)
        planned = [kind for kind in weights_of(settings) if kind != "base"] if space in settings["spaces"] else []
        yield claim(
            f"Inter-choice weights {does} in the space {space!r}.",
            [finding(kind, gain_of(*found[kind]), **bounds) if kind in found else not_run(kind) for kind in planned],
            MINUS_BASE,
            number=1,
            document=document,
            ours=f"a loss of less than {NEUTRAL} counts as none" if space == "no zero" else None,
            decide=decide,
        )


def _agreement(settings: Settings, runs: Mapping[str, Any]) -> Iterator[Claim]:
    document = "Kendall's tau 0.761 base, 0.730 bias, 0.700 split, on the chain (table 2)"
    yield claim(
        "Inter-choice weights lower the agreement of seeds (Kendall's tau).",
        [
            finding(f"{kind} in {space}", agreement_change(*pair), below=0)
            for space in settings["spaces"]
            for kind, pair in pairs(settings, runs, space, least=2).items()
        ],
        AGREEMENT,
        number=2,
        document=document,
    )
    found = [pairs(settings, runs, space) for space in settings["spaces"]]
    yield claim(
        "On average over spaces, inter-choice weights select better networks.",
        [
            finding(kind, mean_gain([of_space[kind] for of_space in found]), above=0)
            if all(kind in of_space for of_space in found)
            else not_run(kind)
            for kind in weights_of(settings)
            if kind != "base"
        ],
        f"{MINUS_BASE}, mean over spaces",
        number=2,
        document="the selected architectures are better on average (section 4.3)",
    )
