"""The task of a run: what the data say, what the settings ask for, and what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch.data import Dataset, TensorData
from polyarch.errors import ConfigError, InvalidInput, UnknownName
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.tasks import Classification, MultiLabel, OwnTask, Regression, Task

INPUTS = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
CLASSES = torch.cat([torch.zeros(24), torch.ones(16)]).long()


def run_of(targets: torch.Tensor, task: Task | None = None, names: tuple[str, ...] = (), **asked: Any) -> Run:
    classes = ("no", "yes") if targets.dtype == torch.int64 else ()
    part = TensorData(INPUTS, targets, len(classes))
    data = Dataset("made", part, part, classes, target_names=names, task=task)
    content = {"space": {"kind": "mlp"}, "data": {"name": "made"}, "task": asked, "workers": 1}
    return Run.build(RunSettings.parse(content, "the test"), Workspace(Path()), data=data)


def test_what_the_targets_say() -> None:
    assert run_of(CLASSES).task == Classification(("no", "yes"))
    run = run_of(INPUTS[:, :2], names=("a", "b"))
    train = run.feed.train.targets.double()
    assert isinstance(run.task, Regression) and run.task.names == ("a", "b")
    assert run.task.location == pytest.approx(train.mean(0).tolist())
    assert run.task.scale == pytest.approx(train.std(0, correction=0).tolist())
    assert run_of(INPUTS > 0.5).task == MultiLabel(("label 0", "label 1", "label 2"))


@pytest.mark.parametrize("targets", [CLASSES, INPUTS[:, :1], INPUTS[:, :2] > 0.5])
def test_networks_have_as_many_outputs_as_the_task(targets: torch.Tensor) -> None:
    run = run_of(targets)
    architecture = run.net.space.sample(torch.Generator())
    assert run.net(torch.zeros(2, 3), architecture).shape == (2, run.task.outputs)


def test_what_the_settings_ask_for() -> None:
    task = run_of(CLASSES, metric="nll", class_weights="balanced", coverage=0.8, sets="raps").task
    assert isinstance(task, Classification)
    assert (task.selection.name, task.coverage, task.sets) == ("loss", 0.8, "raps")
    counts = run_of(CLASSES).feed.train.targets.bincount()
    assert task.class_weights == pytest.approx((len(run_of(CLASSES).feed.train) / (2 * counts)).tolist())
    numbers = run_of(INPUTS[:, :1], metric="mae", intervals="quantile").task
    assert isinstance(numbers, Regression)
    assert (numbers.selection.name, numbers.intervals) == ("mae", "quantile")


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs - targets).abs().mean(1)


def test_a_task_of_ones_own() -> None:
    own = OwnTask(loss, size=2)
    assert run_of(INPUTS[:, :2], own, kind="own").task == own
    with pytest.raises(ConfigError, match=r"task\.kind own with a task given in Python\. Got no task"):
        run_of(INPUTS[:, :2], kind="own")


@pytest.mark.parametrize(
    ("targets", "task", "asked", "kind", "words"),
    [
        (
            CLASSES,
            None,
            {"kind": "regression"},
            ConfigError,
            "for the task regression. Got 'made', whose task is class",
        ),
        (INPUTS[:, :1], None, {"kind": "multi-label"}, ConfigError, "whose task is regression"),
        (INPUTS[:, :1], None, {"class_weights": "balanced"}, ConfigError, "classes for balanced class weights"),
        (INPUTS[:, :1], None, {"metric": "accuracy"}, UnknownName, "a metric of regression out of rmse, mae"),
        (CLASSES, None, {"metric": "acuracy"}, UnknownName, "Did you mean 'accuracy'"),
        (INPUTS[:, :1], Classification(("a", "b")), {"kind": "own"}, InvalidInput, "numbers are a regression"),
        (CLASSES, Regression(), {"kind": "own"}, InvalidInput, "floating-point type for regression. Got torch.int64"),
        (
            INPUTS[:, :2],
            OwnTask(lambda outputs, targets: outputs.square().sum(1), size=2),
            {"kind": "own"},
            InvalidInput,
            "a loss that depends on its targets",
        ),
    ],
)
def test_what_does_not_fit(
    targets: torch.Tensor, task: Task | None, asked: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        run_of(targets, task, **asked)
    assert "\n" not in str(caught.value)
