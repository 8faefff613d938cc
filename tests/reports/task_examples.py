"""What runs with other tasks than classes would have found: numbers, and labels that may be present together."""

from __future__ import annotations

import random

from record_examples import resampled

from polyarch.results import ConformalRecord, LevelPoint, NumberPoints, PredictorRecord, Results, TaskRecord
from polyarch.tasks import MultiLabel, Regression

INTERVALS = {"method": "scaled", "coverage": 0.9, "corrections": [1.7, 1.6], "examples": 900}


def as_numbers(results: Results) -> Results:
    """The same run with two numbers to predict: the fewer mistakes there were, the smaller is the RMSE."""
    names = ("price", "weight of it")
    task = Regression(names, (1e5, 3.0), (2e4, 1.0))
    return _changed(results, TaskRecord.of(task), numbers)


def as_labels(results: Results) -> Results:
    """The same run with three labels to predict."""
    return _changed(results, TaskRecord.of(MultiLabel(("hot", "wet", "loud"))), labels)


def numbers(one: PredictorRecord) -> dict[str, object]:
    """Errors in units of the scale, coverage close to what it should be, and points around the diagonal."""
    rmse = 2 * (1 - one.score)
    metrics = {"loss": 1.1, "rmse": rmse, "mae": 0.8 * rmse, "r2": 1 - rmse**2, "crps": 0.6 * rmse}
    generator = random.Random(0)
    points = []
    for name, size in (("price", 2e4), ("weight of it", 1.0)):
        true = [5 * size + size * generator.gauss(0, 1) for _ in range(60)]
        mean = [value + rmse * size * generator.gauss(0, 1) for value in true]
        std = [rmse * size * generator.uniform(0.8, 1.2) for _ in true]
        ends = [[value + side * 1.7 * width for value, width in zip(mean, std, strict=True)] for side in (-1, 1)]
        points.append(NumberPoints(name=name, true=true, mean=mean, std=std, low=ends[0], high=ends[1]))
    return {
        "score": rmse,
        "metrics": metrics,
        "uncalibrated": {**metrics, "loss": 1.3},
        "conformal": ConformalRecord(asked=0.9, covered=0.8967, size=3.4 * rmse, values=INTERVALS),
        "reliability": [],
        "levels": [LevelPoint(level=level / 10, covered=level / 10 + 0.02) for level in range(1, 10)],
        "points": points,
        "risk": [rmse * share for share in one.coverage],
    }


def labels(one: PredictorRecord) -> dict[str, object]:
    """F1 like the accuracy of the classes."""
    metrics = {"loss": 0.7, "micro_f1": one.score, "macro_f1": one.score - 0.01, "exact_match": one.score - 0.1}
    return {"metrics": metrics, "uncalibrated": {**metrics, "loss": 0.8}, "conformal": None, "reliability": []}


def _changed(results: Results, task: TaskRecord, of: object) -> Results:
    """With the records of another task."""
    assert callable(of) and results.comparison is not None
    results.task = task
    results.data |= {"classes": [], "targets": task.names}
    for one in results.predictors:
        for name, value in of(one).items():
            setattr(one, name, value)
        one.resampled = resampled(one.score, one.loss)
    for side in results.comparison:
        for run in side.runs:
            if task.goal == "minimise":
                run.score, run.valid_score = 2 * (1 - run.score), 2 * (1 - run.valid_score)
                run.resampled = resampled(run.score, run.loss)
            run.metrics = {"loss": run.loss, task.metric: run.score}
            _rename(run.history, task.metric)
        if task.goal == "minimise":
            side.mean, side.std = 2 * (1 - side.mean), 2 * side.std
    _rename(results.training.history, task.metric)
    return results


def _rename(history: list[dict[str, float]], metric: str) -> None:
    for row in history:
        if "valid_accuracy" in row:
            row[f"valid_{metric}"] = row.pop("valid_accuracy")
