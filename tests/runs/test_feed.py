"""The examples of a run and their batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyarch.data import load
from polyarch.errors import ConfigError
from polyarch.runs.checks import check_run
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.workspace import Workspace

DESCRIBED = {
    "method": "stochastic", "workers": 1, "data.name": "digits", "data.limit": 40, "data.unlabelled": "digits",
    "space.kind": "wired", "space.width": 2, "space.modules": 2, "space.stages": 1, "space.wirings": ["000", "100"],
    "stochastic.architectures": 2, "train.batch_size": 16, "data.shift": 1,
}  # fmt: skip


def parsed(**changes: object) -> RunSettings:
    return RunSettings.parse(with_overrides({}, {**DESCRIBED, **changes}), "the test")


def test_a_run_learns_from_unlabelled_instead_of_validation_examples(tmp_path: Path) -> None:
    feed = Run.build(parsed(), Workspace(tmp_path)).feed
    data = load("digits")
    assert feed.unlabelled is not None and len(feed.unlabelled) == len(data.train)
    batches = feed.held_out_batches(16)
    assert batches.num_examples == len(data.train) and batches.batch_size == 16
    assert batches.augmentations == feed.training_batches(16).augmentations != ()
    given = Run.build(parsed(), Workspace(tmp_path), unlabelled=np.zeros((9, 8, 8), dtype=np.float32)).feed
    assert given.unlabelled is not None and len(given.unlabelled) == 9


def test_methods_that_cannot_use_them_refuse(tmp_path: Path) -> None:
    run = Run.build(parsed(method="one-shot", **{"space.wirings": []}), Workspace(tmp_path))
    with pytest.raises(ConfigError, match=r"a method that can use data\.unlabelled\. Got 'one-shot'"):
        check_run(run)


def test_other_augmentations_keep_the_examples(tmp_path: Path) -> None:
    settings = parsed()
    feed = Run.build(settings, Workspace(tmp_path)).feed
    plain = feed.with_settings(settings.data, settings.data.model_copy(update={"shift": 0}))
    assert plain is not None and plain.train is feed.train and list(plain.augmentations) == []
    assert feed.with_settings(settings.data, settings.data.model_copy(update={"limit": 30})) is None
