"""Results of runs that never ran, close to what real ones give: a cell, a table, a network of one's own, a depth."""

from __future__ import annotations

import math
import random
from typing import Any

from polyarch.results import (
    Accuracy,
    Contender,
    PredictorRecord,
    RankingRecord,
    ReliabilityBin,
    Results,
    ScoredArchitecture,
    ScoreRecord,
    SearchRecord,
    TrainingRecord,
)
from polyarch.spaces import NB201_OPERATIONS, nb201_space

HOSTILE = "</script><script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"

Architecture = dict[str, str]
Choices = dict[str, list[str]]

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
    return cell_results(ranking=None, search=None, comparison=None, artifact=None, predictors=[], decisions=[])


def hostile_results() -> Results:
    """Every text that a user can choose tries to be HTML."""
    options = [HOSTILE, IMAGE, "a\u2028b & <b>c</b>"]
    choices = {HOSTILE: options, f"{IMAGE} 2": options, "c.\x00'\"": [IMAGE, "plain"]}
    data = {"name": f"data {IMAGE}", "classes": [HOSTILE, IMAGE, "c"], "input_shape": [3], "train": 9, "valid": 9}
    results = make(choices, "module", 18, data={**data, "test": 90}, decisions=[f"space: {HOSTILE}", IMAGE])
    for predictor in results.predictors:
        predictor.name = f"{predictor.name} {IMAGE}"
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
        "ranking": ranking(evaluated[:24]),
        "search": SearchRecord(
            sampler="evolution", objectives=["sotl"], limits=limits or {}, evaluated=evaluated, best=[best]
        ),
        "comparison": [
            contender("best architecture, retrained", [best.architecture] * 3, 0.962 + gain, 0.003),
            contender("random architectures, retrained", random_ones, 0.962, 0.011),
            contender("best architecture, inherited weights", [best.architecture], 0.934, 0.0),
        ],
        "artifact": {"architecture": best.architecture, "seed": 1, "accuracy": 0.98, "parameters": best.parameters},
        "predictors": [
            predictor("best architecture", [best.architecture], 0.961 + gain, 1.31),
            predictor("ensemble of 5", [item.architecture for item in members], 0.972 + gain, 1.12),
            predictor("ensemble of random architectures", random_ones[:3], 0.958, 1.2),
        ],
        "decisions": [
            "space nb201: images of 8 pixels go to the NAS-Bench-201 cell network, with 4 channels",
            "schedule: 120 epochs for the supernet and 40 for each network trained alone, from 1,079 training examples "
            "of about 0.26 million multiply-accumulates each",
            "augmentation: training images are shifted by up to 1 pixels at random (data.shift changes it)",
        ],
        "seconds": {"train": 28.36, "rank": 15.64, "search": 21.14, "retrain": 29.73},
    }
    return Results(**{**content, **changes})


def draw(choices: Choices, generator: random.Random) -> Architecture:
    return {choice: generator.choice(options) for choice, options in choices.items()}


def scored(
    architecture: Architecture, choices: Choices, generator: random.Random, limits: dict[str, float]
) -> ScoredArchitecture:
    """Larger options cost more and score better, with noise."""
    positions = [options.index(architecture[choice]) / len(options) for choice, options in choices.items()]
    share = sum(positions) / len(positions)
    parameters = int(1000 + 33_000 * share * generator.uniform(0.5, 1.4))
    if "params" in limits:
        parameters = min(parameters, int(limits["params"]) - generator.randrange(400))
    values = {
        "sotl": -3.2 + 1.5 * share + generator.gauss(0, 0.25),
        "val_acc": min(0.8 + 0.2 * share + generator.gauss(0, 0.02), 1.0),
        "params": float(parameters),
        "macs": parameters * 61.0,
    }
    policies = {"sotl": "batch", "val_acc": "adapt"}
    scores = [ScoreRecord(estimator=name, value=value, policy=policies.get(name)) for name, value in values.items()]
    return ScoredArchitecture(architecture=architecture, scores=scores, parameters=parameters)


def history(epochs: int, seed: int = 0) -> list[dict[str, float]]:
    generator = random.Random(seed)
    return [
        {
            "epoch": float(epoch),
            "step": 16.0 * (epoch + 1),
            "loss": 2.2 * math.exp(-epoch / 12) + 0.12 + generator.uniform(0, 0.05),
            "valid_loss": 2.1 * math.exp(-epoch / 14) + 0.2 + generator.uniform(0, 0.08),
            "valid_accuracy": 0.96 - 0.85 * math.exp(-epoch / 8) + generator.uniform(0, 0.02),
        }
        for epoch in range(epochs)
    ]


def ranking(architectures: list[ScoredArchitecture]) -> RankingRecord:
    names = ("spearman", "kendall", "sparse_kendall", "pearson")
    qualities = {"val_acc": 0.62, "params": 0.41, "macs": 0.38}
    return RankingRecord(
        reference="sotl",
        architectures=architectures,
        quality={
            name: {"n": 24, **{key: {"value": value, "low": value - 0.3, "high": value + 0.2} for key in names}}
            for name, value in qualities.items()
        },
    )


def contender(name: str, architectures: list[Architecture], mean: float, std: float) -> Contender:
    """Accuracies that lie around the mean."""
    count = len(architectures)
    steps = [(2 * index - (count - 1)) / max(count - 1, 1) for index in range(count)]
    runs = [
        Accuracy(
            architecture=architecture,
            seed=index,
            accuracy=mean + std * step,
            loss=0.1,
            calibration_error=0.011,
            valid_accuracy=0.95,
            history=history(20, seed=index),
        )
        for index, (architecture, step) in enumerate(zip(architectures, steps, strict=True))
    ]
    return Contender(name=name, mean=mean, std=std, runs=runs)


def predictor(name: str, members: list[Architecture], accuracy: float, temperature: float) -> PredictorRecord:
    """Slightly overconfident; the last bins hold most examples."""
    bins = []
    for index in range(10):
        low, high = index / 10, (index + 1) / 10
        count = 0 if index < 2 else 2 + index**3 // 3
        confidence = (low + high) / 2
        bins.append(
            ReliabilityBin(low=low, high=high, confidence=confidence, accuracy=confidence**temperature, count=count)
        )
    coverage = [index / 50 for index in range(1, 51)]
    weights = [1 / (index + 1) for index in range(len(members))]
    return PredictorRecord(
        name=name,
        members=members,
        weights=[weight / sum(weights) for weight in weights],
        temperature=temperature,
        accuracy=accuracy,
        loss=0.1312,
        brier=0.0523,
        calibration_error=0.0121,
        uncalibrated_loss=0.1497,
        uncalibrated_calibration_error=0.0268,
        reliability=bins,
        coverage=coverage,
        risk=[(1 - accuracy) * share**3 for share in coverage],
        threshold=0.612,
        flagged=0.05 * temperature,
        detection={"entropy": {"auroc": 0.9312, "aupr": 0.8874, "fpr95": 0.2143}},
    )
