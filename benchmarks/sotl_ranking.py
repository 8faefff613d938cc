"""Ranking 200 architectures by SoTL with early elimination and two workers, against a copy of the supernet for each."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import islice

import torch
import torch.nn.functional as F
from measure import Goal, interleaved, medians, options, report, summary

from polyarch.data import Batches, Dataset, endless, load, stratified_split
from polyarch.errors import MissingData
from polyarch.estimators import ShortRun
from polyarch.executors import Processes
from polyarch.randomness import generator_at, global_seed
from polyarch.ranking import geometric_rungs, halving_on_curves, halving_steps, successive_halving
from polyarch.runs.networks import to_device
from polyarch.spaces import Architecture
from polyarch.strategies import OneShot
from polyarch.supernets import NB201Supernet
from polyarch.training import fit
from polyarch_experiments.training_speed.strategy_scores import top_kept

NAME = "sotl_ranking"
GOAL = Goal(">=", 4)
SEED = 0
CHANNELS = 8
SIZE = 16
BATCH = 64
EXAMPLES = 5000
RATE = 0.001
MOMENTUM = 0.9
WORKERS = 2
FACTOR = 1.7
"""Of so many architectures one goes on; with 2 one of the top 10 was lost."""


def images() -> Dataset:
    """CIFAR-10 where it is at hand, small digits otherwise."""
    try:
        return load("cifar10", size=SIZE)
    except MissingData:
        return load("digits")


def batches(data: Dataset) -> Batches:
    """Some of the training images, class by class."""
    examples = data.train
    if len(examples) > EXAMPLES:
        examples = stratified_split(examples, EXAMPLES / len(examples), seed=SEED)[1]
    return Batches(examples, BATCH, seed=SEED, preprocessing=data.preprocessing(examples))


def trained(data: Dataset, train: Batches, epochs: int) -> NB201Supernet:
    """A supernet after a little single-path training, so that there is something to rank."""
    with global_seed(SEED, "weights"):
        net = NB201Supernet(channels=CHANNELS, cells=1, in_channels=data.input_shape[0], classes=data.classes)
    net = to_device(net, torch.device("cpu"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=MOMENTUM, weight_decay=5e-4)
    fit(OneShot(net, optimizer), train, epochs=epochs, seed=SEED)
    return net


def ranked_by_copies(
    net: NB201Supernet, architectures: Sequence[Architecture], train: Batches, steps: int
) -> list[list[float]]:
    """The plain way: one deep copy of the whole supernet after the other, its path trained to the end."""
    curves = []
    for architecture in architectures:
        own = copy.deepcopy(net).train()
        optimizer = torch.optim.SGD(own.parameters(), lr=RATE, momentum=MOMENTUM)
        losses = []
        for inputs, targets in islice(endless(train), steps):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(own(inputs, architecture), targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        curves.append(losses)
    return curves


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    count, steps, epochs, rounds = (24, 16, 2, 1) if asked.quick else (200, 48, 12, 1)
    data = images()
    train = batches(data)
    net = trained(data, train, epochs)
    sampled = (net.space.sample(generator_at(SEED, "architecture", index)) for index in range(2 * count))
    architectures = list(dict.fromkeys(sampled))[:count]
    rungs = geometric_rungs(steps, first=steps // 8, factor=FACTOR)
    run = ShortRun(train, steps=steps, learning_rate=RATE, momentum=MOMENTUM, seed=SEED)
    orders: dict[str, tuple[int, ...]] = {}

    def copies() -> None:
        orders["copies"] = halving_on_curves(ranked_by_copies(net, architectures, train, steps), [steps]).order

    def halving() -> None:
        orders["halving"] = successive_halving(
            net, architectures, run, Processes(WORKERS), rungs=rungs, factor=FACTOR
        ).order

    times = interleaved({"copies": copies, "halving": halving}, rounds)
    middle = medians(times)
    k = 10 if count >= 100 else 3
    kept = top_kept(orders["halving"], orders["copies"], k)
    print({side: f"{value:.2f} s" for side, value in middle.items()}, f"top {k} kept: {kept:.0%}")
    settings = {
        "architectures": count, "channels": CHANNELS, "cells": 1, "size": data.input_shape[-1], "batch": BATCH,
        "steps": steps, "rungs": list(rungs), "factor": FACTOR, "workers": WORKERS, "supernet_epochs": epochs,
        "rounds": rounds, "data": data.name,
    }  # fmt: skip
    report(
        NAME,
        middle["copies"] / middle["halving"],
        GOAL,
        options=asked,
        settings=settings,
        details={
            **summary(times),
            "top": k,
            "top_kept": kept,
            "training_steps": {"copies": count * steps, "halving": halving_steps(count, rungs, FACTOR)},
        },
    )


if __name__ == "__main__":
    main()
