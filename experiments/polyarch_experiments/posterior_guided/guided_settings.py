"""What the prior and the temperature do to posterior-guided search (tables 4 and 5)."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, side_by_side, summary, with_spread
from polyarch_experiments.images import NAMES, Images, store_of
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import POSTERIOR_GUIDED_SEARCH
from polyarch_experiments.posterior_guided.fairness import if_fair, lower
from polyarch_experiments.posterior_guided.gated_networks import (
    LARGE,
    SMALL,
    TINY,
    Drawn,
    build,
    learn,
    of_family,
    search_of,
)
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of, seeded
from polyarch_experiments.verdict import claim

VariantAndSeed = tuple[str, int]
"""``data, variant`` and a seed."""


def items(settings: Settings) -> dict[str, VariantAndSeed]:
    """Every variant on every data set, all first seeds first."""
    return seeded(counts(settings))


def counts(settings: Settings) -> dict[str, int]:
    """How many seeds every ``data, variant`` has."""
    return {f"{data}, {variant}": settings["seeds"] for data in settings["data"] for variant in variants(settings)}


def variants(settings: Settings) -> list[str]:
    """``prior d^2`` at the usual temperature, ``temperature t`` with the usual prior; others than the family are named.

    Of a further family the usual temperature is among the variants.
    """
    usual_too = [settings["temperature"], *settings["temperatures"]]
    return [
        *(f"prior {value:g}" for value in settings["square_length_scales"]),
        *(f"temperature {value:g}" for value in settings["temperatures"]),
        *(f"temperature {value:g} {family}" for family in further(settings) for value in usual_too),
    ]


def further(settings: Settings) -> list[str]:
    """Families besides the usual one whose temperature changes."""
    families: list[str] = settings.get("temperature_families", [])
    return families


def run(settings: Settings, item: VariantAndSeed, folder: Path) -> dict[str, Any]:
    """Trains one variant and draws from its posterior."""
    name, seed = item
    data, variant = name.split(", ")
    kind, value, *others = variant.split()
    family = others[0] if others else settings["family"]
    settings = of_family(settings, family)
    images = Images.of(settings, data, seed)
    search = search_of(settings)
    if kind == "prior":
        search = replace(search, length_scale=math.sqrt(float(value)))
    else:
        search = replace(search, temperature=float(value))
    net = build(settings, family, images, seed)
    q = learn(settings, images, net, search, seed, store_of(folder, name, seed)).q
    drawn = Drawn.of(settings, images, net, q, seed, "guided")
    return {"keep_rate": q.keep_rate, **drawn.summary(images)}


def _of(settings: Settings, runs: dict[str, Any], data: str, variant: str) -> list[dict[str, Any]]:
    return runs_of(runs, counts(settings), f"{data}, {variant}")


def _errors(settings: Settings, runs: dict[str, Any], data: str, variant: str) -> list[float]:
    return [100 * (1 - run["test"]["accuracy"]) for run in _of(settings, runs, data, variant)]


def usual(settings: Settings) -> str:
    """The variant that the others differ from."""
    return f"prior {settings['square_length_scale']:g}"


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claims 2 and 3; a claim holds if the intervals over seeds of every data set say so."""
    return if_fair(settings, [*_prior(settings, runs), _temperature(settings, runs)])


def _prior(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    scales = settings["square_length_scales"]
    sizes, errors, smaller, inside = [], [], [], []
    for data in settings["data"]:
        found = {scale: _of(settings, runs, data, f"prior {scale:g}") for scale in scales}
        size = {scale: [run["cost"]["parameters"] / 1e3 for run in found[scale]] for scale in scales}
        error = {scale: _errors(settings, runs, data, f"prior {scale:g}") for scale in scales}
        smaller += [
            lower(f"{NAMES[data]}, {later:g} minus {earlier:g}", size[later], size[earlier])
            for earlier, later in itertools.pairwise(scales)
        ]
        if len(scales) > 2:
            lowest = min(scales[1:-1], key=lambda scale: statistics.fmean(error[scale]))
            inside += [
                lower(f"{NAMES[data]}, {lowest:g} minus {end:g}", error[lowest], error[end])
                for end in (scales[0], scales[-1])
            ]
        sizes.append(f"{NAMES[data]}: " + ", ".join(f"{spread(size[scale], 1)} ({scale:g})" for scale in scales))
        errors.append(f"{NAMES[data]}: " + ", ".join(f"{spread(error[scale], 2)} % ({scale:g})" for scale in scales))
    return [
        claim(
            "A larger length scale makes smaller networks.",
            smaller,
            f"thousand parameters of the best draw by d^2: {'; '.join(sizes)}",
            number=2,
            document="49.9, 33.4, 23.8, 18.2 million for d^2 = 50, 150, 250, 500",
        ),
        claim(
            "The error has its minimum at a length scale in between.",
            inside,
            f"test error of the best draw by d^2: {'; '.join(errors)}",
            number=2,
            document="2.13, 2.06, 2.27, 2.39 % for d^2 = 50, 150, 250, 500",
        ),
    ]


def _temperature(settings: Settings, runs: dict[str, Any]) -> Claim:
    usual_one, parts, findings = settings["temperature"], [], []
    families = {settings["family"]: usual(settings)}
    families |= {family: f"temperature {usual_one:g} {family}" for family in further(settings)}
    for data in settings["data"]:
        for family, variant in families.items():
            name, end = f"{NAMES[data]} {family}", "" if family == settings["family"] else f" {family}"
            cold = _errors(settings, runs, data, variant)
            warm = {
                value: _errors(settings, runs, data, f"temperature {value:g}{end}")
                for value in settings["temperatures"]
            }
            findings += [lower(name, cold, values) for value, values in warm.items() if value > usual_one]
            told = [f"{spread(cold, 2)} % ({usual_one:g})"]
            told += [f"{spread(values, 2)} % ({value:.2g})" for value, values in warm.items()]
            parts.append(f"{name}: {', '.join(told)}")
    return claim(
        f"A temperature of {usual_one:g} is better than a higher one.",
        findings,
        f"points of difference; test error of the best draw by temperature: {'; '.join(parts)}",
        number=3,
        document="EI: 2.56 % at 1/5, 2.74 % at 2/3; M: 2.20 %, 2.49 %",
    )


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Every variant."""
    rows = []
    for data in settings["data"]:
        for variant in variants(settings):
            found = _of(settings, runs, data, variant)
            rows.append(
                [
                    NAMES[data],
                    variant,
                    spread(_errors(settings, runs, data, variant), 2),
                    spread([100 * (1 - run["mean_accuracy"]) for run in found], 2),
                    spread([run["cost"]["parameters"] / 1e3 for run in found], 1),
                    spread([run["cost"]["macs"] / 1e6 for run in found], 2),
                    spread([100 * (1 - run["keep_rate"]) for run in found], 1),
                    spread([100 * run["dropped_operations"] for run in found], 1),
                ]
            )
    columns = [
        "data", "variant", "best draw, test error in %", "mean of draws, test error in %", "parameters, thousand",
        "MACs, million", "mean drop probability, %", "operations dropped, %",
    ]  # fmt: skip
    return {
        f"{settings['family']} with d^2 = {settings['square_length_scale']:g} unless said otherwise, and N = "
        f"{settings.get('prior_examples', settings['train']):,}": Table(columns, rows)
    }


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Error and size over the length scale."""
    errors, sizes = [], []
    for data in settings["data"]:
        for scale in settings["square_length_scales"]:
            found = _of(settings, runs, data, f"prior {scale:g}")
            place = {"x": scale, "series": NAMES[data]}
            errors.append({**place, **summary(_errors(settings, runs, data, f"prior {scale:g}"))})
            sizes.append({**place, **summary([run["cost"]["parameters"] / 1e3 for run in found])})
    return {
        "guided_prior": side_by_side(
            with_spread(errors, "squared length scale", "test error of the best draw, %", series="", log=True),
            with_spread(sizes, "squared length scale", "thousand parameters", series="", log=True),
        )
    }


_CPU: Settings = {
    **SMALL, "data": ["fashion_mnist", "cifar10"], "seeds": 3, "family": "MI", "candidates": 16,
    "square_length_scale": 150.0, "square_length_scales": [50.0, 150.0, 500.0], "temperatures": [2 / 3],
    "temperature_families": ["M"],
}  # fmt: skip

GUIDED_SETTINGS = Experiment(
    name="guided_settings",
    document=POSTERIOR_GUIDED_SEARCH,
    claim="The best of some draws under other length scales of the prior and another temperature of the relaxation.",
    presets={
        "quick": {
            **_CPU, **TINY, "data": ["digits"], "seeds": 1, "square_length_scale": 150.0,
            "square_length_scales": [50.0, 150.0, 500.0],
        },
        "cpu": _CPU,
        "paper": {
            **_CPU, **LARGE, "data": ["cifar10"], "square_length_scale": 150.0,
            "square_length_scales": [50.0, 150.0, 250.0, 500.0], "temperature_families": ["EI", "M"],
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
