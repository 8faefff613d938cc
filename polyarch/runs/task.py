"""The task of a run, from its data and settings."""

from polyarch.data import Dataset, Examples
from polyarch.data.targets import TargetKind
from polyarch.errors import ConfigError
from polyarch.runs.sections import TaskSettings
from polyarch.tasks import Classification, MultiLabel, Regression, Task, balanced_weights


def asked_kind(settings: TaskSettings) -> TargetKind | None:
    """What data is loaded as; None for what its targets look like."""
    return None if settings.kind == "auto" or settings.kind == "own" else settings.kind


def task_of(settings: TaskSettings, data: Dataset, train: Examples) -> Task:
    """What is predicted, fitted to training examples: class weights, or the scale of numbers."""
    task: Task = data.task or _known(settings, data, train)
    task.check(train.targets)
    return task.by_metric(settings.metric) if settings.metric else task


def _known(settings: TaskSettings, data: Dataset, train: Examples) -> Task:
    if settings.kind == "own":
        raise ConfigError("Expected task.kind own with a task given in Python. Got no task.")
    if settings.kind not in ("auto", data.kind):
        raise ConfigError(f"Expected data for the task {settings.kind}. Got {data.name!r}, whose task is {data.kind}.")
    if settings.class_weights == "balanced" and data.kind != "classification":
        raise ConfigError(f"Expected classes for balanced class weights. Got the task {data.kind}.")
    match data.kind:
        case "regression":
            names = data.target_names or tuple(f"target {index}" for index in range(train.targets.shape[1]))
            zeros, ones = (0.0,) * len(names), (1.0,) * len(names)
            numbers = Regression(names, zeros, ones, coverage=settings.coverage, intervals=settings.intervals)
            return numbers.standardised(train.targets)
        case "multi-label":
            return MultiLabel(data.target_names or tuple(f"label {index}" for index in range(train.targets.shape[1])))
    weights = balanced_weights(train.targets, data.classes) if settings.class_weights == "balanced" else ()
    return Classification(data.class_names, class_weights=weights, coverage=settings.coverage, sets=settings.sets)
