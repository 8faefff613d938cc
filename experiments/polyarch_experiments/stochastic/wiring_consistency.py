"""Learning from few labels: two passes over the same image should agree, whatever the wirings (point 6)."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from polyarch.data import stratified_split
from polyarch.distributions import Empirical
from polyarch.methods.stochastic.recipes import nsa_i
from polyarch.spaces import residual_wiring
from polyarch.strategies import Consistency, DropoutPass, RandomPass, Strategy, Supervised, WiringPass
from polyarch.training import History
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, lines, side_by_side, summary
from polyarch_experiments.images import NAMES, Images, fit_cosine, logits_of, measure, sgd, store_of
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import STOCHASTIC_ARCHITECTURES
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of, seeded
from polyarch_experiments.stochastic.wired_networks import LARGE, SMALL, TINY, build, draw_wirings, member_logits

MethodAndSeed = tuple[str, int]
"""``data, method`` and a seed."""

KINDS = {"supervised": "labels only", "nsa-i": "wirings, labels only", "pi": "Pi model (dropout)", "wirings": "wirings"}


def items(settings: Settings) -> dict[str, MethodAndSeed]:
    """Every method on every data set, all first seeds first."""
    return seeded(counts(settings))


def counts(settings: Settings) -> dict[str, int]:
    """How many seeds every ``data, method`` has."""
    return {f"{data}, {method}": settings["seeds"] for data in settings["data"] for method in methods(settings)}


def methods(settings: Settings) -> list[str]:
    """Names: a kind, and for those that use images without labels the weight of the consistency loss."""
    weighted = [f"{kind} {weight:g}" for kind in ("pi", "wirings") for weight in settings["weights"]]
    return ["supervised", "nsa-i", *weighted]


def run(settings: Settings, item: MethodAndSeed, folder: Path) -> dict[str, Any]:
    """Trains with some of the labels; images without labels are all training images."""
    name, seed = item
    data, method = name.split(", ")
    images = Images.of(settings, data, seed)
    _, labelled = stratified_split(images.train, settings["labels"] / len(images.train), seed=seed)
    source = images.training_batches(labelled, settings["batch_size"], seed)
    unlabelled = images.training_batches(images.train, settings["unlabelled_batch"], seed, "unlabelled")
    steps = settings["epochs"] * len(source)
    kind, _, weight = method.partition(" ")
    wirings = draw_wirings(settings, settings["wirings"], seed)
    dropout = settings["dropout"] if kind == "pi" else 0.0
    net = build(settings, images, seed, dropout=dropout, auxiliary=False)
    residual = net.extract(residual_wiring(net.space))
    network = net if kind in ("nsa-i", "wirings") else residual
    optimizer = sgd(settings, network)
    strategy: Strategy
    if kind in ("pi", "wirings"):
        passes: RandomPass = DropoutPass(residual) if kind == "pi" else WiringPass(net, Empirical(net.space, wirings))
        ramp = round(settings["ramp_share"] * steps)
        strategy = Consistency(passes, optimizer, ramp_steps=ramp, weight=float(weight))
    else:
        strategy = nsa_i(net, wirings, optimizer) if kind == "nsa-i" else Supervised(residual, optimizer)
    store = store_of(folder, name, seed)
    held_out = unlabelled if strategy.held_out_per_step else None
    history = fit_cosine(settings, strategy, optimizer, source, images.batches(images.valid), seed, store, held_out)
    test = images.batches(images.test)
    if network is net:
        logits = member_logits(net, wirings[: settings["members"]], test)
    else:
        logits = logits_of(residual, test)[None]
    targets = images.test.targets
    each = [measure(member[None], targets)["accuracy"] for member in logits]
    return {
        "valid": _last(history),
        "curve": [round(value, 5) for value in history["valid_accuracy"]][:: settings["curve_every"]],
        "one": statistics.fmean(each),
        "ensemble": measure(logits, targets),
        "labels": len(labelled),
    }


def _last(history: History) -> float:
    """Validation accuracy, mean of the last three epochs: few images are noisy, and each has one random wiring."""
    return statistics.fmean(history["valid_accuracy"][-3:])


def chosen(settings: Settings, runs: dict[str, Any], data: str, kind: str) -> str:
    """The weight of the consistency loss with the best validation accuracy, mean over seeds."""
    names = [name for name in methods(settings) if name.split()[0] == kind]
    return max(names, key=lambda name: statistics.fmean(run["valid"] for run in _of(settings, runs, data, name)))


def _of(settings: Settings, runs: dict[str, Any], data: str, method: str) -> list[dict[str, Any]]:
    return runs_of(runs, counts(settings), f"{data}, {method}")


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claim 6, by the accuracy of single wirings."""
    parts, over_labels, over_pi = [], [], []
    for data in settings["data"]:
        found = {
            kind: [100 * run["one"] for run in _of(settings, runs, data, chosen(settings, runs, data, kind))]
            for kind in KINDS
        }
        means = {kind: statistics.fmean(values) for kind, values in found.items()}
        over_labels.append(means["wirings"] > max(means["supervised"], means["nsa-i"]))
        over_pi.append(means["wirings"] > means["pi"])
        told = ", ".join(f"{KINDS[kind]} {spread(values, 2)} %" for kind, values in found.items())
        parts.append(f"{NAMES[data]}: {told}")
    document = "86.96 % wirings, 85.22 % Pi model, 83.87 % supervised (CIFAR-10, 4,000 labels)"
    numbers = "; ".join(parts) + f" ({settings['labels']} labels; weights of the consistency loss by validation)"
    return [
        Claim(
            number=6,
            text="Consistency under random wirings makes use of images without labels.",
            supported=all(over_labels),
            numbers=numbers,
            document=document,
        ),
        Claim(
            number=6,
            text="Consistency under random wirings does better than under dropout (Pi model).",
            supported=all(over_pi),
            numbers=numbers,
            document=document,
        ),
    ]


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Every method and weight."""
    rows = []
    for data in settings["data"]:
        for method in methods(settings):
            found = _of(settings, runs, data, method)
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
            ends.append({"x": NAMES[data], "series": method, **summary([100 * run["one"] for run in found])})
            for index in range(len(found[0]["curve"])):
                values = [100 * run["curve"][index] for run in found]
                rows.append({"x": index * settings["curve_every"] + 1, "series": method, **summary(values)})
        panels.append(lines(rows, "epoch of the labels", "validation accuracy, %", title=NAMES[data]))
    return {
        "consistency_curves": side_by_side(*panels),
        "consistency_accuracy": grouped_bars(ends, "", "test accuracy of one wiring, %", series=""),
    }


_CPU: Settings = {
    **SMALL, "data": ["fashion_mnist", "cifar10"], "seeds": 2, "labels": 400, "weights": [2.0, 20.0],
    "ramp_share": 0.3, "dropout": 0.1, "wirings": 500, "members": 5, "epochs": 100, "unlabelled_batch": 64,
    "curve_every": 5,
}  # fmt: skip

WIRING_CONSISTENCY = Experiment(
    name="wiring_consistency",
    document=STOCHASTIC_ARCHITECTURES,
    claim="Few labels and many images without: consistency of two passes under random wirings, under dropout, or none. "
    "Both passes see the same augmented image. The Pi model has one rate of dropout and answers without it. The "
    "weight of the consistency loss is chosen by validation examples, which are as many as the labels or more.",
    presets={
        "quick": {
            **_CPU, **TINY, "data": ["digits"], "seeds": 1, "labels": 60, "weights": [2.0], "wirings": 5,
            "members": 2, "epochs": 3, "curve_every": 1,
        },
        "cpu": _CPU,
        "paper": {
            **_CPU, **LARGE, "data": ["cifar10"], "seeds": 3, "labels": 4000, "weights": [20.0], "cutout": False,
            "dropout": 0.3, "epochs": 1000, "batch_size": 32, "unlabelled_batch": 96, "curve_every": 10,
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
