"""A chain of MobileNetV2 blocks: supernets with inter-choice weights, and networks of it that are trained alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.runs.retraining import Retraining, evaluate
from polyarch.runs.run import Run
from polyarch.spaces import Architecture
from polyarch_experiments.experiment import Settings
from polyarch_experiments.interchoice.training_costs import training_costs
from polyarch_experiments.interchoice.weighted_supernets import Ranked, random_networks, scores_of, with_weights
from polyarch_experiments.ranked_supernets import train_supernet, trial_of

TOGETHER = 5
"""Networks of one item that trains them alone: the data are loaded once for all of them."""

Item = tuple[str, str, int]
"""``supernet``, a kind of weights or a baseline, and a seed; ``alone``, the number of a share, and a seed; ``cost``."""


def items(settings: Settings) -> dict[str, Item]:
    """What training costs, every supernet with every seed, and the networks that are trained alone, some at a time."""
    names = [*settings["weights"], *settings["baselines"]]
    shares = range(-(-settings["architectures"] // TOGETHER))
    supernets = {
        f"{name}, seed {seed}": ("supernet", name, seed) for seed in range(settings["seeds"]) for name in names
    }
    alone = {
        f"alone {share}, seed {seed}": ("alone", str(share), seed)
        for seed in range(settings["alone_seeds"])
        for share in shares
    }
    return {"cost": ("cost", "", 0), **supernets, **alone}


def run(settings: Settings, item: Item, folder: Path) -> dict[str, Any]:
    """Trains a supernet and scores networks by it; trains some of these alone; or measures what training costs."""
    kind, name, seed = item
    if kind == "cost":
        return training_costs({name: settings_of(settings, name) for name in settings["weights"]})
    if kind == "alone":
        return _alone(settings, int(name), seed, folder)
    store = folder / f"{name} {seed}".replace(" ", "-").replace(",", "")
    trained = train_supernet(settings_of(settings, name), seed, store)
    networks = random_networks(trained.net.space, settings["consistent"])
    known = networks[: settings["architectures"]]
    is_base = name == "base" or name in settings["baselines"]
    journals, examples = store / "checkpoints", settings["valid_examples"]
    scored = known if name in settings["baselines"] else networks
    return {
        "val_acc": scores_of(trained, scored, examples, journals / "scored.jsonl")["val_acc"],
        "reset": scores_of(_resetting(trained), known, examples, journals / "reset.jsonl")["val_acc"]
        if is_base
        else [],
        "parameters": sum(parameter.numel() for parameter in trained.net.parameters()),
    }


def settings_of(settings: Settings, name: str) -> dict[str, Any]:
    """The settings of the run of a kind of weights, or of a baseline: no extra weights, but something else changes."""
    if name in settings["weights"]:
        return with_weights(settings["run"], settings["weights"][name])
    return merged(settings["run"], settings["baselines"][name])


def merged(run: Mapping[str, Any], changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of a run with some settings of its sections changed."""
    return {**run, **{section: {**run.get(section, {}), **values} for section, values in changes.items()}}


def _resetting(run: Run) -> Run:
    """The same run that forgets the statistics of batch normalisation before they adapt to an architecture."""
    scores = run.settings.scores.model_copy(update={"policy": "reestimate"})
    return replace(run, settings=run.settings.model_copy(update={"scores": scores}))


def _alone(settings: Settings, share: int, seed: int, folder: Path) -> dict[str, list[float]]:
    """Accuracies (percent) on training and test images of networks trained from scratch, and their parameters."""
    trial = trial_of(merged(settings["run"], settings["alone"]))
    networks = random_networks(trial.net.space, settings["consistent"])[: settings["architectures"]]
    found: dict[str, list[float]] = {"train": [], "test": [], "params": []}
    for architecture in networks[TOGETHER * share : TOGETHER * (share + 1)]:
        for name, value in _trained_alone(trial, architecture, seed, folder).items():
            found[name].append(value)
    return found


def _trained_alone(trial: Run, architecture: Architecture, seed: int, folder: Path) -> dict[str, float]:
    network, _ = Retraining(trial, folder / "alone").train((architecture, seed))
    feed = trial.feed
    accuracies = {
        side: round(100 * evaluate(trial.task, network, feed.in_order(examples))["accuracy"], 3)
        for side, examples in (("train", feed.train), ("test", feed.data.test))
    }
    return {**accuracies, "params": trial.alone.parameter_count(architecture)}


def alone(settings: Settings, runs: Mapping[str, Any], side: str) -> NDArray[np.float64]:
    """Accuracies of the networks that were trained alone on ``train`` or ``test`` images, (seeds, networks)."""
    shares = range(-(-settings["architectures"] // TOGETHER))
    return np.array(
        [
            [value for share in shares for value in runs[f"alone {share}, seed {seed}"][side]]
            for seed in range(settings["alone_seeds"])
        ]
    )


def supernets(
    settings: Settings, runs: Mapping[str, Any], names: Sequence[str], scores: str = "val_acc"
) -> dict[str, list[Ranked]]:
    """Scores of networks by supernets beside their true accuracies, by name, one per seed."""
    truth = alone(settings, runs, "test").mean(0).tolist()
    return {
        name: [
            {"val_acc": runs[f"{name}, seed {seed}"][scores][: len(truth)], "truth": truth}
            for seed in range(settings["seeds"])
        ]
        for name in names
    }
