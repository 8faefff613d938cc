"""Scoring many architectures with two worker processes, against one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from measure import Goal, interleaved, medians, options, report, summary

from polyarch.data import Batches, TensorData
from polyarch.estimators import Failure, Score, Scoring, ShortRun, SoTL, ValAcc
from polyarch.executors import Mapper, Processes
from polyarch.nn import AdaptedStatistics
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.supernets import NB201Supernet

NAME = "parallel_ranking"
GOAL = Goal(">=", 1.85)
SEED = 0
CHANNELS = 16
SIZE = 16
BATCH = 64
STEPS = 12
ADAPTATION = 5
VALIDATION = 1024

Scores = list[Score] | Failure


def random_batches(count: int, stream: str, *, shuffle: bool) -> Batches:
    generator = generator_at(SEED, stream)
    images = torch.randn(count, 3, SIZE, SIZE, generator=generator)
    data = TensorData(images, torch.randint(10, (count,), generator=generator), 10)
    return Batches(data, BATCH, seed=SEED, shuffle=shuffle)


def task(net: NB201Supernet) -> Scoring:
    train = random_batches(2048, "train", shuffle=True)
    valid = random_batches(VALIDATION, "valid", shuffle=False)
    policy = AdaptedStatistics(ADAPTATION)
    return Scoring(net, [SoTL(ShortRun(train, steps=STEPS)), ValAcc(valid, train, policy=policy)])


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    count, rounds = (12, 1) if asked.quick else (40, 5)
    with global_seed(SEED, "weights"):
        net = NB201Supernet(channels=CHANNELS, cells=1)
    architectures = [net.space.sample(generator_at(SEED, "architecture", index)) for index in range(count)]
    scoring = task(net)

    def walk(run: Mapper[Architecture, Scores], items: list[Architecture]) -> Callable[[], None]:
        def score_all() -> None:
            results = dict(run(items))
            assert len(results) == len(items)

        return score_all

    with Processes(1).open(scoring) as one, Processes(2).open(scoring) as two:
        for run in (one, two):  # starts the workers and lets every one of them run something
            walk(run, architectures[:4])()
        times = interleaved({"one_worker": walk(one, architectures), "two_workers": walk(two, architectures)}, rounds)
    middle = medians(times)
    print({side: f"{value:.2f} s" for side, value in middle.items()})
    settings = {
        "architectures": count, "channels": CHANNELS, "cells": 1, "size": SIZE, "batch": BATCH, "sotl_steps": STEPS,
        "adaptation_batches": ADAPTATION, "validation_images": VALIDATION, "rounds": rounds, "data": "random",
    }  # fmt: skip
    report(
        NAME,
        middle["one_worker"] / middle["two_workers"],
        GOAL,
        options=asked,
        settings=settings,
        details=summary(times),
    )


if __name__ == "__main__":
    main()
