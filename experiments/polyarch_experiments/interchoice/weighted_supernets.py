"""Supernets with inter-choice weights, trained by single paths and judged by validation accuracy.

Laube and Zell (2021), "Inter-choice dependent super-network weights", arXiv:2104.11522.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polyarch.ranking.correlations import correlation, paired
from polyarch.runs.run import Run
from polyarch.spaces import NB201_CONVOLUTIONS, NB201_NO_NONE, NB201_OPERATIONS, Architecture, Space
from polyarch.tables import load_truth
from polyarch.truths.equivalence import equivalence_classes
from polyarch_experiments.consistency import SelfConsistency, self_consistency
from polyarch_experiments.experiment import Settings
from polyarch_experiments.improvement import improvement
from polyarch_experiments.ranked_supernets import Scored, recipe, score_all, train_supernet, with_fewer_valid

SPACES: dict[str, dict[str, Any]] = {
    "all": {"operations": list(NB201_OPERATIONS)},
    "no zero": {"operations": list(NB201_NO_NONE)},
    "only conv": {"operations": list(NB201_CONVOLUTIONS)},
    "macro": {},
}
WEIGHTS: dict[str, dict[str, Any]] = {"base": {}, "bias": {"kind": "bias"}, "split": {"kind": "split"}}
"""What a run says of each kind of weights, where the settings name no others. Weights are split after half of the
epochs unless they say when."""
TOP = 10
"""So many architectures are left at the end of an improvement curve: the paper calls what follows chaotic."""

WeightsAndSeed = tuple[str, str, int]
"""A space, a kind of weights and a seed."""
Ranked = Mapping[str, Any]
"""What a run found: ``val_acc``, ``truth`` and ``params`` of the same architectures."""


def items(settings: Settings) -> dict[str, WeightsAndSeed]:
    """Every space with every kind and as many seeds as the settings say."""
    return {
        f"{space}, {kind}, seed {seed}": (space, kind, seed)
        for seed in range(max(settings["spaces"].values()))
        for space, seeds in settings["spaces"].items()
        for kind in weights_of(settings)
        if seed < seeds
    }


def run(settings: Settings, item: WeightsAndSeed, folder: Path) -> dict[str, Any]:
    """Trains a supernet and judges a fixed set of architectures by it."""
    space, kind, seed = item
    store = folder / f"{space} {kind} {seed}".replace(" ", "-")
    trained = train_supernet(settings_of(settings, space, kind), seed, store)
    truth = load_truth("macro" if space == "macro" else "nb201")
    architectures = random_networks(trained.net.space, settings["architectures"])
    scores = scores_of(trained, architectures, settings["valid_examples"], store / "checkpoints" / "scored.jsonl")
    return {
        "truth": [round(truth.accuracy(one), 3) for one in architectures],
        **scores,
        "parameters": sum(parameter.numel() for parameter in trained.net.parameters()),
    }


def scores_of(
    trained: Run, architectures: Sequence[Architecture], valid_examples: int, journal: Path
) -> dict[str, list[float]]:
    """``val_acc`` and ``params`` of architectures; those that the journal has are not scored again."""
    few = with_fewer_valid(trained, valid_examples)
    names = ("val_acc", "params")
    rows = score_all(Scored(few.net, few.estimators(names)), architectures, journal)
    return {name: [row["scores"][name] for row in rows] for name in names}


def random_networks(space: Space, count: int) -> list[Architecture]:
    """The same random architectures for every seed, no network twice; all where the space has no more."""
    if space.size <= count:
        return list(space.enumerate())
    return [members[0] for members in equivalence_classes(space, count, seed=0)]


def all_kinds(*splits: int) -> dict[str, dict[str, Any]]:
    """All kinds of weights of the paper: biases and their alternatives, and weights split after so many epochs."""
    return {
        "base": {},
        "bias": {"kind": "bias"},
        "bias D=2": {"kind": "bias", "previous": 2},
        "bias D=3": {"kind": "bias", "previous": 3},
        "shared bias": {"kind": "shared_bias"},
        "attention": {"kind": "attention"},
        "deep attention": {"kind": "deep_attention"},
        **{f"split at {epoch}": {"kind": "split", "split_epoch": epoch} for epoch in splits},
    }


def weights_of(settings: Settings) -> dict[str, dict[str, Any]]:
    """The kinds of weights by name: ``base`` without extra ones, ``bias`` with one previous choice, and others."""
    found: dict[str, dict[str, Any]] = settings.get("weights", WEIGHTS)
    return found


def settings_of(settings: Settings, space: str, kind: str) -> dict[str, Any]:
    """The settings of the run of a space with a kind of weights."""
    run = settings["macro_run"] if space == "macro" else settings["run"]
    return with_weights({**run, "space": {**run["space"], **SPACES[space]}}, weights_of(settings)[kind])


def with_weights(run: Mapping[str, Any], weights: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run with a kind of weights, split after half of the epochs unless it says when."""
    if not weights:
        return dict(run)
    half = {"split_epoch": run["train"]["epochs"] // 2} if weights["kind"] == "split" else {}
    return {**run, "space": {**run["space"], "interchoice": {**half, **weights}}}


def runs_with(settings: Settings, runs: Mapping[str, Any], space: str, kind: str) -> list[Ranked]:
    """The results of a space and a kind of weights, one per seed that is there."""
    names = (f"{space}, {kind}, seed {seed}" for seed in range(settings["spaces"][space]))
    return [runs[name] for name in names if name in runs]


def gains(found: Sequence[Ranked]) -> list[float]:
    """The normalised improvement of the top 10 (0: mean of all, 1: best of all), one value per seed."""
    return [
        float(improvement(run["val_acc"], run["truth"], least=min(TOP, len(run["truth"]))).normalised[-1])
        for run in found
    ]


def correlations(found: Sequence[Ranked], estimator: str = "val_acc") -> list[float]:
    """Kendall's tau with the truth, one value per seed; 0 where all scores are alike."""
    return [correlation("kendall", *paired(run[estimator], run["truth"])) or 0.0 for run in found]


def agreement(found: Sequence[Ranked], scores: str = "val_acc") -> SelfConsistency | None:
    """How far seeds agree; None where there is one only."""
    return self_consistency([run[scores] for run in found], resamples=1) if len(found) > 1 else None


def short_recipe(**options: Any) -> dict[str, Any]:
    """The settings that experiments on rankings share; in the paper batch normalisation does not decay."""
    found = recipe(**options)
    return {**found, "train": {**found["train"], "decay_norms": False}}


TABLE_5: Settings = {
    "data": {"name": "cifar10", "validation": 0.1, "shift": 4, "flip": True},
    "train": {
        "epochs": 250, "batch_size": 256, "learning_rate": 0.025, "final_learning_rate": 1e-5, "momentum": 0.9,
        "weight_decay": 3e-4, "decay_norms": False,
    },
    "scores": {"batch_size": 256, "policy": "adapt", "policy_batches": 20},
}  # fmt: skip
"""How the paper trains and evaluates supernets on CIFAR-10 (appendix B)."""

PAPER_CELLS: Settings = {**TABLE_5, "space": {"kind": "nb201", "channels": 16, "cells": 2, "pool_convolution": True}}
"""The same with the supernet of NAS-Bench-201 that has the parameters of table 3."""
