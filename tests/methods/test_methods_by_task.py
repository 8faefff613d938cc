"""Every method with every task: what it says of the test data is what its predictor says, also after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import polyarch
from polyarch.data import Dataset, TensorData
from polyarch.prediction.predictor import Predictions
from polyarch.predictive import label_micro_f1, rmse
from polyarch.randomness import generator_at
from polyarch.results import Results
from polyarch.tasks import MultiLabel, OwnTask, Regression, Task

SEARCH: dict[str, Any] = {
    "rank.architectures": 3,
    "rank.supernets": 1,
    "scores.steps": 2,
    "scores.policy_batches": 2,
    "search.budget": 4,
    "search.window": 2,
    "search.population": 2,
    "search.tournament": 2,
    "retrain.members": 2,
    "retrain.random_architectures": 1,
}
DEPTH: dict[str, Any] = {"space.kind": "depth_fc", "space.max_depth": 2}
OTHERS: dict[str, dict[str, Any]] = {
    "one-shot": SEARCH,
    "variational-depth": DEPTH,
    "deterministic-depth": DEPTH,
    "stochastic": {},
    "posterior-guided": {"guided.candidates": 4, "guided.random_candidates": 2},
    "gdas": {},
    "sotl-darts": {},
    "race": {"race.candidates": 2, "race.first_seconds": 0.1, "race.seconds": 0.5},
    "front": {"front.seconds": 0.5},
}
IMAGES = ("stochastic", "posterior-guided")

QUICK = {("one-shot", "numbers"), ("variational-depth", "own"), ("gdas", "labels")}
"""Those of every run of the tests."""


def distance(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).abs().mean(1)


TASKS = {"numbers": None, "labels": None, "own": OwnTask(distance, size=2)}


def made(kind: str, shape: tuple[int, ...]) -> Dataset:
    """160 examples whose first values say everything."""
    inputs = torch.rand(160, *shape, generator=generator_at(0, "tasks"))
    values = inputs.flatten(1)
    known = {
        "numbers": (torch.stack([100 + 10 * values[:, 0], values[:, 1] - values[:, 2]], 1), ("price", "weight")),
        "labels": (values[:, :3] > 0.5, ("hot", "wet", "loud")),
        "own": (values[:, :2], ("first", "second")),
    }
    targets, names = known[kind]
    data = TensorData(inputs, targets)
    return Dataset("made", data.subset(range(120)), data.subset(range(120, 160)), (), target_names=names)


def score(task: Task, predictions: Predictions, targets: Tensor) -> float:
    """The metric that selection goes by, from what a user gets."""
    match task:
        case Regression(scale=scale):
            error = rmse(predictions.mean.double(), targets.double())
            return float((error / torch.tensor(scale, dtype=torch.float64)).mean())
        case MultiLabel():
            return label_micro_f1(predictions.probabilities, targets)
    return float(distance(predictions.outputs, targets).mean())


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        pytest.param(method, kind, marks=() if (method, kind) in QUICK else pytest.mark.slow)
        for method in OTHERS
        for kind in TASKS
    ],
)
def test_the_results_are_what_is_predicted(method: str, kind: str, tmp_path: Path) -> None:
    data = made(kind, (1, 8, 8) if method in IMAGES else (6,))
    given: dict[str, Any] = {"out": tmp_path / "run", "method": method, "task": TASKS[kind], "quiet": True}
    settings = {"train.epochs": 2, "retrain.epochs": 2, "retrain.seeds": 1, "programs": [], **OTHERS[method]}
    found = polyarch.search(data, settings=settings, **given)
    results = found.results
    expected = {"numbers": ("regression", "rmse"), "labels": ("multi-label", "micro_f1"), "own": ("own", "loss")}
    assert (results.task.kind, results.task.metric) == expected[kind]
    answer = next(one for one in results.predictors if one.folder == results.default)
    (inputs,) = data.test.stream([torch.arange(len(data.test))])
    predictor = found.predictor()
    predictions = predictor(inputs)
    assert score(predictor.task, predictions, data.test.targets) == pytest.approx(answer.score, rel=1e-4, abs=1e-5)
    assert float(predictions.flagged.double().mean()) == pytest.approx(answer.flagged, abs=0.03)
    assert Results.read(tmp_path / "run" / "results.json") == results
    assert results.task.title in (tmp_path / "run" / "report.html").read_text()
    again = polyarch.search(data, resume=True, **given)
    assert again.results.predictors == results.predictors and again.results.comparison == results.comparison


@pytest.mark.slow
def test_a_learned_depth_of_numbers_does_not_collapse(tmp_path: Path) -> None:
    """Deep exits of residual blocks have large errors at first, for which a posterior must not rule them out."""
    inputs = torch.randn(700, 4, generator=generator_at(0, "table"))
    targets = (2 * inputs[:, 0]).sin() + inputs[:, 1] * inputs[:, 2]
    data = TensorData(inputs, targets[:, None])
    given = Dataset("made", data.subset(range(550)), data.subset(range(550, 700)), (), target_names=("y",))
    found = polyarch.search(
        given,
        method="variational-depth",
        out=tmp_path / "run",
        quiet=True,
        report=False,
        settings={"programs": [], "space.kind": "depth_fc", "space.max_depth": 8, "space.width": 32},
    ).results
    answer = next(one for one in found.predictors if one.folder == found.default)
    linear = torch.linalg.lstsq(inputs[:550], targets[:550, None]).solution
    alone = float((inputs[550:] @ linear - targets[550:, None]).square().mean().sqrt())
    assert answer.metrics["rmse"] < 0.5 * alone
