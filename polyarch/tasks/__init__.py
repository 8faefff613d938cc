"""Tasks: what is predicted, from the loss to the calibrated answer."""

from polyarch.predictive.metrics import Goal, Metric
from polyarch.tasks.classification import Classification, balanced_weights, prediction_sets
from polyarch.tasks.multi_label import MultiLabel
from polyarch.tasks.own import OwnTask
from polyarch.tasks.regression import Regression
from polyarch.tasks.resampling import RESAMPLES, resampled_scores
from polyarch.tasks.task import Calibration, Task

__all__ = [
    "RESAMPLES", "Calibration", "Classification", "Goal", "Metric", "MultiLabel", "OwnTask", "Regression", "Task",
    "balanced_weights", "prediction_sets", "resampled_scores",
]  # fmt: skip
