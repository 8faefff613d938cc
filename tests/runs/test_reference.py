"""Ensembles of trees beside the networks: the same examples, scores that scikit-learn agrees with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss

from polyarch.data import resident
from polyarch.data.table_dataset import TableSource, table_dataset
from polyarch.results import Role
from polyarch.runs.reference import references
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace


def run_on(target: str) -> Run:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(300, 3))
    frame = pd.DataFrame(values, columns=list("abc"))
    frame["colour"] = generator.choice(["red", "green"], 300)
    frame["number"] = values[:, 0] * values[:, 1] + (frame["colour"] == "red")
    frame["label"] = np.select([frame["number"] > 1, frame["number"] > 0], ["high", "middle"], "low")
    kept = frame.drop(columns={"number": "label", "label": "number"}[target])
    data = table_dataset("made", TableSource(kept, "made"), target=target)
    settings = RunSettings.parse({"space": {"kind": "mlp", "width": 8, "inner_widths": [4, 8]}}, "the test")
    return Run.build(settings, Workspace(Path()), data=data)


def test_classes_are_those_of_scikit_learn() -> None:
    run = run_on("label")
    boosting, trees = references(run)
    assert boosting.name == "gradient boosting (scikit-learn)" and trees.name == "extra trees (scikit-learn)"
    assert {boosting.role, trees.role} == {Role.BASELINE}
    train, test = resident(run.feed.train), resident(run.feed.data.test)
    model = HistGradientBoostingClassifier(categorical_features=[False, False, False, True], random_state=0)
    model.fit(train.inputs.double().numpy(), train.targets.numpy())
    rows, targets = test.inputs.double().numpy(), test.targets.numpy()
    assert boosting.mean == pytest.approx(model.score(rows, targets))
    assert boosting.runs[0].loss == pytest.approx(log_loss(targets, model.predict_proba(rows)), rel=1e-4)
    assert trees.mean > 0.6


def test_numbers_are_those_of_scikit_learn() -> None:
    run = run_on("number")
    boosting, trees = references(run)
    train, test = resident(run.feed.train), resident(run.feed.data.test)
    model = HistGradientBoostingRegressor(categorical_features=[False, False, False, True], random_state=0)
    model.fit(train.inputs.double().numpy(), train.targets[:, 0].double().numpy())
    errors = model.predict(test.inputs.double().numpy()) - test.targets[:, 0].double().numpy()
    assert boosting.mean == pytest.approx(float(np.sqrt(np.square(errors).mean())))
    assert 0 < trees.mean < float(test.targets.std())


def test_a_class_without_training_examples_is_improbable() -> None:
    """Grouped splits may leave none."""
    run = run_on("label")
    rows = (resident(run.feed.train).targets != 1).nonzero().flatten()
    without = replace(run, feed=replace(run.feed, train=run.feed.train.subset(rows)))
    missing = float((resident(run.feed.data.test).targets == 1).double().mean())
    for one in references(without):
        assert 0.3 < one.mean <= 1 - missing
        assert np.isfinite(one.runs[0].loss)


def test_images_have_none() -> None:
    settings = RunSettings.parse({"space": {"kind": "nb201", "channels": 2, "cells": 1}}, "the test")
    assert references(Run.build(settings, Workspace(Path()))) == []
