"""Small networks by a limit: on draws from what was learned, and on what is learned (beyond the paper)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyarch.estimators import Parameters
from polyarch.searchers import Limit, Limits
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, side_by_side, summary
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
    tested,
    tune,
)
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of, seeded
from polyarch_experiments.verdict import claim

LimitAndSeed = tuple[str, int]
"""``data, when`` and a seed."""

WHEN = {"after": "limit after training", "during": "limit while training"}
STATES = {"drawn": "as drawn", "reestimated": "mean, own statistics", "tuned": "trained further"}


def counts(settings: Settings) -> dict[str, int]:
    """How many seeds every ``data, when`` has."""
    return {f"{data}, {when}": settings["seeds"] for data in settings["data"] for when in WHEN}


def items(settings: Settings) -> dict[str, LimitAndSeed]:
    """Both ways on every data set, all first seeds first."""
    return seeded(counts(settings))


def run(settings: Settings, item: LimitAndSeed, folder: Path) -> dict[str, Any]:
    """Learns a posterior, within the limit or not, and draws networks that keep it."""
    name, seed = item
    data, when = name.split(", ")
    settings = of_family(settings, settings["family"])
    images = Images.of(settings, data, seed)
    store = store_of(folder, name, seed)
    net = build(settings, settings["family"], images, seed)
    full = net.parameter_count(net.whole())
    limits = Limits(net, [Limit(Parameters(), settings["share"] * full)])
    during = limits if when == "during" else None
    q = learn(settings, images, net, search_of(settings), seed, store / "learned", during).q
    drawn = Drawn.of(settings, images, net, q, seed, "guided", limits)
    flat = Drawn.of(settings, images, net, drawn.draws.distribution.flat(), seed, "flat", limits)
    return {
        "keep_rate": q.keep_rate,
        "strength": drawn.draws.strength,
        "full_parameters": full,
        "drawn": drawn.summary(images),
        "flat": flat.summary(images),
        "reestimated": drawn.reestimated_accuracy(images, settings["candidates"]),
        "tuned": tested(tune(settings, images, net.extract(drawn.best), seed, store / "tuned"), images),
    }


def errors(settings: Settings, runs: dict[str, Any], data: str, when: str, state: str) -> list[float]:
    """Test errors in %, one per seed: of the best draw, of it after further training, or of draws on average."""
    found = runs_of(runs, counts(settings), f"{data}, {when}")
    values = {
        "drawn": [run["drawn"]["test"]["accuracy"] for run in found],
        "flat": [run["flat"]["test"]["accuracy"] for run in found],
        "reestimated": [run["reestimated"] for run in found],
        "tuned": [run["tuned"]["accuracy"] for run in found],
    }
    return [100 * (1 - value) for value in values[state]]


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """A claim holds if the intervals over seeds of every data set say so."""
    tight = f"Networks of at most {settings['share']:.0%} of the parameters"
    claims = [
        _better(settings, runs, "drawn", f"{tight} are better as drawn if the limit holds while they are learned."),
        _better(settings, runs, "tuned", f"{tight} are better after further training, too."),
    ]
    return if_fair(settings, claims)


def _better(settings: Settings, runs: dict[str, Any], state: str, text: str) -> Claim:
    parts, findings = [], []
    for data in settings["data"]:
        found = {when: errors(settings, runs, data, when, state) for when in WHEN}
        findings.append(lower(NAMES[data], found["during"], found["after"]))
        told = ", ".join(f"{spread(values, 2)} % ({when})" for when, values in found.items())
        parts.append(f"{NAMES[data]}: {told}")
    return claim(text, findings, f"points of difference; test error: {'; '.join(parts)}")


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Both ways, as drawn and trained further."""
    rows = []
    for data in settings["data"]:
        for when, title in WHEN.items():
            found = runs_of(runs, counts(settings), f"{data}, {when}")
            states = ("drawn", "reestimated", "tuned", "flat")
            rows.append(
                [
                    NAMES[data],
                    title,
                    *(spread(errors(settings, runs, data, when, state), 2) for state in states),
                    spread([run["drawn"]["cost"]["parameters"] / 1e3 for run in found], 1),
                    spread([run["drawn"]["cost"]["macs"] / 1e6 for run in found], 2),
                    spread([100 * run["keep_rate"] for run in found], 1),
                ]
            )
    columns = [
        "data", "how", "best draw", "mean of draws, own normalisation statistics", "best draw, trained further",
        "best draw at one rate", "parameters, thousand", "MACs, million", "channels kept by the posterior, %",
    ]  # fmt: skip
    caption = f"Test error in % of {settings['family']} with at most {settings['share']:.0%} of the parameters"
    return {caption: Table(columns, rows)}


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Errors side by side."""
    panels = []
    for data in settings["data"]:
        rows = [
            {"x": state, "series": how, **summary(errors(settings, runs, data, when, name))}
            for name, state in STATES.items()
            for when, how in WHEN.items()
        ]
        panels.append(grouped_bars(rows, "", "test error, %", series="", title=NAMES[data]))
    return {"limit_errors": side_by_side(*panels)}


_CPU: Settings = {
    **SMALL, "data": ["fashion_mnist", "cifar10"], "seeds": 3, "family": "MI", "candidates": 16, "share": 0.1,
}  # fmt: skip

GUIDED_LIMITS = Experiment(
    name="guided_limits",
    document=POSTERIOR_GUIDED_SEARCH,
    claim="Draws that keep a limit on parameters far below the posterior's average: either draws are conditioned on "
    "the limit after training, or the posterior is kept within it while it is learned.",
    presets={
        "quick": {**_CPU, **TINY, "data": ["digits"], "seeds": 1, "share": 0.4},
        "cpu": _CPU,
        "paper": {**_CPU, **LARGE, "data": ["cifar10"], "seeds": 3},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
