"""Judging many draws from a posterior with two worker processes, against one; and masked in place of extracted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from measure import Goal, interleaved, medians, options, report, summary

from polyarch.data import Batches, TensorData
from polyarch.distributions import KeepDrop
from polyarch.executors import Mapper, Processes
from polyarch.networks import MultiBranchResNet
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.networks import to_device
from polyarch.searchers import DrawScoring, JudgedDraw, LimitedDraws
from polyarch.strategies import measure
from polyarch.supernets import GatedSupernet, gate, probe

NAME = "parallel_candidates"
GOAL = Goal(">=", 1.8)
SEED = 0
WIDTH = 16
KERNELS = (3, 5)
DROP = 0.4
SIZE, BATCH = 16, 256
KIND = "draws"

Draw = tuple[str, int]


@dataclass(frozen=True)
class MaskedScoring(DrawScoring):
    """The same candidates without extraction: zeros in the whole network."""

    def __call__(self, draw: Draw) -> JudgedDraw:
        kind, position = draw
        architecture = self.draws[kind](position)
        keep = self.net.slices(architecture)
        found = measure(self.task, lambda inputs: self.net.forward_slices(inputs, keep), self.batches.epoch(0))
        cost, notation = self.net.cost(architecture), self.net.notation(architecture)
        return JudgedDraw(position, notation, found["accuracy"], found["loss"], cost.parameters, cost.macs)


def make_net() -> GatedSupernet:
    with global_seed(SEED, "weights"):
        model = MultiBranchResNet(width=WIDTH, kernels=KERNELS)
    net = gate(model, probe((3, SIZE, SIZE)), groups=model.gate_groups())
    return to_device(net, torch.device("cpu")).eval()


def random_batches(count: int) -> Batches:
    generator = generator_at(SEED, "valid")
    images = torch.randn(count, 3, SIZE, SIZE, generator=generator)
    data = TensorData(images, torch.randint(10, (count,), generator=generator), 10)
    return Batches(data, BATCH, seed=SEED, shuffle=False)


def walk(run: Mapper[Draw, JudgedDraw], draws: list[Draw]) -> Callable[[], list[JudgedDraw]]:
    def judge_all() -> list[JudgedDraw]:
        results = dict(run(draws))
        return [results[index] for index in range(len(draws))]

    return judge_all


def require_equal(first: list[JudgedDraw], *others: list[JudgedDraw]) -> None:
    """All sides judge the same networks."""
    for other in others:
        for one, two in zip(first, other, strict=True):
            assert (one.position, one.parameters, one.macs) == (two.position, two.parameters, two.macs)
            assert abs(one.loss - two.loss) < 1e-4, (one, two)


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    count, images, rounds = (12, 1024, 3) if asked.quick else (24, 2048, 3)
    net = make_net()
    q = KeepDrop(net.slice_space, net.groups, drop=DROP)
    arguments: dict[str, Any] = {
        "net": net, "draws": {KIND: LimitedDraws(net, q, seed=SEED)}, "batches": random_batches(images)
    }  # fmt: skip
    extracted, masked = DrawScoring(**arguments), MaskedScoring(**arguments)
    items = [(KIND, position) for position in range(count)]
    with Processes(1).open(extracted) as one, Processes(2).open(extracted) as two, Processes(1).open(masked) as other:
        runs = {"one_worker": one, "two_workers": two, "one_worker_masked": other}
        # starts the workers and lets every one of them run something
        require_equal(*(walk(run, items[:4])() for run in runs.values()))
        times = interleaved({side: walk(run, items) for side, run in runs.items()}, rounds)
    middle = medians(times)
    per_second = {side: round(count / value, 3) for side, value in middle.items()}
    print(per_second)
    settings = {
        "candidates": count, "network": "multi-branch ResNet", "width": WIDTH, "kernels": KERNELS, "drop": DROP,
        "size": SIZE, "batch": BATCH, "validation_images": images, "rounds": rounds, "data": "random",
    }  # fmt: skip
    details = {
        "candidates_per_second": per_second,
        "extracted_over_masked": round(middle["one_worker_masked"] / middle["one_worker"], 4),
        **summary(times),
    }
    ratio = middle["one_worker"] / middle["two_workers"]
    report(NAME, ratio, GOAL, options=asked, settings=settings, details=details)


if __name__ == "__main__":
    main()
