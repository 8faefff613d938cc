"""Posterior-guided runs that never ran: cells with a pooling, and a depth network within limits."""

from __future__ import annotations

import math
import random
from typing import Any

from record_examples import contender, history, made, predictor

from polyarch.methods.posterior_guided.record import DRAWN, FURTHER, GatedLayer, GuidedDraw, GuidedRecord
from polyarch.results import Contender, Results, Role, TrainingRecord

SIZES = (3, 8, 16, 16, 24, 32, 16, 64, 64, 128, 256, 500)
DROPS = (0.004, 0.1, 0.35, 0.5, 0.62, 0.97, 0.2, 0.55, 0.7, 0.45, 0.81, 0.999)
POOLING, EMPTY = 6, 5
"""Positions of a layer with a gate on its output and of one that is dropped wholly."""


def layers(names: list[str], drops: list[float], sizes: list[int]) -> list[GatedLayer]:
    """Channels are kept as their drop probabilities say."""
    generator = random.Random(0)
    found = []
    for name, drop, size in zip(names, drops, sizes, strict=True):
        kept = "".join("0" if generator.random() < drop else "1" for _ in range(size))
        found.append(GatedLayer(name=name, group=name, side="input", drop=drop, kept=kept))
    return found


def cell_layers() -> list[GatedLayer]:
    """Twelve layers, from 3 to 500 channels; one is a pooling, one is dropped wholly."""
    found = layers([f"cells.0.operations.{place}.kernel3.1" for place in range(12)], list(DROPS), list(SIZES))
    found[POOLING].name = found[POOLING].group = "cells.0.operations.6"
    found[POOLING].side = "output"
    found[EMPTY].kept = "0" * SIZES[EMPTY]
    return found


def draws(count: int, accuracy: float, seed: int) -> list[GuidedDraw]:
    """Larger ones are a little better."""
    generator = random.Random(seed)
    found = []
    for position in range(count):
        size = generator.gauss(0.4, 0.05)
        right = min(accuracy + 0.2 * (size - 0.4) + generator.gauss(0, 0.01), 1.0)
        found.append(
            GuidedDraw(
                position=position,
                score=right,
                loss=-math.log(max(right, 0.01)),
                parameters=round(250_000 * size),
                macs=float(round(4_000_000 * size)),
            )
        )
    return found


def record(found: list[GatedLayer], **changes: Any) -> GuidedRecord:
    guided = draws(60, 0.93, 1)
    channels = sum(len(layer.kept) for layer in found)
    content: dict[str, Any] = {
        "length_scale": 7.07,
        "temperature": 0.2,
        "initial_drop": 0.1,
        "keep_rate": sum(len(layer.kept) * (1 - layer.drop) for layer in found) / channels,
        "layers": found,
        "guided": guided,
        "random": draws(24, 0.8, 2),
        "best": max(guided, key=lambda draw: draw.score).position,
        "full_parameters": 250_000,
        "full_macs": 4_000_000.0,
        "members": 5,
    }
    return GuidedRecord(**{**content, **changes})


def guided_results(**changes: Any) -> Results:
    """A finished run whose best draw was trained further."""
    return results(record(cell_layers()), "enas", **changes)


def guided_depth_results(**changes: Any) -> Results:
    """A depth and channels within limits that the posterior's own draws do not keep; nothing was trained further."""
    names = [f"depths.blocks.{block}.{place}" for block in range(6) for place in (2, 5)]
    found = layers(names, [0.1 + 0.06 * place for place in range(12)], [24] * 12)
    weights = [math.exp(-((depth - 4) ** 2) / 3) for depth in range(7)]
    limited = record(
        found, depths=[weight / sum(weights) for weight in weights], best_depth=4, strength=12.5, max_macs=2_100_000.0,
        max_params=132_000.0,
    )  # fmt: skip
    run = results(limited, "depth_cnn", **changes)
    exported_as_drawn(run)
    run.comparison = [one for one in run.comparison or [] if one.name != FURTHER]
    return run


def exported_as_drawn(run: Results) -> None:
    """As if further training had made the best draw worse."""
    assert run.comparison is not None
    run.predictors[0].name = DRAWN
    run.comparison[0].role, run.comparison[1].role = Role.BEST, Role.OTHER


def large_results(**changes: Any) -> Results:
    """150 layers, some with long names, and as many draws as the document has."""
    sizes = [(8, 16, 32, 64, 128, 512)[place % 6] for place in range(150)]
    names = [f"stages.{place // 30}.cells.{place // 10}.operations.{place % 10}.4.kernel5.1" for place in range(150)]
    found = layers(names, [(37 * place % 100) / 100 for place in range(150)], sizes)
    guided = draws(1500, 0.93, 1)
    best = max(guided, key=lambda draw: draw.score).position
    return results(record(found, guided=guided, random=draws(1500, 0.8, 2), best=best), "enas", **changes)


def unfinished_guided_results() -> Results:
    """Before anything is drawn."""
    return guided_results(record=None, comparison=None, artifact=None, predictors=[])


def results(found: GuidedRecord, kind: str, **changes: Any) -> Results:
    """A finished run with this record."""
    mask = {layer.name: layer.kept for layer in found.layers}
    whole = {layer.name: "1" * len(layer.kept) for layer in found.layers}
    mixture = f"mixture of {found.members} draws"
    alone = "whole network, trained alone"
    comparison = [
        once(DRAWN, Role.OTHER, mask, 0.921),
        contender(FURTHER, Role.BEST, [mask], 0.9272, 0.0),
        once(mixture, Role.MIXTURE, mask, 0.924),
        once("random draws, one rate", Role.RANDOM, mask, 0.85),
        once("whole network, weights of the search", Role.INHERITED, whole, 0.9),
        contender(alone, Role.BASELINE, [whole] * 2, 0.93, 0.003),
    ]
    channels = {
        f"{layer.name}[{place}]": ["drop", "keep"] for layer in found.layers for place in range(len(layer.kept))
    }
    content: dict[str, Any] = {
        "polyarch": "0.6.0",
        "torch": "2.13.0",
        "method": "posterior-guided",
        "settings": {"method": "posterior-guided", "seed": 0, "space": {"kind": kind}},
        "data": {
            "name": "cifar10",
            "classes": [str(digit) for digit in range(10)],
            "input_shape": [3, 16, 16],
            "dtype": "uint8",
            "train": 4000,
            "valid": 1000,
            "test": 2000,
        },
        "space": {
            "name": kind,
            "kind": kind,
            "size": 2 ** len(channels),
            "choices": channels,
            "supernet_parameters": found.full_parameters,
        },
        "training": TrainingRecord(strategy="posterior-guided", history=course(24)),
        "comparison": comparison,
        "artifact": {
            # as some files have it: a choice for every channel
            "architecture": {name: ("drop", "keep")[place % 2] for place, name in enumerate(channels)},
            "score": 0.9272,
            "parameters": found.best_draw.parameters,
        },
        "predictors": [
            predictor(FURTHER, "artifact", [mask], 0.9272, 1.2),
            predictor(mixture, "posterior", [mask] * found.members, 0.924, 0.9),
            predictor(alone, None, [whole], 0.93, 1.3),
        ],
        "default": "posterior",
        "record": found,
        "decisions": ["prior: length scale 7.07 for 4,000 training examples; a larger one makes smaller networks"],
        "seconds": {"train": 93.1, "draw": 12.0, "retrain": 46.0},
    }
    return made({**content, **changes})


def once(name: str, role: Role, architecture: dict[str, str], accuracy: float) -> Contender:
    """What was measured without a training of its own."""
    found = contender(name, role, [architecture], accuracy, 0.0)
    found.runs[0].history = []
    return found


def course(epochs: int) -> list[dict[str, float]]:
    """Fewer and fewer channels are kept."""
    return [
        {**row, "penalty": 1.2 * math.exp(-row["epoch"] / 5) - 0.1, "kept": 0.38 + 0.5 * math.exp(-row["epoch"] / 4)}
        for row in history(epochs)
    ]
