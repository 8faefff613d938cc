"""Classifier and regressor are estimators of scikit-learn, and know when they do not know."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from polyarch import PolyarchClassifier, PolyarchRegressor
from polyarch.methods.stochastic.method import Stochastic

QUICK: dict[str, Any] = {
    "train.epochs": 3,
    "scores.steps": 2,
    "scores.policy_batches": 2,
    "search.budget": 2,
    "search.window": 2,
    "search.population": 2,
    "search.tournament": 2,
    "retrain.epochs": 12,
    "checkpoint_seconds": 1e6,
}
SHORT: dict[str, Any] = {**QUICK, "train.epochs": 1, "retrain.epochs": 1}


@pytest.mark.slow
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [PolyarchClassifier(members=1, settings=QUICK), PolyarchRegressor(members=1, settings=QUICK)]
)
def test_keeps_what_scikit_learn_asks(estimator: PolyarchClassifier | PolyarchRegressor, check: Any) -> None:
    check(estimator)


def test_learns_iris_and_survives_pickling() -> None:
    inputs, targets = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[targets]
    model = PolyarchClassifier(members=2, settings={**QUICK, "train.epochs": 10, "retrain.epochs": 20})
    model.fit(inputs, names)
    assert (model.predict(inputs) == names).mean() > 0.9
    assert model.results_.default == "ensemble" and len(model.results_.predictors[1].members) == 2
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(inputs), model.predict_proba(inputs))
    far = model.predict_uncertain(inputs).mutual_information
    assert far.shape == (150,) and float(far.max()) > 0


def test_learns_numbers_and_survives_pickling() -> None:
    inputs, targets = load_diabetes(return_X_y=True)
    settings = {**QUICK, "train.epochs": 10, "retrain.epochs": 20}
    model = PolyarchRegressor(members=2, settings=settings).fit(inputs, targets)
    assert model.predict(inputs).shape == targets.shape
    assert model.score(inputs, targets) > 0.3  # R2
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(inputs), model.predict(inputs))
    found = model.predict_uncertain(inputs)
    assert (found.low <= found.mean).all() and (found.mean <= found.high).all()


def test_several_numbers_are_predicted_together() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(80, 3))
    both = np.stack([inputs[:, 0], 100 * inputs[:, 1]], 1)
    model = PolyarchRegressor(members=1, settings=QUICK).fit(inputs, both)
    assert model.predict(inputs[:5]).shape == (5, 2)
    single = PolyarchRegressor(members=1, settings=SHORT).fit(inputs, both[:, 0])
    assert single.predict(inputs[:5]).shape == (5,)


def test_missing_values_and_images_go_in() -> None:
    generator = np.random.default_rng(0)
    table = generator.normal(size=(60, 3))
    labels = (table[:, 0] > 0).astype(int)
    table[::7, 1] = np.nan
    model = PolyarchClassifier(members=1, settings=SHORT).fit(table, labels)
    assert np.isfinite(model.predict_proba(table)).all()
    images = generator.uniform(size=(40, 1, 8, 8)).astype(np.float32)
    images[::2, :, :4] += 1
    model = PolyarchClassifier(members=1, settings=SHORT).fit(images, np.arange(40) % 2)
    assert model.predict(images).shape == (40,)


def test_parameters_are_cloned_and_cross_validated() -> None:
    model = PolyarchClassifier(max_params=5000, members=1, settings=SHORT)
    assert clone(model).get_params() == model.get_params()
    inputs, targets = load_iris(return_X_y=True)
    scores = cross_val_score(model, inputs, targets, cv=2)
    assert scores.shape == (2,) and np.isfinite(scores).all()


def test_limits_are_kept() -> None:
    inputs, targets = load_iris(return_X_y=True)
    model = PolyarchClassifier(max_params=1000, members=1, settings=SHORT).fit(inputs, targets)
    assert model.results_.artifact is not None
    assert model.results_.artifact["parameters"] <= 1000
    assert model.results_.default == "artifact"
    assert bool(model.predict_uncertain(inputs).mutual_information.eq(0).all())  # one network agrees with itself
    with pytest.raises(ValueError, match="smallest seen"):
        PolyarchClassifier(max_params=10, settings=SHORT).fit(inputs, targets)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (None, {}),
        ("one-shot", {}),
        ("stochastic", {"stochastic.members": 4}),
        (Stochastic("mine"), {"stochastic.members": 4}),
    ],
)
def test_methods_with_an_ensemble_of_their_own_hear_of_members(method: Any, expected: dict[str, int]) -> None:
    assert PolyarchClassifier(method=method, members=4)._members_of_method() == expected
