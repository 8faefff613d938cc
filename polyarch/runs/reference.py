"""What a user would try first on a table: ensembles of trees, trained on the same examples and tested on the same.

Friedman (2001), "Greedy Function Approximation: A Gradient Boosting Machine", Annals of Statistics 29; Geurts, Ernst
and Wehenkel (2006), "Extremely Randomized Trees", Machine Learning 63; both by scikit-learn with its default settings,
but for the number of extra trees.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyarch.data import Examples, resident
from polyarch.results import CalibrationRecord, Contender, NetworkRecord, ResampledRecord, Role
from polyarch.runs.run import Run
from polyarch.tasks import Classification, Regression, Task

Table = tuple[NDArray[np.float64], NDArray[Any]]
"""Raw rows, with unknown categories as missing values, and targets."""

TREES = 300
SMALLEST = 1e-6
"""Probabilities are at least so large: trees that have not seen a class in a place give it 0."""


def references(run: Run) -> list[Contender]:
    """Ensembles of trees as contenders, where classes or numbers are predicted from the rows of a table; else none."""
    task, feed = run.task, run.feed
    if not isinstance(task, Classification | Regression) or not feed.data.is_table:
        return []
    categories = [column.categories is not None for column in feed.data.columns]
    parts = [_table(part, categories) for part in (feed.train, feed.valid, feed.data.test)]
    return [_contender(run, f"{name} (scikit-learn)", model, parts) for name, model in _models(run).items()]


MOST_CATEGORIES = 255
"""Of a column that gradient boosting can split by category; longer ones are numbers to it."""


def _models(run: Run) -> Mapping[str, Any]:
    from sklearn import ensemble  # takes a second to import
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    kind = "Classifier" if isinstance(run.task, Classification) else "Regressor"
    seed = run.settings.seed
    names = [column.categories or () for column in run.feed.data.columns]
    categories = [0 < len(one) <= MOST_CATEGORIES for one in names]
    boosting = getattr(ensemble, f"HistGradientBoosting{kind}")(categorical_features=categories, random_state=seed)
    trees = getattr(ensemble, f"ExtraTrees{kind}")(n_estimators=TREES, random_state=seed)
    return {"gradient boosting": boosting, "extra trees": make_pipeline(SimpleImputer(keep_empty_features=True), trees)}


def _contender(run: Run, name: str, model: Any, parts: Sequence[Table]) -> Contender:
    """A model as a contender.

    Regressions predict no spread: for the likelihood, that of the validation errors is taken for every example.
    """
    task = run.task
    (rows, targets), *held_out = parts
    if isinstance(task, Regression):
        valid_outputs, outputs = _number_outputs(task, model, rows, targets, held_out)
    else:
        model.fit(rows, targets)
        valid_outputs, outputs = (_class_outputs(task, model, one) for one, _ in held_out)
    truth = torch.from_numpy(held_out[1][1])
    found = task.measure(outputs, truth)
    score = found[task.selection.name]
    record = NetworkRecord(
        architecture={},
        seed=run.settings.seed,
        score=score,
        loss=found["loss"],
        valid_score=task.scores(valid_outputs, torch.from_numpy(held_out[0][1]))[task.selection.name],
        metrics=found,
        calibration=CalibrationRecord.of(task, outputs, truth, torch.ones(1)),
        resampled=ResampledRecord.of(task, outputs, truth),
    )
    return Contender(name=name, role=Role.BASELINE, mean=score, std=0.0, runs=[record])


def _table(data: Examples, categories: Sequence[bool]) -> Table:
    whole = resident(data)
    rows = whole.inputs.double().numpy()
    targets = whole.targets.double() if whole.targets.is_floating_point() else whole.targets
    return np.where((rows == -1) & np.array(categories), np.nan, rows), targets.numpy()


def _class_outputs(task: Task, model: Any, rows: NDArray[np.float64]) -> Tensor:
    """Log probabilities (1, N, classes); classes without a training example are the least probable."""
    probabilities = np.zeros((len(rows), task.outputs))
    probabilities[:, model.classes_] = model.predict_proba(rows)
    return torch.from_numpy(probabilities).clamp_min(SMALLEST).log()[None]


def _number_outputs(
    task: Regression, model: Any, rows: NDArray[np.float64], targets: NDArray[Any], held_out: Sequence[Table]
) -> list[Tensor]:
    """What a network with these predictions would return, (1, N, 2T) for each held-out table."""
    from sklearn.base import clone

    models = [clone(model).fit(rows, targets[:, index]) for index in range(len(task.names))]
    means = [np.stack([one.predict(others) for one in models], 1) for others, _ in held_out]
    location, scale = np.array(task.location), np.array(task.scale)
    variances = np.square(means[0] - held_out[0][1]).mean(0)
    return [
        torch.from_numpy(
            np.concatenate([(mean - location) / scale, np.broadcast_to(np.log(variances / scale**2), mean.shape)], 1)
        )[None]
        for mean in means
    ]
