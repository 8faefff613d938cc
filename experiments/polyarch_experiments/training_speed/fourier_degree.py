"""Fourier series: does SoTL find the degree, over fixed degrees and by gradient search (section 4.1.2)?"""

from __future__ import annotations

import math
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
from polyarch_experiments.verdict import claim, finding, over_seeds, paired

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
    """The sweep, both sides, T, and validation loss; intervals are over seeds."""
    degree, unrollings = settings["degree"], settings["unrollings"]
    sums = [run["sotl"] for run in _of(settings, runs, "sweep")]
    best = [int(min(one, key=one.__getitem__)) for one in sums]
    margins = [
        min(100 * (value / one[str(degree)] - 1) for at, value in one.items() if int(at) != degree) for one in sums
    ]
    shortest, longest = min(unrollings), max(unrollings)
    steps = {name: _steps(settings, runs, name) for name in _names(settings)}
    told = {name: _told(settings, found) for name, found in steps.items()}
    return [
        claim(
            "Over fixed degrees, SoTL is lowest at the true one.",
            [finding("per cent that the next one is above it", over_seeds(margins), above=0)],
            f"lowest at {', '.join(map(str, best))} (true: {degree}); {_above(sums, degree)}",
            number=16,
            document="figure 4.2: degree 3 trains fastest",
        ),
        *_rest_claims(settings, runs),
        claim(
            "The larger T, the fewer training steps until the degree is reached from below.",
            [
                finding(
                    f"fewer with T {other} than with T {one}", paired(steps[f"T {one}"], steps[f"T {other}"]), above=0
                )
                for one, other in pairwise(unrollings)
            ],
            f"steps until MaxDeg is {degree - NEAR}: "
            + "; ".join(f"T {unroll}: {told[f'T {unroll}']}" for unroll in unrollings)
            + f"; with one decay for all, their fixed points differ: {_bound_for(settings)}",
            number=17,
            document="figure 4.3b: significantly faster with higher T, from -1",
        ),
        claim(
            f"SoTL is faster than the validation loss, both with T = {shortest}.",
            [finding("fewer steps", paired(steps["validation"], steps[f"T {shortest}"]), above=0)],
            f"SoTL {told[f'T {shortest}']}, validation loss {told['validation']}; with one decay for both, their fixed "
            "points differ, see above",
            number=17,
            document="figure 4.3b: T = 2 (val) is the slowest",
        ),
        claim(
            "SoTL is faster than the validation loss with a decay that is even per training step, too, so that "
            f"both are bound for about the same MaxDeg (T = {shortest}).",
            [finding("fewer steps", paired(steps["even validation"], steps[f"even T {shortest}"]), above=0)],
            f"SoTL {told[f'even T {shortest}']}, validation loss {told['even validation']}",
        ),
        claim(
            "The gain is not only that the decay of MaxDeg acts once per T steps: with a decay that is even per "
            "training step, the largest T still takes fewer steps than the smallest.",
            [finding("fewer steps", paired(steps[f"even T {shortest}"], steps[f"even T {longest}"]), above=0)],
            "; ".join(f"T {unroll}: {told[f'even T {unroll}']}" for unroll in unrollings),
        ),
    ]


def _rest_claims(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Where searches from all starts are after half of their steps and at the end, by both rules."""
    degree, starts = settings["degree"], settings["starts"]
    ends = {start: _of(settings, runs, f"start {start}") for start in starts}
    values = [run[when] for found in ends.values() for run in found for when in ("half", "final")]
    rest = _fixed_point(settings, settings["unroll"])
    floors = {math.floor(value) for value in values}
    lengths = {"half": settings["long_steps"] // 2, "final": settings["long_steps"]}
    return [
        claim(
            "Gradient search is near the true degree from every start, and still is after twice as many steps.",
            [
                finding(
                    f"MaxDeg from {start} after {steps:,} steps",
                    over_seeds([run[when] for run in found]),
                    above=degree - NEAR,
                    below=degree + NEAR,
                )
                for start, found in ends.items()
                for when, steps in lengths.items()
            ],
            f"T = {settings['unroll']}",
            number=17,
            document="figure 4.3a: converges towards 3 from all starts, T = 25",
            ours=f"within {NEAR} of the degree",
        ),
        claim(
            "The terms up to MaxDeg, which the thesis keeps, are those of the true degree at both lengths.",
            [
                finding(
                    f"MaxDeg from {start} at the end",
                    over_seeds([run["final"] for run in found]),
                    above=degree,
                    below=degree + 1,
                )
                for start, found in ends.items()
            ],
            f"rounded down, of all seeds and both lengths: {', '.join(map(str, sorted(floors)))}",
            number=17,
            document="section 4.1.2: terms of degree at most MaxDeg",
        ),
        claim(
            "The search is at rest: MaxDeg hardly moves in the second half of the steps, and ends near the fixed point "
            "that follows from the two decays in closed form.",
            [
                finding(f"{name} from {start}", over_seeds(values), above=-AT_REST, below=AT_REST)
                for start, found in ends.items()
                for name, values in (
                    ("moved", [run["final"] - run["half"] for run in found]),
                    ("beyond the fixed point", [run["final"] - rest for run in found]),
                )
            ],
            f"fixed point {rest:.3f}",
            ours=f"{AT_REST}",
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
