"""Fourier series: does SoTL find the degree, over fixed degrees and by gradient search (section 4.1.2)?"""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Row, Spec, lines, side_by_side, summary, with_spread
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import DIFFERENTIABLE_SEARCH
from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed.fourier import RegressionData, fourier
from polyarch_experiments.training_speed.fourier_fixed_point import fixed_point
from polyarch_experiments.training_speed.fourier_search import NEAR, decay_of, search, sotl

AT_REST = 0.1
"""A search is at rest when MaxDeg moves by less in the second half of its steps, and ends this near its fixed point."""
HELD_OUT = 0.2
"""The share of the points that no step is taken on."""


def items(settings: Settings) -> dict[str, dict[str, Any]]:
    """The sweep; searches from several starts, with several T, on validation loss, and with an even decay."""
    lowest, unrollings = min(settings["starts"]), settings["unrollings"]
    common = {"start": lowest, "steps": settings["steps"]}
    searches: dict[str, dict[str, Any]] = {
        f"start {start}": {"start": start, "steps": settings["long_steps"], "unroll": settings["unroll"]}
        for start in settings["starts"]
    }
    for decay in ("", "even "):
        for unroll in unrollings:
            searches[f"{decay}T {unroll}"] = {**common, "unroll": unroll, "even": bool(decay)}
        searches[f"{decay}validation"] = {**common, "unroll": min(unrollings), "even": bool(decay), "validation": True}
    return {
        f"{name} seed {seed}": {"seed": seed, **one}
        for seed in range(settings["seeds"])
        for name, one in {"sweep": {}, **searches}.items()
    }


def run(settings: Settings, item: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One sweep or one search."""
    seed = item["seed"]
    data = fourier(settings["points"], seed=seed, degree=settings["degree"], max_degree=settings["max_degree"])
    held_out = round(HELD_OUT * settings["points"])
    valid, train = (RegressionData(*(part[rows] for part in data)) for rows in (slice(held_out), slice(held_out, None)))
    if "start" not in item:
        return {
            "sotl": {str(degree): sotl(settings, train, degree, seed) for degree in range(settings["max_degree"] + 1)}
        }
    return search(settings, item, train, valid)


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """The sweep, both sides, T, and validation loss."""
    degree, unrollings = settings["degree"], settings["unrollings"]
    sums = [run["sotl"] for run in _of(settings, runs, "sweep")]
    best = [int(min(one, key=one.__getitem__)) for one in sums]
    shortest = min(unrollings)
    steps = {name: _steps(settings, runs, name) for name in _names(settings)}
    means = {name: statistics.fmean(found) for name, found in steps.items()}
    by_length = [means[f"T {unroll}"] for unroll in unrollings]
    even = [means[f"even T {unroll}"] for unroll in unrollings]
    told = {name: _told(settings, found) for name, found in steps.items()}
    return [
        Claim(
            number=16,
            text="Over fixed degrees, SoTL is lowest at the true one, with every seed.",
            supported=set(best) == {degree},
            numbers=f"lowest at {', '.join(map(str, best))} (true: {degree}); {_above(sums, degree)}",
            document="figure 4.2: degree 3 trains fastest",
        ),
        *_rest_claims(settings, runs),
        Claim(
            number=17,
            text="The larger T, the fewer training steps until the degree is reached from below.",
            supported=all(one >= other for one, other in pairwise(by_length)) and by_length[0] > by_length[-1],
            numbers=f"steps until MaxDeg is {degree - NEAR}: "
            + "; ".join(f"T {unroll}: {told[f'T {unroll}']}" for unroll in unrollings)
            + f"; with one decay for all, their fixed points differ: {_bound_for(settings)}",
            document="figure 4.3b: significantly faster with higher T, from -1",
        ),
        Claim(
            number=17,
            text=f"SoTL is faster than the validation loss, both with T = {shortest}.",
            supported=means[f"T {shortest}"] < means["validation"],
            numbers=f"SoTL {told[f'T {shortest}']}, validation loss {told['validation']}; with one decay for "
            "both, their fixed points differ, see above",
            document="figure 4.3b: T = 2 (val) is the slowest",
        ),
        Claim(
            text="SoTL is faster than the validation loss with a decay that is even per training step, too, so that "
            f"both are bound for about the same MaxDeg (T = {shortest}).",
            supported=means[f"even T {shortest}"] < means["even validation"],
            numbers=f"SoTL {told[f'even T {shortest}']}, validation loss {told['even validation']}",
        ),
        Claim(
            text="The gain is not only that the decay of MaxDeg acts once per T steps: with a decay that is even per "
            "training step, the largest T still takes at least 10% fewer steps than the smallest.",
            supported=even[-1] <= 0.9 * even[0],
            numbers="; ".join(f"T {unroll}: {told[f'even T {unroll}']}" for unroll in unrollings),
        ),
    ]


def _rest_claims(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Where searches from all starts are after half of their steps and at the end, by both rules."""
    degree, starts = settings["degree"], settings["starts"]
    ends = {start: _of(settings, runs, f"start {start}") for start in starts}
    every = [run for found in ends.values() for run in found]
    values = [run[when] for run in every for when in ("half", "final")]
    rest = _fixed_point(settings, settings["unroll"])
    moved = max(abs(run["final"] - run["half"]) for run in every)
    away = max(abs(run["final"] - rest) for run in every)
    places = {
        when: "; ".join(f"from {start}: {spread([run[when] for run in found], 2)}" for start, found in ends.items())
        for when in ("half", "final")
    }
    lengths = f"{settings['long_steps'] // 2:,} and {settings['long_steps']:,} steps"
    return [
        Claim(
            number=17,
            text=f"Gradient search is within {NEAR} of the true degree from every start and with every seed, and still "
            "is after twice as many steps.",
            supported=all(abs(value - degree) <= NEAR for value in values),
            numbers=f"T = {settings['unroll']}, MaxDeg after {lengths}: {places['half']}; then {places['final']}",
            document="figure 4.3a: converges towards 3 from all starts, T = 25",
        ),
        Claim(
            number=17,
            text="The terms up to MaxDeg, which the thesis keeps, are those of the true degree at both lengths.",
            supported={math.floor(value) for value in values} == {degree},
            numbers=f"MaxDeg rounded down: {', '.join(map(str, sorted({math.floor(value) for value in values})))}",
            document="section 4.1.2: terms of degree at most MaxDeg",
        ),
        Claim(
            text=f"The search is at rest: in the second half MaxDeg moves by less than {AT_REST}, and it ends within "
            f"{AT_REST} of the fixed point that follows from the two decays in closed form.",
            supported=moved < AT_REST and away < AT_REST,
            numbers=f"moves by at most {moved:.3f}; fixed point {rest:.3f}, at most {away:.3f} away",
        ),
    ]


def _fixed_point(settings: Settings, unroll: int, *, even: bool = False, validation: bool = False) -> float:
    return fixed_point(
        settings["degree"],
        decay=decay_of(settings, unroll, even=even),
        weight_decay=settings["weight_decay"],
        rate=settings["rate"],
        steps=unroll,
        validation=validation,
    )


def _bound_for(settings: Settings) -> str:
    """The fixed points of the searches that differ in what is differentiated."""
    found = {f"T {unroll}": _fixed_point(settings, unroll) for unroll in settings["unrollings"]}
    found["validation"] = _fixed_point(settings, min(settings["unrollings"]), validation=True)
    return ", ".join(f"{name} {value:.2f}" for name, value in found.items())


def _of(settings: Settings, runs: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [runs[f"{name} seed {seed}"] for seed in range(settings["seeds"])]


def _above(sums: list[dict[str, float]], degree: int) -> str:
    """How much higher SoTL is one degree below, one above and at the largest degree."""
    others = (degree - 1, degree + 1, max(map(int, sums[0])))
    shares = {other: [100 * (one[str(other)] / one[str(degree)] - 1) for one in sums] for other in others}
    digits = {other: 0 if values[0] > 10 else 3 for other, values in shares.items()}
    return "; ".join(f"degree {other}: {spread(values, digits[other])} % higher" for other, values in shares.items())


def _names(settings: Settings) -> list[str]:
    """The searches from the lowest start that differ in what is differentiated."""
    lengths = [f"T {unroll}" for unroll in settings["unrollings"]]
    return [*lengths, "validation", *(f"even {name}" for name in lengths), "even validation"]


def _steps(settings: Settings, runs: dict[str, Any], name: str) -> list[float]:
    """Training steps until the degree is reached, all of them where it is not."""
    return [float(run["reached"] or settings["steps"]) for run in _of(settings, runs, name)]


def _told(settings: Settings, steps: list[float]) -> str:
    missed = sum(value == settings["steps"] for value in steps)
    return spread(steps, 0) + (f" ({missed} of {len(steps)} never)" if missed else "")


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """SoTL over the degree, and MaxDeg over the search (figures 4.2 and 4.3)."""
    degrees = range(settings["degree"], settings["max_degree"] + 1)
    sums = [run["sotl"] for run in _of(settings, runs, "sweep")]
    sweep: list[Row] = [
        {"x": degree, **summary([100 * (one[str(degree)] / one[str(settings["degree"])] - 1) for one in sums])}
        for degree in degrees
    ]

    def curves(names: list[str]) -> list[Row]:
        return [
            {"x": points[0][0], "series": name, **summary([value for _, value in points])}
            for name in names
            for points in zip(*(run["curve"] for run in _of(settings, runs, name)), strict=True)
        ]

    starts = [f"start {start}" for start in settings["starts"]]
    names = _names(settings)
    half = len(names) // 2
    even = [{**row, "series": row["series"].removeprefix("even ")} for row in curves(names[half:])]
    lowest = min(settings["starts"])
    return {
        "fourier_sweep": with_spread(
            sweep, "degree of the model", "% above the true degree", title="SoTL of models that contain the series"
        ),
        "fourier_starts": lines(
            curves(starts), "training steps", "MaxDeg", title=f"Search from several starts, T = {settings['unroll']}"
        ),
        "fourier_unrolling": side_by_side(
            lines(curves(names[:half]), "training steps", "MaxDeg", title=f"Search from {lowest}"),
            lines(even, "training steps", "MaxDeg", title="The same with an even decay per step"),
        ),
    }


# The authors' code has decays of 0.01 for MaxDeg and of 0.001 for the weights (github.com/Mirofil/SOTL_NAS, max_deg).
# These are 40 times as large, so that a search from 15 comes to rest in thousands of steps and not in hundreds of
# thousands. The ratio decides on the fixed point: by the closed form, that for T = 25 is between k and k + 1 for every
# true degree k from 0 to 8.
_CPU: Settings = {
    "points": 10_000, "degree": 3, "max_degree": 21, "batch_size": 64, "rate": 0.01, "sweep_steps": 500, "steps": 3000,
    "long_steps": 24_000, "starts": [-1, 1, 6, 10, 15], "unroll": 25, "unrollings": [2, 10, 50, 100],
    "outer_rate": 0.01, "decay": 0.4, "weight_decay": 0.04, "seeds": 3,
}  # fmt: skip

FOURIER_DEGREE = Experiment(
    name="fourier_degree",
    document=DIFFERENTIABLE_SEARCH,
    claim="SoTL finds the degree of a Fourier series, over fixed degrees and by gradient search (figures 4.2, 4.3).",
    presets={
        "quick": {
            **_CPU, "points": 1000, "max_degree": 6, "sweep_steps": 100, "steps": 300, "long_steps": 300,
            "starts": [-1, 6], "unroll": 10, "unrollings": [2, 25], "seeds": 1,
        },
        "cpu": _CPU,
        "paper": {**_CPU, "unrollings": [2, 5, 10, 50, 100], "seeds": 10},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)  # fmt: skip
