"""Results of runs that never ran, close to what real ones give: a cell, a table, a network of one's own, a depth."""

from __future__ import annotations

import math
import random
from typing import Any

from depth_examples import baseline_results, photos_results, spirals_results
from differentiable_examples import differentiable_results
from guided_examples import guided_depth_results, guided_results, unfinished_guided_results
from record_examples import Choices, contender, draw, history, made, predictor, ranking, scored
from stochastic_examples import cells_results, stochastic_results
from task_examples import as_labels, as_numbers

from polyarch.methods.one_shot.record import OneShotRecord, SearchRecord
from polyarch.results import Results, Role, TrainingRecord
from polyarch.spaces import NB201_OPERATIONS, nb201_space

HOSTILE = "</script><script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"

CELL = {name: list(NB201_OPERATIONS) for name in nb201_space().choice_names}
TABLE = {"depth": ["1", "2", "3", "4"], **{f"block{index}": ["h64", "h128", "h256"] for index in range(4)}}
OWN = {
    "encoder.stages.0.mixer": ["attention", "convolution 3x3", "identity"],
    "encoder.stages.1.mixer": ["attention", "convolution 3x3", "identity"],
    "encoder.stages.1.mixer.heads": ["2", "4", "8"],
    "head": ["linear", "a two-layer perceptron with dropout"],
    "repeats": ["1", "2", "3", "4", "5"],
}
DEPTH = {"depth": [str(depth) for depth in range(21)]}


def cell_results(**changes: Any) -> Results:
    """A finished run with 60 searched cells, in which the search was worth it."""
    return make(CELL, "nb201", 15625, limits={"params": 24000.0}, **changes)


def table_results(**changes: Any) -> Results:
    """A run on a table; the best network is within the spread of random ones."""
    data = {"name": "wine quality", "classes": ["bad", "good"], "input_shape": [11], "dtype": "float32"}
    return make(TABLE, "mlp", 324, gain=0.003, data={**data, "train": 4000, "valid": 900, "test": 1200}, **changes)


def numbers_results(**changes: Any) -> Results:
    """The run on a table with two numbers to predict."""
    return as_numbers(table_results(**changes))


def labels_results(**changes: Any) -> Results:
    """The run on a table with three labels to predict."""
    return as_labels(table_results(**changes))


def own_results(**changes: Any) -> Results:
    """A run with a user's own network, whose choices offer different options."""
    return make(OWN, "module", 270, gain=-0.02, **changes)


def depth_results(**changes: Any) -> Results:
    """A run whose distribution over depths was learned."""
    weights = [math.exp(-((depth - 7) ** 2) / 8) for depth in range(21)]
    q = {"depth": [weight / sum(weights) for weight in weights]}
    training = TrainingRecord(strategy="variational", history=history(30), q=q)
    return make(DEPTH, "depth_fc", 21, training=training, **changes)


def unfinished_results() -> Results:
    """A run that has only trained its supernet."""
    return cell_results(record=None, comparison=None, artifact=None, predictors=[], decisions=[])


def hostile_results() -> Results:
    """Every text that a user can choose tries to be HTML."""
    options = [HOSTILE, IMAGE, "a\u2028b & <b>c</b>"]
    choices = {HOSTILE: options, f"{IMAGE} 2": options, "c.\x00'\"": [IMAGE, "plain"]}
    data = {"name": f"data {IMAGE}", "classes": [HOSTILE, IMAGE, "c"], "input_shape": [3], "train": 9, "valid": 9}
    results = make(choices, "module", 18, data={**data, "test": 90}, decisions=[f"space: {HOSTILE}", IMAGE])
    for one in results.predictors:
        one.name = f"{one.name} {IMAGE}"
    assert results.comparison is not None
    results.comparison[0].name = f"best {HOSTILE}, retrained"
    return results


def make(
    choices: Choices,
    kind: str,
    size: int,
    *,
    gain: float = 0.02,
    limits: dict[str, float] | None = None,
    **changes: Any,
) -> Results:
    """A run over these choices; ``gain`` is by how much the best is better than random architectures."""
    generator = random.Random(0)
    evaluated = [scored(draw(choices, generator), choices, generator, limits or {}) for _ in range(60)]
    evaluated = list({str(item.architecture): item for item in evaluated}.values())
    best = max(evaluated, key=lambda item: item.score("sotl"))
    members = sorted(evaluated, key=lambda item: -item.score("sotl"))[:5]
    random_ones = [draw(choices, generator) for _ in range(10)]
    content: dict[str, Any] = {
        "polyarch": "0.2.0",
        "torch": "2.13.0",
        "method": "one-shot",
        "settings": {"seed": 0, "space": {"kind": kind}, "retrain": {"epochs": 20, "seeds": 3}},
        "data": {
            "name": "digits",
            "classes": [str(digit) for digit in range(10)],
            "input_shape": [1, 8, 8],
            "dtype": "uint8",
            "train": 1079,
            "valid": 359,
            "test": 359,
        },
        "space": {"name": kind, "kind": kind, "size": size, "choices": choices, "supernet_parameters": 48_126},
        "training": TrainingRecord(strategy="single_path", history=history(60)),
        "record": OneShotRecord(
            ranking=ranking(evaluated[:24]),
            search=SearchRecord(
                sampler="evolution", objectives=["sotl"], limits=limits or {}, evaluated=evaluated, best=[best]
            ),
        ),
        "comparison": [
            contender("best architecture, retrained", Role.BEST, [best.architecture] * 3, 0.962 + gain, 0.003),
            contender("random architectures, retrained", Role.RANDOM, random_ones, 0.962, 0.011),
            contender("best architecture, inherited weights", Role.INHERITED, [best.architecture], 0.934, 0.0),
        ],
        "artifact": {"architecture": best.architecture, "seed": 1, "score": 0.98, "parameters": best.parameters},
        "predictors": [
            predictor("best architecture", "artifact", [best.architecture], 0.961 + gain, 1.31),
            predictor("ensemble of 5", "ensemble", [item.architecture for item in members], 0.972 + gain, 1.12),
            predictor("ensemble of random architectures", None, random_ones[:3], 0.958, 1.2),
        ],
        "default": "ensemble",
        "decisions": [
            "space nb201: images of 8 pixels go to the NAS-Bench-201 cell network, with 4 channels",
            "schedule: 120 epochs for the supernet and 40 for each network trained alone, from 1,079 training examples "
            "of about 0.26 million multiply-accumulates each",
            "augmentation: training images are shifted by up to 1 pixels at random (data.shift changes it)",
        ],
        "seconds": {"train": 28.36, "rank": 15.64, "search": 21.14, "retrain": 29.73},
    }
    return made({**content, **changes})


RUNS = {
    "cell": cell_results,
    "table": table_results,
    "numbers": numbers_results,
    "labels": labels_results,
    "own": own_results,
    "depth": depth_results,
    "spirals": spirals_results,
    "photos": photos_results,
    "baseline": baseline_results,
    "differentiable": differentiable_results,
    "stochastic": stochastic_results,
    "cells": cells_results,
    "guided": guided_results,
    "guided depth": guided_depth_results,
    "guided, unfinished": unfinished_guided_results,
    "unfinished": unfinished_results,
    "hostile": hostile_results,
}
