"""Ensembles of wirings and other ways to be unsure: accuracy, calibration, strange inputs, attacks (claims 4, 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.data import TensorData
from polyarch.estimators import shared_macs
from polyarch.nn import StackedNetworks, multiply_accumulates
from polyarch.predictive import corrupt, detect, fit_temperature, posterior_weights, stacked_weights, uncertainty_scores
from polyarch.randomness import derive_seed, generator_at, global_seed
from polyarch.runs.networks import to_device
from polyarch.spaces import Architecture, residual_wiring, wired_space
from polyarch.supernets import WiredSupernet
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.images import Images, fit_cosine, logits_of, measure, sgd, store_of
from polyarch_experiments.papers import STOCHASTIC_ARCHITECTURES
from polyarch_experiments.stochastic.attacked import under_attack
from polyarch_experiments.stochastic.attacks import PGD
from polyarch_experiments.stochastic.mc_dropout import MCDropout
from polyarch_experiments.stochastic.packed import PackedMembers, PackedMixture, PackedTraining
from polyarch_experiments.stochastic.wired_networks import (
    FITTED,
    LARGE,
    SMALL,
    TINY,
    build,
    draw_wirings,
    earlier_network,
    train,
)
from polyarch_experiments.stochastic.wiring_ensemble_claims import figures, judge, tables

MethodAndSeed = tuple[str, int]
"""``data, method`` and a seed."""


def items(settings: Settings) -> dict[str, MethodAndSeed]:
    """Every method with every seed on one data set after the other; networks trained one by one take longest: last."""
    found = [(data, method, seed) for data in settings["data"] for seed in range(max(settings["seeds"].values()))
             for method, seeds in settings["seeds"].items() if seed < seeds]  # fmt: skip
    found.sort(key=lambda item: item[1] == "alone")
    return {f"{data}, {method} seed {seed}": (f"{data}, {method}", seed) for data, method, seed in found}


def run(settings: Settings, item: MethodAndSeed, folder: Path) -> dict[str, Any]:
    """Trains the networks of one method and judges them as one mixture: temperature and weights on validation data."""
    name, seed = item
    data, method = name.split(", ")
    images = Images.of(settings, data, seed)
    store = store_of(folder, name, seed)
    members, macs = _trained(settings, images, method, seed, store)
    valid, test = (logits_of(members, images.batches(side)) for side in (images.valid, images.test))
    temperature = fit_temperature(valid, images.valid.targets)
    targets = images.test.targets
    seen = images.train.subset(range(min(len(images.train), settings["test"])))
    found = {
        "train": measure(logits_of(members, images.batches(seen)), seen.targets)["accuracy"],
        "members": len(test),
        "macs": macs,
        "temperature": temperature,
        "test": measure(test, targets),
        "scaled": measure(test / temperature, targets),
        "alone": _alone(test, targets),
        "sizes": [
            measure(test[: size + 1], targets)["accuracy"] for size in range(min(len(test), settings["wirings"]))
        ],
        "detection": _detections(settings, images, members, test, seed),
        "attacks": _attacks(settings, images, members, seed),
    }
    if len(test) > 1 and not isinstance(members, MCDropout):  # members that stay the same from pass to pass
        found["weighted"] = {
            kind: {**measure(test, targets, weights), "weights": weights.tolist()}
            for kind, weights in (
                ("posterior", posterior_weights(valid, images.valid.targets)),
                ("stacked", stacked_weights(valid, images.valid.targets)),
            )
        }
    return found


def _trained(
    settings: Settings, images: Images, method: str, seed: int, store: Path
) -> tuple[nn.Module, dict[str, float]]:
    """What gives the logits (K, B, C) of all members, and multiply-accumulates of one member and of all."""
    wirings = draw_wirings(settings, settings["wirings"], seed)
    residual = residual_wiring(wired_space(settings["stages"], settings["modules"]))
    shape = images.train.input_shape

    def alone(wiring: Architecture, place: Path, seed: int, dropout: float = 0.0) -> WiredSupernet:
        net = build(settings, images, seed, dropout=dropout)
        train(settings, images, net, [wiring], seed, place)
        return net

    kind, _, share = method.partition(" ")
    if kind == "packed":
        packed = _packed(settings, images, int(share), seed, store)
        one = multiply_accumulates(packed.eval(), shape)
        return packed, {"one": one / packed.members, "all": one}
    if kind in ("residual", "dropout"):
        net = alone(residual, store, seed, float(share or 0))
        one = shared_macs(net, shape)([residual])
        network = net.extract(residual)
        if kind == "residual":
            return StackedNetworks([network]), {"one": one, "all": one}
        passes = settings["passes"]
        generator = generator_at(seed, "masks")
        return MCDropout(network, passes, generator=generator), {"one": one, "all": passes * one}
    if kind == "alone":
        nets = [
            alone(wiring, store / str(index), derive_seed(seed, "member", index))
            for index, wiring in enumerate(wirings)
        ]
        each = [shared_macs(net, shape)([wiring]) for net, wiring in zip(nets, wirings, strict=True)]
        extracted = [net.extract(wiring) for net, wiring in zip(nets, wirings, strict=True)]
        return StackedNetworks(extracted), {"one": each[0], "all": sum(each)}
    net = build(settings, images, seed, wirings=wirings if kind == "nsa-id" else None)
    train(settings, images, net, wirings, seed, store)
    cost = shared_macs(net, shape)
    return net.extract_many(wirings), {"one": cost(wirings[:1]), "all": cost(wirings)}


def _packed(settings: Settings, images: Images, members: int, seed: int, store: Path) -> PackedMembers:
    """Packed residual networks, trained like all others, but without an auxiliary classifier."""
    with global_seed(seed, "network"):
        packed = PackedMembers(
            width=settings["width"], modules=settings["modules"], stages=settings["stages"],
            in_channels=images.train.input_shape[0], classes=images.train.classes, members=members,
        )  # fmt: skip
    network = to_device(PackedMixture(packed), torch.device("cpu"))
    optimizer = sgd(settings, network)
    source = images.training_batches(images.train, settings["batch_size"], seed)
    strategy = PackedTraining(network, optimizer)
    fit_cosine(settings, strategy, optimizer, source, images.batches(images.valid), seed, store)
    return network.members


def _alone(logits: Tensor, targets: Tensor) -> dict[str, float]:
    """Means over members, each as a predictor of its own."""
    each = [measure(member[None], targets) for member in logits]
    return {name: sum(one[name] for one in each) / len(each) for name in each[0]}


def _scores(logits: Tensor) -> dict[str, Tensor]:
    """Numbers that should be larger for stranger inputs, (K, N, C) -> (N,) each."""
    return uncertainty_scores(torch.softmax(logits.double(), -1))


def _detections(
    settings: Settings, images: Images, members: nn.Module, test: Tensor, seed: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Strange inputs -> score -> AUROC, AUPR and false alarms."""
    strange = {name: images.outside(name) for name in settings["outside"][images.name]}
    for kind in settings["corruptions"]:
        inputs = corrupt(images.test.inputs, kind, settings["severity"], generator=generator_at(0, "corrupt", kind))
        strange[kind] = TensorData(inputs, images.test.targets, images.test.classes)
    known = _scores(test)
    return {
        name: {score: asdict(detect(known[score], values)) for score, values in _strange(images, members, data).items()}
        for name, data in strange.items()
    }


def _strange(images: Images, members: nn.Module, data: TensorData) -> dict[str, Tensor]:
    return _scores(logits_of(members, images.batches(data)))


def _attacks(settings: Settings, images: Images, members: nn.Module, seed: int) -> dict[str, dict[str, Any]]:
    """Accuracy under attacks ``radius-steps-step`` in bytes from random starts, and whether they are noticed."""
    inputs = images.test.inputs[: settings["attacked"]]
    inputs = inputs if inputs.is_floating_point() else inputs.float() / 255
    labels = images.test.targets[: settings["attacked"]]
    if isinstance(members, MCDropout):
        members = MCDropout(members.network, settings["attacked_passes"], generator=members.generator)
    predict: Callable[[Tensor], Tensor] = lambda x: members(images.normalisation(x))  # noqa: E731
    found = {}
    for described in settings["attacks"]:
        radius, steps, step = map(int, described.split("-"))
        attack, generator = PGD.in_bytes(radius, steps, step), generator_at(seed, "attack", described)
        outcome = asdict(under_attack(predict, attack, inputs, labels, generator=generator))
        found[described] = {name: value for name, value in outcome.items() if value is not None}
    return found


_SEEDS = dict.fromkeys(("residual", "nsa-id", "dropout 0.2", "packed 4", "alone"), 3)
_CPU: Settings = {
    **SMALL, "data": ["fashion_mnist"], "seeds": {**_SEEDS, "alone": 1},
    "outside": {"fashion_mnist": ["mnist"], "mnist": ["fashion_mnist"]},
    "corruptions": ["gaussian_noise", "gaussian_blur", "contrast"], "severity": 3,
    "attacks": ["1-2-1", "2-3-1", "3-4-1"], "attacked": 400, "attacked_passes": 10,
    "wirings": 5, "passes": 30, "epochs": 20,
}  # fmt: skip

WIRING_ENSEMBLE = Experiment(
    name="wiring_ensemble",
    document=STOCHASTIC_ARCHITECTURES,
    claim="One network with five wirings as an ensemble, against a residual network, MC dropout (0.2 after "
    "convolutions), packed residual networks, and networks trained one by one (tables 2 and 3). Sides are compared "
    "seed by seed.",
    presets={
        "quick": {
            **_CPU, **TINY, "data": ["digits"],
            "seeds": dict.fromkeys(("residual", "nsa-id", "dropout 0.2", "packed 4", "alone"), 1),
            "outside": {"digits": []}, "corruptions": ["gaussian_noise"], "attacks": ["2-2-1"], "attacked": 10,
            "attacked_passes": 2, "wirings": 2, "passes": 3, "epochs": 1,
        },
        "cpu": _CPU,
        "long": {
            **_CPU, **FITTED, "data": ["fashion_mnist", "mnist"], "seeds": _SEEDS, "attacked": 1000, "passes": 100,
            "epochs": 60,
        },
        "paper": {
            **_CPU, **LARGE, "data": ["cifar10", "cifar100"], "seeds": {**_SEEDS, "nsa-i": 3},
            "outside": {"cifar10": ["svhn"], "cifar100": ["svhn"]}, "attacked": 10_000,
            "attacked_passes": 100, "passes": 100, "epochs": 300,
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
