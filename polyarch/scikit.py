"""A scikit-learn classifier: `fit` searches an architecture, `predict_proba` is the run's calibrated answer."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from polyarch.data import Column, Dataset, Examples, TableData, TensorData, stratified_split
from polyarch.errors import DataError
from polyarch.facade import search
from polyarch.methods.method import Method
from polyarch.plugins import DEFAULT_METHOD, method_named
from polyarch.prediction.predictor import Predictions, Predictor
from polyarch.runs.own_module import Builder

HELD_OUT = 0.2


class PolyarchClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Searches an architecture for (X, y) and predicts with the run's default predictor.

    X is a table of numbers (n, features), in which NaN is a missing value, or images (n, channels, height, width).
    A fifth of the examples is held out to choose, calibrate and set the threshold of doubt; every class needs three
    examples or more.

    Args:
        method: how the architecture is found, by name or as an object; see `polyarch.search`.
        space: the space that is searched; chosen for the data by default.
        max_params, max_macs, max_latency, max_minutes: hard limits of the search.
        members: how many architectures predict together.
        module: your own network; see `polyarch.search`.
        device: where networks are trained.
        random_state: the seed of everything random.
        workers: processes; see `polyarch.search`.
        settings: any other setting by its dotted name, e.g. ``{"train.epochs": 20}``.

    After ``fit``: ``classes_``, ``predictor_`` (with uncertainties) and ``results_`` (every number of the run, in which
    "test" means the examples that were held out).
    """

    def __init__(
        self,
        *,
        method: str | Method | None = None,
        space: str | None = None,
        max_params: float | None = None,
        max_macs: float | None = None,
        max_latency: float | None = None,
        max_minutes: float | None = None,
        members: int = 3,
        module: Builder | None = None,
        random_state: int = 0,
        workers: int = 1,
        device: str = "cpu",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.space = space
        self.max_params = max_params
        self.max_macs = max_macs
        self.max_latency = max_latency
        self.max_minutes = max_minutes
        self.members = members
        self.module = module
        self.random_state = random_state
        self.workers = workers
        self.device = device
        self.settings = settings

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803 - scikit-learn's names
        """Searches and trains; X is (n, ...), y (n,) labels of any kind."""
        inputs, labels = validate_data(self, X, y, allow_nd=True, ensure_all_finite="allow-nan", dtype=np.float32)
        check_classification_targets(labels)
        self.classes_, targets = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"Expected 2 or more classes. Got 1 class: {self.classes_[0]!r}.")
        dataset = _dataset(inputs, targets, tuple(map(str, self.classes_)), int(self.random_state))
        with tempfile.TemporaryDirectory(prefix="polyarch-") as folder:
            found = search(
                dataset,
                out=Path(folder) / "run",
                method=self.method,
                space=self.space,
                module=self.module,
                max_params=self.max_params,
                max_macs=self.max_macs,
                max_latency=self.max_latency,
                max_minutes=self.max_minutes,
                seed=int(self.random_state),
                workers=self.workers,
                device=self.device,
                quiet=True,
                report=False,
                settings={
                    "programs": [],
                    "data.validation": HELD_OUT,
                    "retrain.members": self.members,
                    **self._members_of_method(),
                    "retrain.seeds": 1,
                    "retrain.random_architectures": 0,
                    "rank.architectures": 0,
                    **(self.settings or {}),
                },
            )
            self.results_ = found.results
            self.predictor_: Predictor = found.predictor()
        return self

    def _members_of_method(self) -> dict[str, int]:
        """Methods with an ensemble of their own have a setting of their own for it."""
        asked = self.method or (self.settings or {}).get("method") or DEFAULT_METHOD
        method: Method = asked if isinstance(asked, Method) else method_named(asked)
        return {f"{method.section}.members": self.members} if "members" in method.Settings.model_fields else {}

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Calibrated probabilities (n, classes), columns in the order of ``classes_``."""
        probabilities = self.predict_uncertain(X).probabilities.double()
        shares: NDArray[np.float64] = (probabilities / probabilities.sum(1, keepdim=True)).numpy()
        return shares

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """The most probable class of every example, (n,)."""
        most_probable = self.predict_proba(X).argmax(1)
        chosen: NDArray[Any] = self.classes_[most_probable]
        return chosen

    def predict_uncertain(self, X: ArrayLike) -> Predictions:  # noqa: N803
        """Probabilities with entropy, mutual information and a flag on examples that are better left to somebody."""
        check_is_fitted(self)
        inputs = validate_data(self, X, reset=False, allow_nd=True, ensure_all_finite="allow-nan", dtype=np.float32)
        return self.predictor_(torch.from_numpy(np.ascontiguousarray(inputs)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _dataset(
    inputs: NDArray[np.float32], targets: NDArray[np.int64], class_names: tuple[str, ...], seed: int
) -> Dataset:
    """All examples; those that the run holds out for validation also stand where it expects a test set."""
    values = torch.from_numpy(np.ascontiguousarray(inputs))
    labels = torch.from_numpy(targets.astype(np.int64))
    examples: Examples
    columns: tuple[Column, ...] = ()
    if values.dim() == 2:
        columns = tuple(Column(f"x{index}", None) for index in range(values.shape[1]))
        examples = TableData(values, labels, len(class_names))
    else:
        examples = TensorData(values, labels, len(class_names))
    _, held_out = stratified_split(examples, HELD_OUT, seed=seed)  # the very examples of the run's validation
    return Dataset("the data given to fit", examples, held_out, class_names, columns)
