"""Spirals: does the gradient on q track its closed form (expectation maximisation)?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyarch.methods.depth.search import DepthSearch, Updates
from polyarch_experiments.depth.spirals import QUICK, SPIRALS, measure, network, problem
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec, summary, with_spread
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import VARIATIONAL_DEPTH
from polyarch_experiments.results import Claim
from polyarch_experiments.verdict import claim, finding, interval_in_words, over_seeds, paired

TRACKED = 0.1
"""Nats of KL up to which q counts as the exact posterior."""
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
    """How far both kinds of q end from the exact posterior, and depths, bounds and test results side by side."""
    found = {updates: [runs[f"{updates} seed {seed}"] for seed in range(settings["seeds"])] for updates in UPDATES}
    apart = {updates: over_seeds([run["kl"] for run in side]) for updates, side in found.items()}
    depths = {updates: [float(run["learned_depths"]["argmax"]) for run in side] for updates, side in found.items()}
    logs = {updates: [run["mixtures"]["learned"]["mean_log_p"] for run in side] for updates, side in found.items()}
    bounds = {updates: [run["elbo"] for run in side] for updates, side in found.items()}
    exact = [float(run["depths"]["argmax"]) for run in found["gradient"]]
    further = paired(depths["gradient"], exact)
    return [
        claim(
            "The q of gradient updates is the exact posterior for the final weights (within 0.1 nats of KL).",
            [finding("KL(learned || exact) in nats", apart["gradient"], below=TRACKED)],
            f"em {interval_in_words(apart['em'], 2)}; depth of the learned q minus that of the exact posterior for the "
            f"same weights {interval_in_words(further, 1)}",
            document="the variational posterior tracks the true posterior during gradient updates (appendix A)",
            ours="0.1 nats",
        ),
        claim(
            "Gradient updates and expectation maximisation predict alike (mean log p within 0.05 nats).",
            [finding("difference", paired(logs["gradient"], logs["em"]), above=-0.05, below=0.05)],
            "; ".join(
                f"{updates}: depth {spread(depths[updates], 1)}, bound {spread(bounds[updates], 2)}, "
                f"log p {spread(logs[updates], 3)}"
                for updates in UPDATES
            ),
            ours="0.05 nats",
        ),
    ]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """The learned posteriors, and the exact ones for the weights that gradient updates ended with."""
    seeds = range(settings["seeds"])
    sides = {"gradient": ("gradient", "q"), "gradient, exact for its weights": ("gradient", "exact"), "em": ("em", "q")}
    rows = [
        {"x": depth, "series": name, **summary([runs[f"{updates} seed {seed}"][kind][depth] for seed in seeds])}
        for name, (updates, kind) in sides.items()
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
        "paper": {**SPIRALS, "max_depth": 50, "epochs": 8000},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)
