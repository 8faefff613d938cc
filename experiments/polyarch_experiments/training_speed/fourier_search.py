"""Searches for the degree of a Fourier series by the gradient of SoTL, and SoTL of fixed degrees."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from polyarch.methods.differentiable.tuning import Tuner
from polyarch.objectives import InnerSGD, Tensors, direct_gradient
from polyarch.randomness import generator_at
from polyarch_experiments.experiment import Settings
from polyarch_experiments.training_speed.fourier import RegressionData

NEAR = 0.5
"""MaxDeg has found the degree when it is this near: rounded, it is the degree. From below, a search that jumps past it
has reached it too."""
DRAWN = 100
"""Points of a curve that are kept."""


def gated_loss(weights: Tensors, settings: Tensors, batch: Any) -> Tensor:
    """The mean square error of sum_j w_j g_j phi_j(x) with the gate g_j = (tanh(MaxDeg - j) + 1) / 2."""
    degrees = torch.arange(len(weights["w"]))
    gates = (torch.tanh(settings["max_degree"] - degrees) + 1) / 2
    return plain_loss({"w": weights["w"] * gates}, settings, batch)


def plain_loss(weights: Tensors, settings: Tensors, batch: Any) -> Tensor:
    """The mean square error of sum_j w_j phi_j(x)."""
    features, targets = batch
    error: Tensor = (features @ weights["w"] - targets).square().mean()
    return error


def _batches(data: RegressionData, size: int, seed: int, stream: str) -> Iterator[RegressionData]:
    """Without end, in a new order every epoch."""
    epoch = 0
    while True:
        order = torch.randperm(len(data.targets), generator=generator_at(seed, stream, epoch))
        for rows in order.split(size):
            yield RegressionData(data.features[rows], data.targets[rows])
        epoch += 1


def sotl(settings: Settings, train: RegressionData, degree: int, seed: int) -> float:
    """The sum of training losses of a model of fixed degree, from zero weights."""
    kept = RegressionData(train.features[:, : degree + 1], train.targets)
    batches = list(islice(_batches(kept, settings["batch_size"], seed, "order"), settings["sweep_steps"]))
    found = direct_gradient(plain_loss, {"w": torch.zeros(degree + 1)}, {}, batches, InnerSGD(settings["rate"]))
    return sum(found.losses)


def decay_of(settings: Settings, unroll: int, *, even: bool) -> float:
    """Of MaxDeg, once per T steps: as it is, or in proportion to T, so that it is even per training step."""
    return float(settings["decay"] * (unroll / settings["unroll"] if even else 1))


def search(settings: Settings, item: dict[str, Any], train: RegressionData, valid: RegressionData) -> dict[str, Any]:
    """MaxDeg along the search: at some of the steps, after half of them and at the end, and when it reached the degree.

    Args:
        item: ``start``, ``steps``, ``unroll`` (T) and ``seed``; ``even`` for a decay of MaxDeg in proportion to T;
            ``validation`` to differentiate the held-out loss after T steps in place of SoTL.
    """
    unroll, size, seed = item["unroll"], settings["batch_size"], item["seed"]
    decay = decay_of(settings, unroll, even=item.get("even", False))
    tuner = Tuner(
        gated_loss,
        {"w": torch.zeros(settings["max_degree"] + 1)},
        {"max_degree": float(item["start"])},
        InnerSGD(settings["rate"], weight_decay=settings["weight_decay"]),
        outer=partial(torch.optim.SGD, lr=settings["outer_rate"], weight_decay=decay),
        clip=float("inf"),
    )
    batches = islice(_batches(train, size, seed, "order"), item["steps"])
    held_out = _batches(valid, size, seed, "valid") if item.get("validation") else None
    blocks = tuner.run(batches, unroll, held_out)
    curve = [block.settings["max_degree"].item() for block in blocks[1:]] + [tuner.settings["max_degree"].item()]
    reached = next((at for at, value in enumerate(curve) if value >= settings["degree"] - NEAR), None)
    stride = max(1, len(curve) // DRAWN)
    return {
        "curve": [[unroll * (at + 1), round(curve[at], 4)] for at in range(0, len(curve), stride)],
        "half": curve[len(curve) // 2 - 1],
        "final": curve[-1],
        "reached": None if reached is None else unroll * (reached + 1),
    }
