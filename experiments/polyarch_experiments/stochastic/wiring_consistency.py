"""Learning from few labels: two passes over the same image should agree, whatever the wirings (point 6)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from polyarch.data import TensorData, stratified_split
from polyarch.distributions import Empirical
from polyarch.methods.stochastic.recipes import nsa_id
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, residual_wiring
from polyarch.strategies import Consistency, DropoutPass, RandomPass, Strategy, Supervised, WiringPass
from polyarch.supernets import WiredSupernet
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, lines, side_by_side, summary
from polyarch_experiments.images import NAMES, Images, fit_cosine, logits_of, measure, sgd, store_of
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import STOCHASTIC_ARCHITECTURES
from polyarch_experiments.results import Claim, Finding
from polyarch_experiments.seeds import by_seed, runs_of, seeded
from polyarch_experiments.stochastic.mc_dropout import MCDropout
from polyarch_experiments.stochastic.wired_networks import (
    LARGE,
    SMALL,
    TINY,
    build,
    draw_wirings,
    earlier_network,
    member_logits,
)
from polyarch_experiments.verdict import claim, finding, paired_by_seed

MethodAndSeed = tuple[str, int]
"""``data, method`` and a seed."""

KINDS = {
    "supervised": "labels only",
    "nsa-id": "wirings, labels only",
    "pi": "Pi model (dropout)",
    "wirings": "wirings",
}
STEPS = 10_000
"""Fewer steps than these are no fair test; the paper takes about 72,000."""


def items(settings: Settings) -> dict[str, MethodAndSeed]:
    """Every method on every data set, all first seeds first."""
    return seeded(counts(settings))


def counts(settings: Settings) -> dict[str, int]:
    """How many seeds every ``data, method`` has."""
    return {f"{data}, {method}": settings["seeds"] for data in settings["data"] for method in methods(settings)}


def methods(settings: Settings) -> list[str]:
    """Names: a kind, and for those that use images without labels the weight of the consistency loss."""
    weighted = [f"{kind} {weight:g}" for weight in settings["weights"] for kind in ("wirings", "pi")]
    return ["supervised", *weighted, "nsa-id"]


def run(settings: Settings, item: MethodAndSeed, folder: Path) -> dict[str, Any]:
    """Trains with some of the labels; images without labels are all training images."""
    name, seed = item
    data, method = name.split(", ")
    images = Images.of(settings, data, seed)
    _, labelled = stratified_split(images.train, settings["labels"] / len(images.train), seed=seed)
    source = images.training_batches(labelled, settings["batch_size"], seed)
    unlabelled = images.training_batches(images.train, settings["unlabelled_batch"], seed, "unlabelled", views=2)
    steps = settings["epochs"] * len(source)
    kind, _, weight = method.partition(" ")
    wirings = draw_wirings(settings, settings["wirings"], seed)
    net = build(
        settings,
        images,
        seed,
        wirings=wirings if kind in ("nsa-id", "wirings") else None,
        dropout=settings["dropout"] if kind == "pi" else 0.0,
        auxiliary=False,
    )
    network: nn.Module = net if net.wirings else net.extract(residual_wiring(net.space))
    optimizer = sgd(settings, network)
    strategy: Strategy
    if kind in ("pi", "wirings"):
        passes: RandomPass = DropoutPass(network) if kind == "pi" else WiringPass(net, Empirical(net.space, wirings))
        ramp = round(settings["ramp_share"] * steps)
        # The strategy takes the mean over classes, the paper writes the squared norm: the sum over them.
        strategy = Consistency(passes, optimizer, ramp_steps=ramp, weight=float(weight) * images.train.classes)
    else:
        strategy = nsa_id(net, optimizer) if kind == "nsa-id" else Supervised(network, optimizer)
    store = store_of(folder, name, seed)
    held_out = unlabelled if strategy.held_out_per_step else None
    history = fit_cosine(settings, strategy, optimizer, source, images.batches(images.valid), seed, store, held_out)

    def logits(part: TensorData) -> Tensor:
        return _member_logits(settings, images, network, kind, wirings, part, seed)

    test = logits(images.test)
    targets = images.test.targets
    return {
        "valid": measure(logits(images.valid), images.valid.targets)["accuracy"],
        "curve": [round(value, 5) for value in history["valid_accuracy"]][:: settings["curve_every"]],
        "one": statistics.fmean(measure(member[None], targets)["accuracy"] for member in test),
        "ensemble": measure(test, targets),
        "labels": len(labelled),
        "steps": steps,
    }


def _member_logits(
    settings: Settings,
    images: Images,
    network: nn.Module,
    kind: str,
    wirings: Sequence[Architecture],
    part: TensorData,
    seed: int,
) -> Tensor:
    """What is mixed for a prediction, (K, N, C): wirings, passes with dropout, or one network."""
    batches = images.batches(part)
    if isinstance(network, WiredSupernet):
        return member_logits(network, wirings, batches)
    if kind == "pi":
        return logits_of(MCDropout(network, settings["passes"], generator=generator_at(seed, "masks")), batches)
    return logits_of(network, batches)[None]


def chosen(settings: Settings, runs: dict[str, Any], data: str, kind: str) -> str | None:
    """The weight of the consistency loss with the best validation accuracy, mean over seeds; None before any run."""
    names = [name for name in methods(settings) if name.split()[0] == kind and _of(settings, runs, data, name)]
    best = lambda name: statistics.fmean(run["valid"] for run in _of(settings, runs, data, name))  # noqa: E731
    return max(names, key=best, default=None)


def _of(settings: Settings, runs: dict[str, Any], data: str, method: str) -> list[dict[str, Any]]:
    return runs_of(runs, counts(settings), f"{data}, {method}")


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claim 6, by the accuracy of ensembles, each kind with the weight that validation images choose."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for data in settings["data"]:
        names = {kind: chosen(settings, runs, data, kind) for kind in KINDS}
        found[data] = {
            kind: {
                seed: 100 * run["ensemble"]["accuracy"]
                for seed, run in by_seed(runs, counts(settings), f"{data}, {name}").items()
            }
            for kind, name in names.items()
        }
    steps = min(run["steps"] for run in runs.values())
    told = "; ".join(
        f"{NAMES[data]}, {KINDS[kind]}: {spread(list(values.values()), 2)} %"
        for data, sides in found.items()
        for kind, values in sides.items()
        if values
    )
    numbers = f"{told} ({settings['labels']} labels, {steps:,} steps; weights of the consistency loss by validation)"
    document = "86.96 % wirings, 85.22 % Pi model, 83.87 % supervised (CIFAR-10, 4,000 labels)"
    needs = None if steps >= STEPS else f"{STEPS:,} steps or more"

    def over(kind: str) -> list[Finding]:
        return [
            finding(
                f"{NAMES[data]}, points over {KINDS[kind]}", paired_by_seed(sides["wirings"], sides[kind]), above=0.0
            )
            for data, sides in found.items()
        ]

    texts = {
        "supervised": "Consistency under random wirings makes use of images without labels.",
        "pi": "Consistency under random wirings does better than under dropout (Pi model).",
    }
    return [claim(text, over(kind), numbers, number=6, document=document, needs=needs) for kind, text in texts.items()]


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Every method and weight."""
    rows = []
    for data in settings["data"]:
        for method in methods(settings):
            found = _of(settings, runs, data, method)
            if not found:
                continue
            values = [
                spread([100 * run["valid"] for run in found], 2),
                spread([100 * run["one"] for run in found], 2),
                spread([100 * run["ensemble"]["accuracy"] for run in found], 2),
                spread([run["ensemble"]["mean_log_p"] for run in found], 3),
            ]
            rows.append([NAMES[data], method, *values])
    columns = [
        "data",
        "method and weight",
        "validation, %",
        "one wiring, %",
        "ensemble, %",
        "mean log p of the ensemble",
    ]
    return {f"Accuracy with {settings['labels']} labels": Table(columns, rows)}


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Accuracy along the training, and at its end."""
    panels, ends = [], []
    for data in settings["data"]:
        rows = []
        for method in methods(settings):
            found = _of(settings, runs, data, method)
            if not found:
                continue
            ends.append(
                {"x": NAMES[data], "series": method, **summary([100 * run["ensemble"]["accuracy"] for run in found])}
            )
            for index in range(len(found[0]["curve"])):
                values = [100 * run["curve"][index] for run in found]
                rows.append({"x": index * settings["curve_every"] + 1, "series": method, **summary(values)})
        panels.append(lines(rows, "epoch of the labels", "validation accuracy, %", title=NAMES[data]))
    return {
        "consistency_curves": side_by_side(*panels),
        "consistency_accuracy": grouped_bars(ends, "", "test accuracy, %", series=""),
    }


_CPU: Settings = {
    **SMALL, "data": ["fashion_mnist"], "seeds": 2, "labels": 400, "weights": [0.2, 2.0], "ramp_share": 0.5,
    "dropout": 0.2, "wirings": 5, "passes": 30, "epochs": 100, "unlabelled_batch": 64, "curve_every": 5,
}  # fmt: skip

WIRING_CONSISTENCY = Experiment(
    name="wiring_consistency",
    document=STOCHASTIC_ARCHITECTURES,
    claim="Few labels and many images without: consistency of two passes under random wirings (NSA-id), under dropout, "
    "or none. Two passes see the same image, augmented twice; all methods take as many steps. Distances are squared "
    "norms of differences of logits, summed over classes and averaged over images, and their weight is chosen by "
    "validation examples, which are as many as the labels or more. Wirings and dropout masks predict as ensembles.",
    presets={
        "quick": {
            **_CPU, **TINY, "data": ["digits"], "seeds": 1, "labels": 60, "weights": [2.0], "wirings": 2,
            "passes": 2, "epochs": 3, "curve_every": 1,
        },
        "cpu": _CPU,
        "long": {
            **_CPU, "width": 16, "train": 10_000, "valid": 1000, "test": 10_000, "seeds": 3, "labels": 1000,
            "weights": [0.2, 2.0, 20.0], "batch_size": 50, "unlabelled_batch": 100, "epochs": 500, "curve_every": 25,
        },
        "paper": {
            **_CPU, **LARGE, "data": ["cifar10"], "seeds": 3, "labels": 4000, "weights": [20.0], "cutout": False,
            "epochs": 576, "batch_size": 32, "unlabelled_batch": 96, "passes": 100, "curve_every": 10,
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
    partial=True,
    outdated=earlier_network,
)  # fmt: skip
