"""Records that never were measured, close to what runs give: scores, histories, contenders, predictors."""

from __future__ import annotations

import math
import random
from typing import Any

from polyarch.methods.one_shot.record import IntervalRecord, RankingRecord, ScoredArchitecture, ScoreRecord, TrustRecord
from polyarch.results import (
    ConformalRecord,
    Contender,
    NetworkRecord,
    PredictorRecord,
    ReliabilityBin,
    ResampledRecord,
    Results,
    Role,
    TaskRecord,
)
from polyarch.tasks import RESAMPLES

Architecture = dict[str, str]
Choices = dict[str, list[str]]

SETS = {"method": "lac", "coverage": 0.9, "threshold": 0.71, "examples": 359, "penalty": 0.0, "free_ranks": 0}


def made(content: dict[str, Any]) -> Results:
    """Results whose task, unless they say otherwise, is to tell the classes of their data apart."""
    return Results(**{"task": TaskRecord(names=content["data"]["classes"]), **content})


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
        trust=TrustRecord(
            n=24,
            estimators=("sotl", "val_acc"),
            estimator_agreement=interval(0.62, 0.32, 0.82),
            seed_agreement=interval(0.81, 0.6, 0.9),
            top_architecture=max(architectures, key=lambda item: item.score("sotl")).architecture,
            top_rank_interval=interval(0.043, 0.0, 0.17),
        ),
    )


def interval(value: float | None, low: float | None, high: float | None) -> IntervalRecord:
    return IntervalRecord(value=value, low=low, high=high)


def resampled(score: float, loss: float) -> ResampledRecord:
    """Scores on other examples of the kind, which are harder or easier for everyone, and a little for each."""
    generator, own = random.Random("examples"), random.Random(score)
    noise = [generator.gauss(0, 0.005) + own.gauss(0, 0.0005) for _ in range(RESAMPLES)]
    return ResampledRecord(score=[score + one for one in noise], loss=[loss - one for one in noise])


def moved(found: Contender, mean: float) -> None:
    """Gives a contender another mean score."""
    for run in found.runs:
        run.score += mean - found.mean
        run.resampled = resampled(run.score, run.loss)
    found.mean = mean


def contender(name: str, role: Role, architectures: list[Architecture], mean: float, std: float) -> Contender:
    """Scores that lie around the mean."""
    count = len(architectures)
    steps = [(2 * index - (count - 1)) / max(count - 1, 1) for index in range(count)]
    runs = [
        NetworkRecord(
            architecture=architecture,
            seed=index,
            score=mean + std * step,
            loss=0.1,
            valid_score=0.95,
            metrics={"loss": 0.1, "accuracy": mean + std * step, "calibration_error": 0.011},
            resampled=resampled(mean + std * step, 0.1),
            history=history(20, seed=index),
        )
        for index, (architecture, step) in enumerate(zip(architectures, steps, strict=True))
    ]
    return Contender(name=name, role=role, mean=mean, std=std, runs=runs)


def predictor(
    name: str, folder: str | None, members: list[Architecture], score: float, temperature: float
) -> PredictorRecord:
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
        folder=folder,
        members=members,
        weights=[weight / sum(weights) for weight in weights],
        temperature=temperature,
        score=score,
        loss=0.1312,
        metrics={"loss": 0.1312, "accuracy": score, "brier": 0.0523, "calibration_error": 0.0121},
        uncalibrated={"loss": 0.1497, "accuracy": score, "brier": 0.0561, "calibration_error": 0.0268},
        conformal=ConformalRecord(asked=0.9, covered=0.9123, size=1.34, values=SETS),
        reliability=bins,
        coverage=coverage,
        risk=[(1 - score) * share**3 for share in coverage],
        threshold=0.612,
        flagged=0.05 * temperature,
        resampled=resampled(score, 0.1312),
        detection={"entropy": {"auroc": 0.9312, "aupr": 0.8874, "fpr95": 0.2143}},
    )
