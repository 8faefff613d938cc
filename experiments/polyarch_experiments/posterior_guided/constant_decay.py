"""The prior of posterior-guided search against a constant L2 term, at equal size (table 2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from polyarch.estimators import MACs
from polyarch.searchers import Limit, Limits
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, summary
from polyarch_experiments.images import NAMES, Images, store_of
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import POSTERIOR_GUIDED_SEARCH
from polyarch_experiments.posterior_guided.fairness import lower
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

TermAndSeed = tuple[str, int]
"""``data, term`` and a seed."""

TERMS = {"prior": "d^2 (1 - p) / (2N)", "constant": "a constant"}


def counts(settings: Settings) -> dict[str, int]:
    """How many seeds every ``data, term`` has."""
    return {f"{data}, {term}": settings["seeds"] for data in settings["data"] for term in TERMS}


def items(settings: Settings) -> dict[str, TermAndSeed]:
    """Both terms on every data set, all first seeds first."""
    return seeded(counts(settings))


def run(settings: Settings, item: TermAndSeed, folder: Path) -> dict[str, Any]:
    """Learns a posterior with one of the terms, within a limit on operations, and draws networks that keep it."""
    name, seed = item
    data, term = name.split(", ")
    settings = of_family(settings, settings["family"])
    images = Images.of(settings, data, seed)
    net = build(settings, settings["family"], images, seed)
    search = search_of({**settings, "square_length_scale": settings["prior"]})
    if term == "constant":
        search = replace(search, constant_decay=settings["constant_decay"])
    limits = Limits(net, [Limit(MACs(images.train.input_shape), settings["share"] * net.cost(net.whole()).macs)])
    q = learn(settings, images, net, search, seed, store_of(folder, name, seed), limits).q
    return {"keep_rate": q.keep_rate, **Drawn.of(settings, images, net, q, seed, "guided", limits).summary(images)}


def _errors(settings: Settings, runs: dict[str, Any], data: str, term: str) -> list[float]:
    found = runs_of(runs, counts(settings), f"{data}, {term}")
    return [100 * (1 - one["test"]["accuracy"]) for one in found]


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Differences paired by seed."""
    sides = {data: {term: _errors(settings, runs, data, term) for term in TERMS} for data in settings["data"]}
    return [
        claim(
            "At equal size, a constant weight of the squared kernels in place of d^2 (1 - p) / (2N) is worse.",
            [lower(NAMES[data], side["prior"], side["constant"]) for data, side in sides.items()],
            "points of difference of the best draws",
            number=3,
            document="CIFAR-100: 14.28 % with 46.4 million parameters, 17.41 % with 39.6 million with a constant",
        )
    ]


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Errors and sizes with both terms."""
    rows = []
    for data in settings["data"]:
        for term, title in TERMS.items():
            found = runs_of(runs, counts(settings), f"{data}, {term}")
            rows.append(
                [
                    NAMES[data],
                    title,
                    spread(_errors(settings, runs, data, term), 2),
                    spread([100 * (1 - one["mean_accuracy"]) for one in found], 2),
                    spread([one["cost"]["parameters"] / 1e3 for one in found], 1),
                    spread([one["cost"]["macs"] / 1e6 for one in found], 3),
                ]
            )
    columns = ["data", "weight of squared kernels", "best draw, test error in %", "mean of draws, test error in %"]
    columns += ["parameters, thousand", "MACs, million"]
    return {f"{settings['family']} with at most {settings['share']:.0%} of its operations": Table(columns, rows)}


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Errors of the best draws side by side."""
    rows = [
        {"x": NAMES[data], "series": title, **summary(_errors(settings, runs, data, term))}
        for data in settings["data"]
        for term, title in TERMS.items()
    ]
    return {"constant_decay": grouped_bars(rows, "", "test error, %", series="weight of squared kernels")}


_CPU: Settings = {
    **SMALL, "data": ["fashion_mnist", "cifar10"], "seeds": 3, "family": "M", "candidates": 16, "share": 0.5,
    "prior": 50.0, "constant_decay": 4e-5,
}  # fmt: skip

CONSTANT_DECAY = Experiment(
    name="constant_decay",
    document=POSTERIOR_GUIDED_SEARCH,
    claim="The best of some draws with the prior, and with a constant about as large as the mean of what it stands "
    "for; a limit on operations holds in both trainings.",
    presets={
        "quick": {**_CPU, **TINY, "data": ["digits"], "seeds": 1},
        "cpu": _CPU,
        "paper": {
            **_CPU, **LARGE, "data": ["cifar100"], "family": "MI", "candidates": 5000, "share": 0.6, "prior": 2500.0,
            "constant_decay": 1.6e-3,
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
