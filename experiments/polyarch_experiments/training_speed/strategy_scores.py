"""What the runs of `strategy_ranking` measured: scores, truths and rank correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.errors import InvalidInput
from polyarch.ranking import rank_quality, top_k
from polyarch_experiments.distinct_cells import TRUTHS
from polyarch_experiments.experiment import Settings
from polyarch_experiments.ranked_supernets import curves_in
from polyarch_experiments.seeds import runs_of

Values = NDArray[np.float64]

NAMES = {
    "single_path": "SPOS",
    "fair": "FairNAS",
    "multi_path": "MultiPath",
    "reptile": "Reptile",
    "meta_prox": "MetaProx",
    "multi_path_meta_prox": "MultiPath+MetaProx",
}
ESTIMATORS = {
    "sotl": "SoTL",
    "sotl_last": "SoTL, last half",
    "sotl_ema": "SoTL, average",
    "sovl": "SoVL",
    "tl_mini": "TLMini",
    "val_acc": "ValAcc",
    "val_acc_mini": "ValAccMini",
    "val_acc_after": "ValAcc after the run",
    "sog": "SoG",
    "sogn": "SoGN",
    "params": "parameters",
    "macs": "MACs",
    "synflow": "SynFlow",
    "naswot": "NASWOT",
}
CELLS = "cells"
"""The item that describes the cells."""


def truth_of(runs: Mapping[str, Any], name: str) -> dict[str, float]:
    """The true accuracy (percent) by key: of the published table, or ``own`` of the networks trained here.

    Args:
        name: ``nb201`` for CIFAR-10, or another of `TRUTHS`.
    """
    if name in TRUTHS:
        return {key: values[name] for key, values in runs[CELLS]["truths"].items()} if CELLS in runs else {}
    if name == "own":
        found = [run["accuracies"] for key, run in runs.items() if key.startswith("truth ")]
        return {key: accuracy for accuracies in found for key, accuracy in accuracies.items()}
    first = next(iter(supernets(runs)), {"scored": []})
    return {row["architecture"]: row["nb201"] for row in first["scored"]}


def supernets(runs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs that trained a supernet."""
    return [run for run in runs.values() if "scored" in run]


def estimators_of(runs: Mapping[str, Any]) -> dict[str, str]:
    """The estimators that the runs have, with what people call them: earlier ones have fewer."""
    known = supernets(runs)[0]["scored"][0]["scores"]
    return {name: shown for name, shown in ESTIMATORS.items() if name in known}


def arrived(settings: Settings, runs: Mapping[str, Any]) -> Settings:
    """The same settings with the strategies and seeds whose runs are there: an experiment that still runs has fewer."""
    counts = {
        name: sum(f"{name} seed {seed}" in runs for seed in range(count))
        for name, count in settings["strategies"].items()
    }
    return {**settings, "strategies": {name: count for name, count in counts.items() if count}}


def scores_of(run: Mapping[str, Any], estimator: str, keys: Sequence[str]) -> list[float]:
    """Higher is better for all but costs, which count as predictions too: larger networks are expected to be better.

    Networks without a finite score, such as those in which nothing reaches the output, come last.
    """
    by_key = {row["architecture"]: row["scores"][estimator] for row in run["scored"]}
    last = min((score for score in by_key.values() if score is not None), default=0.0) - 1
    return [last if by_key[key] is None else by_key[key] for key in keys]


def correlation(run: Mapping[str, Any], estimator: str, truth: Mapping[str, float]) -> float:
    """Spearman's rank correlation of an estimator with the truth, on the architectures whose truth is known."""
    keys = list(truth)
    found = rank_quality(scores_of(run, estimator, keys), list(truth.values()), resamples=1).spearman.value
    return 0.0 if found is None else found


def top_of(run: Mapping[str, Any], estimator: str, truth: Mapping[str, float]) -> float:
    """The mean true accuracy of the ten architectures that an estimator puts first."""
    keys = list(truth)
    return top_k(scores_of(run, estimator, keys), list(truth.values()), min(10, len(keys)))


def curves_of(run: Mapping[str, Any], keys: Sequence[str]) -> Values:
    """(n, blocks) mean training losses of the short runs."""
    curves = dict(zip((row["architecture"] for row in run["scored"]), curves_in(run["scored"]), strict=True))
    return np.array([curves[key] for key in keys])


def correlation_along(
    settings: Settings, runs: Mapping[str, Any], truth: Mapping[str, float]
) -> dict[str, list[float]]:
    """Spearman of the sum of losses so far, after every block of steps: mean over seeds."""
    found = {}
    for strategy in settings["strategies"]:
        curves = []
        for run in runs_of(runs, settings["strategies"], strategy):
            sums = -np.cumsum(curves_of(run, list(truth)), axis=1)  # (n, blocks)
            known = list(truth.values())
            curves.append([rank_quality(column, known, resamples=1).spearman.value or 0.0 for column in sums.T])
        found[strategy] = np.mean(curves, axis=0).tolist()
    return found


def top_kept(order: Sequence[int], full: Sequence[int], k: int = 10) -> float:
    """The share of the first k of the full ranking that are among the first k of another order, 0..1."""
    if not 1 <= k <= min(len(order), len(full)):
        raise InvalidInput(f"Expected k in 1..{min(len(order), len(full))}. Got {k}.")
    return len(set(order[:k]) & set(full[:k])) / k
