"""Records of searches by gradients that never ran: one collapses to skips, one has many choices and does not."""

from __future__ import annotations

import math
from typing import Any

from record_examples import contender, made, predictor

from polyarch.methods.differentiable.record import DifferentiableRecord
from polyarch.results import Results, Role, TrainingRecord
from polyarch.spaces import (
    DARTS_OPERATIONS,
    NB201_OPERATIONS,
    cell_depths,
    darts_space,
    darts_string,
    nb201_space,
    nb201_string,
    operation_count,
    skip_count,
)
from polyarch.spaces.architecture import Architecture


def collapsed(epochs: int = 30, back_to: int | None = None) -> DifferentiableRecord:
    """Convolutions first, then more and more skips."""
    space = nb201_space()
    choices = {choice: list(NB201_OPERATIONS) for choice in space.choice_names}
    scores = [
        {choice: [0.0, 0.02 * (epoch - 3 * place) * epoch / 5, 0.1, 0.9, 0.2] for place, choice in enumerate(choices)}
        for epoch in range(epochs)
    ]
    marginals = [{choice: _softmax(values) for choice, values in one.items()} for one in scores]
    found = [
        space.architecture({choice: choices[choice][q.index(max(q))] for choice, q in one.items()}) for one in marginals
    ]
    history = [_row(epoch, one, found[epoch]) for epoch, one in enumerate(marginals)]
    for row, architecture in zip(history, found, strict=True):
        row["true_accuracy"] = 94.3 - 40 * (skip_count(architecture) / 6) ** 3
    chosen = found[-1 if back_to is None else back_to]
    return DifferentiableRecord(
        method="darts", gradient="first_order", parametrisation="softmax", discretisation="strongest",
        architecture=chosen.to_dict(), notation=nb201_string(chosen), choices=choices, history=history,
        architectures=[architecture.key for architecture in found], marginals=marginals, back_to=back_to,
        findings=[
            "Epoch 19: expected at most 50% of the operations to be skips. Got 67% (epochs in a row: 3).",
            "Epoch 22: expected the dominant eigenvalue to grow by a factor below 1.3 (window: 5). "
            "Got 1.36, from 0.21 to 0.285.",
        ],
    )  # fmt: skip


def deep(epochs: int = 12) -> DifferentiableRecord:
    """A DARTS search over 28 edges, without an eigenvalue, a table or a finding."""
    space = darts_space()
    edges = [
        f"{cell} {source}->{node}" for cell in ("normal", "reduce") for node in range(2, 6) for source in range(node)
    ]
    choices = {edge: ["none", *DARTS_OPERATIONS] for edge in edges}
    marginals = [
        {
            edge: _softmax([0.04 * epoch * math.sin(1 + place * 3 + option * 7) for option in range(8)])
            for place, edge in enumerate(edges)
        }
        for epoch in range(epochs)
    ]
    architecture = Architecture(space, (0, 1, 2, 1, 1, 1, 4, 2, 0, 9, 1, 5) * 2)
    history = [_row(epoch, one, architecture) for epoch, one in enumerate(marginals)]
    for row in history:
        del row["eigenvalue"]
    return DifferentiableRecord(
        method="sotl-darts", gradient="sotl", parametrisation="softmax", discretisation="strongest",
        architecture=architecture.to_dict(), notation=darts_string(architecture), choices=choices, history=history,
        architectures=[architecture.key] * epochs, marginals=marginals,
    )  # fmt: skip


def differentiable_results(record: DifferentiableRecord | None = None, **changes: Any) -> Results:
    """A finished run with this record, by default of a search that collapsed."""
    found = record or collapsed()
    best = found.architecture
    others = [{choice: options[place] for choice, options in found.choices.items()} for place in range(4)]
    content: dict[str, Any] = {
        "polyarch": "0.8.0",
        "torch": "2.13.0",
        "method": "darts",
        "settings": {"method": "darts", "seed": 0, "space": {"kind": "nb201"}},
        "data": {
            "name": "digits",
            "classes": [str(digit) for digit in range(10)],
            "input_shape": [1, 8, 8],
            "dtype": "uint8",
            "train": 1079,
            "valid": 359,
            "test": 359,
        },
        "space": {
            "name": "nb201",
            "kind": "nb201",
            "size": 15625,
            "choices": found.choices,
            "supernet_parameters": 48_126,
        },
        "training": TrainingRecord(strategy="darts", history=found.history),
        "record": found,
        "comparison": [
            contender("best architecture, retrained", Role.BEST, [best] * 3, 0.95, 0.003),
            contender("random architectures, retrained", Role.RANDOM, others, 0.962, 0.011),
            contender("best architecture, inherited weights", Role.INHERITED, [best], 0.9, 0.0),
        ],
        "artifact": {"architecture": best, "seed": 1, "score": 0.95, "parameters": 12_345},
        "predictors": [
            predictor("best architecture", "artifact", [best], 0.951, 1.31),
            predictor("ensemble of 4", "ensemble", others, 0.96, 1.12),
        ],
        "default": "ensemble",
        "seconds": {"train": 28.36, "choose": 1.2, "retrain": 29.73},
    }
    return made({**content, **changes})


def _row(epoch: int, marginals: dict[str, list[float]], architecture: Architecture) -> dict[str, float]:
    entropy = -sum(p * math.log(p) for q in marginals.values() for p in q)
    names = {"cell": "cell_depth", "normal": "cell_depth_normal", "reduce": "cell_depth_reduce"}
    return {
        "epoch": float(epoch),
        "step": 16.0 * (epoch + 1),
        "loss": 2.0 * math.exp(-epoch / 9) + 0.2,
        "q_loss": 2.0 * math.exp(-epoch / 11) + 0.3,
        "skips": float(skip_count(architecture)),
        "skip_share": skip_count(architecture) / operation_count(architecture),
        **{names[cell]: float(depth) for cell, depth in cell_depths(architecture).items()},
        "entropy": entropy,
        "entropy_share": entropy / sum(math.log(len(q)) for q in marginals.values()),
        "eigenvalue": 0.1 + 0.0004 * epoch**2,
    }


def _softmax(scores: list[float]) -> list[float]:
    weights = [math.exp(score) for score in scores]
    return [weight / sum(weights) for weight in weights]
