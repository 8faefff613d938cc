"""Tables and figures of a chain: figures 5 to 7, 9 and 10 and table 2 of the paper on inter-choice weights."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.ranking.correlations import correlation
from polyarch_experiments.experiment import Settings, Table
from polyarch_experiments.figures import Spec, scatter, side_by_side
from polyarch_experiments.interchoice.chain_networks import alone, supernets
from polyarch_experiments.interchoice.interchoice_figures import agreement_table, improvement_panels
from polyarch_experiments.interchoice.training_costs import cost_table
from polyarch_experiments.interchoice.weighted_supernets import correlations, gains
from polyarch_experiments.measures import spread

SHORT = {"kendall": "KT", "pearson": "PCC", "spearman": "SCC"}
"""What the paper calls correlations."""


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """How supernets rank, how far their seeds agree (table 2), and what training costs (table 1)."""
    seeds = range(settings["seeds"])
    names = [*settings["weights"], *settings["baselines"]]
    rows = [
        [name, f"{runs[f'{name}, seed 0']['parameters']:,}", spread(correlations(found), 2), spread(gains(found), 2)]
        for name, found in supernets(settings, runs, names).items()
    ]
    ranked = {"chain": {kind: [runs[f"{kind}, seed {seed}"] for seed in seeds] for kind in settings["weights"]}}
    columns = ["supernet", "parameters", "Kendall with the truth", "improvement of the top 10"]
    return {
        "Validation accuracy with inherited weights on the chain": Table(columns, rows),
        f"Agreement of seeds on {settings['consistent']} networks, mean over pairs": agreement_table(ranked),
        "What training the chain costs": cost_table({"chain": runs["cost"]}),
    }


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Improvement (5, 9), the truth (6), baselines (7), and the scores of pairs of seeds (10)."""
    weights = {"chain": supernets(settings, runs, list(settings["weights"]))}
    names = ["base", *settings["baselines"]]
    baselines = supernets(settings, runs, names)
    reset = supernets(settings, runs, names, "reset")
    return {
        "chain_improvement": improvement_panels(weights, ("mean_truth", "normalised", "kendall")),
        "chain_truth": _truth(settings, runs),
        "chain_baselines": improvement_panels({"statistics adapt": baselines, "statistics reset": reset}),
        "chain_improvement_of_all": improvement_panels(weights, ("mean_truth", "normalised"), least=1),
        "chain_agreement": _agreement(settings, runs),
    }


def _truth(settings: Settings, runs: dict[str, Any]) -> Spec:
    """Accuracies of one training against those of the mean of all, and training against test accuracies."""
    train, test = (alone(settings, runs, side) for side in ("train", "test"))
    mean = f"mean of {len(test)}"
    return side_by_side(
        _points({"both": (train[0], train.mean(0))}, "training accuracy (1), %", f"training accuracy, {mean}, %"),
        _points({"both": (test[0], test.mean(0))}, "test accuracy (1), %", f"{mean}, %"),
        _points(
            {"one": (train[0], test[0]), mean: (train.mean(0), test.mean(0))},
            "training accuracy, %",
            "test accuracy, %",
        ),
        columns=3,
    )


def _agreement(settings: Settings, runs: dict[str, Any]) -> Spec:
    """Scores of the same networks by every two seeds, a panel for every kind of weights."""
    panels = []
    for kind in settings["weights"]:
        scores = [100 * np.array(runs[f"{kind}, seed {seed}"]["val_acc"]) for seed in range(settings["seeds"])]
        pairs = {
            f"seeds {first} and {second}": (scores[first], scores[second])
            for first, second in combinations(range(len(scores)), 2)
        }
        panels.append(_points(pairs, f"{kind}: validation accuracy, %", "of the other seed, %"))
    return side_by_side(*panels)


def _points(series: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]], x: str, y: str) -> Spec:
    """A point per network, under the three correlations of every series."""
    rows = [
        {"x": float(first), "y": float(second), "series": name}
        for name, pair in series.items()
        for first, second in zip(*pair, strict=True)
    ]
    return scatter(
        rows, x, y, series="", title="\n".join(f"{name}: {_in_words(*pair)}" for name, pair in series.items())
    )


def _in_words(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    found = {short: correlation(measure, x, y) for measure, short in SHORT.items()}
    return ", ".join(f"{short} {'-' if value is None else f'{value:.2f}'}" for short, value in found.items())
