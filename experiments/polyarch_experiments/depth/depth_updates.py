"""Spirals: does the gradient on q track its closed form (expectation maximisation)?"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from polyarch.methods.depth.search import DepthSearch, Updates
from polyarch_experiments.depth.spirals import QUICK, SPIRALS, measure, network, problem
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec, summary, with_spread
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import VARIATIONAL_DEPTH
from polyarch_experiments.results import Claim

UPDATES: tuple[Updates, ...] = ("gradient", "em")


def items(settings: Settings) -> dict[str, tuple[Updates, int]]:
    """Both kinds of updates with every seed."""
    return {f"{updates} seed {seed}": (updates, seed) for updates in UPDATES for seed in range(settings["seeds"])}


def run(settings: Settings, item: tuple[Updates, int], folder: Path) -> dict[str, Any]:
    """One network with learned depth, from the same weights for both kinds."""
    updates, seed = item
    one = problem(settings, seed)
    net = network(settings, seed, settings["max_depth"], "learned")
    search = DepthSearch(epochs=settings["epochs"], patience=settings["patience"], updates=updates)
    q, history = search.fit(net, one.train, seed=seed)
    return measure(one, net.eval(), q, history)


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Depths, bounds and test results side by side."""
    found = {updates: [runs[f"{updates} seed {seed}"] for seed in range(settings["seeds"])] for updates in UPDATES}
    depths = {updates: [float(run["depths"]["argmax"]) for run in side] for updates, side in found.items()}
    logs = {updates: [run["pruned"]["mean_log_p"] for run in side] for updates, side in found.items()}
    bounds = {updates: [run["elbo"] for run in side] for updates, side in found.items()}
    apart = abs(statistics.fmean(depths["gradient"]) - statistics.fmean(depths["em"]))
    return [
        Claim(
            text="Gradient updates of q track the closed form: chosen depths within 2 blocks, log p within 0.05 nats.",
            supported=apart <= 2 and abs(statistics.fmean(logs["gradient"]) - statistics.fmean(logs["em"])) <= 0.05,
            numbers="; ".join(
                f"{updates}: depth {spread(depths[updates], 1)}, bound {spread(bounds[updates], 2)}, "
                f"log p {spread(logs[updates], 3)}"
                for updates in UPDATES
            ),
            document="the objective is convex in q; its optimum is the exact posterior",
        )
    ]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Both posteriors."""
    rows = [
        {
            "x": depth,
            "series": updates,
            **summary([runs[f"{updates} seed {seed}"]["q"][depth] for seed in range(settings["seeds"])]),
        }
        for updates in UPDATES
        for depth in range(settings["max_depth"] + 1)
    ]
    return {"updates": with_spread(rows, "depth", "q(depth)", series="", title="Posterior by kind of update")}


DEPTH_UPDATES = Experiment(
    name="depth_updates",
    document=VARIATIONAL_DEPTH,
    claim="Gradient updates of q track expectation maximisation.",
    presets={
        "quick": {**QUICK, "seeds": 1},
        "cpu": {**SPIRALS, "epochs": 2000},
        "paper": {**SPIRALS, "max_depth": 50, "epochs": 100_000},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)
