"""What a user would try first on a table: gradient boosting, trained on the same examples and tested on the same.

Friedman (2001), "Greedy Function Approximation: A Gradient Boosting Machine", Annals of Statistics 29, by
scikit-learn's `HistGradientBoostingRegressor` with its default settings.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyarch.data import Examples, resident
from polyarch.results import Contender, NetworkRecord, Role
from polyarch.runs.run import Run
from polyarch.tasks import Regression

GRADIENT_BOOSTING = "gradient boosting (scikit-learn)"


def gradient_boosting(run: Run) -> Contender | None:
    """Gradient boosting as a contender, where numbers are predicted from the rows of a table; None elsewhere.

    It predicts no spread: for the likelihood, that of its validation errors is taken for every example.
    """
    task, feed = run.task, run.feed
    if not isinstance(task, Regression) or not feed.data.is_table:
        return None
    categories = [column.categories is not None for column in feed.data.columns]
    train, valid, test = (_arrays(part, categories) for part in (feed.train, feed.valid, feed.data.test))
    columns = [_fitted(train[0], train[1][:, index], categories, run) for index in range(len(task.names))]
    means = [np.stack([model.predict(rows) for model in columns], 1) for rows, _ in (valid, test)]
    spread = np.square(means[0] - valid[1]).mean(0)
    valid_outputs, outputs = (_outputs(task, mean, spread) for mean in means)
    found = task.measure(outputs, torch.from_numpy(test[1]))
    score = found[task.selection.name]
    record = NetworkRecord(
        architecture={},
        seed=run.settings.seed,
        score=score,
        loss=found["loss"],
        valid_score=task.scores(valid_outputs, torch.from_numpy(valid[1]))[task.selection.name],
        metrics=found,
    )
    return Contender(name=GRADIENT_BOOSTING, role=Role.BASELINE, mean=score, std=0.0, runs=[record])


def _fitted(rows: NDArray[np.float64], targets: NDArray[np.float64], categories: Sequence[bool], run: Run) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor  # takes a second to import

    model = HistGradientBoostingRegressor(categorical_features=list(categories), random_state=run.settings.seed)
    return model.fit(rows, targets)


def _arrays(data: Examples, categories: Sequence[bool]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Raw rows, with unknown categories as missing values, and targets (N, T)."""
    whole = resident(data)
    rows = whole.inputs.double().numpy()
    return np.where((rows == -1) & np.array(categories), np.nan, rows), whole.targets.double().numpy()


def _outputs(task: Regression, means: NDArray[np.float64], variances: NDArray[np.float64]) -> Tensor:
    """What a network with these predictions would return, (1, N, 2T)."""
    location, scale = np.array(task.location), np.array(task.scale)
    log_variances = np.broadcast_to(np.log(variances / scale**2), means.shape)
    return torch.from_numpy(np.concatenate([(means - location) / scale, log_variances], 1))[None]
