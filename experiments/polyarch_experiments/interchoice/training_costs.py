"""What kinds of weights cost: the seconds of a training step, and the memory that training takes.

Table 1 of Laube and Zell (2021), "Inter-choice dependent super-network weights", arXiv:2104.11522.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.data import Batch
from polyarch.randomness import generator_at
from polyarch.ranking import Interval
from polyarch.strategies import Strategy
from polyarch.training.split_weights import split_weights
from polyarch_experiments.experiment import Table
from polyarch_experiments.ranked_supernets import trial_of
from polyarch_experiments.verdict import over_seeds

STEPS = 16
"""So many steps are weighed, and as many timed."""


def training_costs(contents: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The ``bytes`` that training takes and the ``seconds`` of a step, median and all ``steps``, by kind of weights.

    Every kind takes the same paths on the same batches, in turn, so that what else the machine does disturbs all alike.
    Seconds are those of the processor.

    Args:
        contents: the settings of a run for every kind.
    """
    kinds = {kind: _Steps.of(content) for kind, content in contents.items()}
    found = {kind: max(steps.bytes(step) for step in range(STEPS)) for kind, steps in kinds.items()}
    rows = [{kind: steps.seconds(step) for kind, steps in kinds.items()} for step in range(STEPS)]
    seconds = {kind: [round(row[kind], 5) for row in rows] for kind in kinds}
    medians = {kind: statistics.median(values) for kind, values in seconds.items()}
    return {"seconds": medians, "bytes": found, "steps": seconds}


def extra_seconds(costs: Mapping[str, Any], kind: str, than: str = "base") -> Interval:
    """By how many percent the steps of a kind of weights take longer than those of another, paired step by step."""
    pairs = zip(costs["steps"][kind], costs["steps"][than], strict=True)
    return over_seeds([100 * ours / theirs - 100 for ours, theirs in pairs])


@dataclass(frozen=True)
class _Steps:
    """Training steps of a supernet, of which the weights are split if they ever are."""

    net: nn.Module
    strategy: Strategy
    batches: list[Batch]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> _Steps:
        trial = trial_of(content)
        training = trial.method.training(trial)
        if content["space"].get("interchoice", {}).get("kind") == "split":
            split_weights(trial.net, training.optimizer)
        source = trial.feed.training_batches(trial.settings.train.batch_size)
        return cls(trial.net, training.strategy, list(islice(source.epoch(0), STEPS)))

    def take(self, step: int) -> None:
        self.strategy.step([self.batches[step % len(self.batches)]], generator=generator_at(0, "cost", step))

    def seconds(self, step: int) -> float:
        started = time.process_time()
        self.take(step)
        return time.process_time() - started

    def bytes(self, step: int) -> int:
        """Of weights, their momentum, statistics, and the activations and gradients of the path of the step."""
        activations = saved_bytes(lambda: self.take(step), besides=self.net.parameters())
        parameters = list(self.net.parameters())
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        return activations + 2 * size_of(parameters) + size_of(self.net.buffers()) + size_of(gradients)


def size_of(tensors: Iterable[Tensor]) -> int:
    """The bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def saved_bytes(work: Callable[[], object], *, besides: Iterable[Tensor] = ()) -> int:
    """The bytes that the forward passes of some work keep for their backward passes, each storage once.

    Args:
        besides: tensors that are there anyway, such as weights.
    """
    known = {tensor.untyped_storage().data_ptr() for tensor in besides}
    kept: dict[int, int] = {}
    held = []  # storages that live on cannot be taken for each other

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
            held.append(storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        work()
    return sum(kept.values())


def cost_table(costs: Mapping[str, Mapping[str, Any]]) -> Table:
    """Seconds and memory of every space and kind, and the increase over ``base``.

    Args:
        costs: what `training_costs` found, by space.
    """
    rows = []
    for space, found in costs.items():
        for kind, seconds in found["seconds"].items():
            row = [space, kind, f"{1000 * seconds:.1f}", increase(found["seconds"], kind)]
            rows.append([*row, f"{found['bytes'][kind] / 1e6:.1f}", increase(found["bytes"], kind)])
    return Table(["space", "weights", "ms per step", "more time", "MB in training", "more memory"], rows)


def increases(values: Mapping[str, float]) -> str:
    """By how much every kind of weights costs more than none."""
    return ", ".join(f"{kind} {increase(values, kind)}" for kind in values if kind != "base")


def increase(values: Mapping[str, float], kind: str) -> str:
    """By how much a kind of weights costs more than none, in percent."""
    return f"{100 * values[kind] / values['base'] - 100:+.0f} %"
