"""Estimators for scikit-learn: `fit` searches an architecture, predictions are the run's calibrated answer."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from polyarch.data import Column, Dataset, Examples, TableData, TensorData, stratified_split
from polyarch.data.named_inputs import mapped
from polyarch.errors import DataError
from polyarch.export import Program
from polyarch.facade import search
from polyarch.methods.method import Method
from polyarch.plugins import method_named
from polyarch.prediction.predictor import Predictions, Predictor
from polyarch.runs.own_module import Builder
from polyarch.runs.settings import fitting_method, with_overrides

HELD_OUT = 0.2
FEWEST_EXAMPLES = 4
"""Of a regression: training and validation need two each."""


class PolyarchEstimator(BaseEstimator):  # type: ignore[misc]
    """Searches an architecture for (X, y) and predicts with the run's default predictor.

    X is a table of numbers (n, features), in which NaN is a missing value, or images (n, channels, height, width).
    A fifth of the examples is held out to choose, calibrate and set the threshold of doubt.

    Args:
        method: how the architecture is found, by name or as an object; see `polyarch.search`.
        space: the space that is searched; chosen for the data by default.
        max_params, max_macs, max_latency, max_minutes: hard limits of the search.
        metric: what selection goes by; see `polyarch.search`.
        members: how many architectures predict together, for methods that search in a supernet.
        module: your own network; see `polyarch.search`.
        device: where networks are trained.
        random_state: the seed of everything random.
        workers: processes; see `polyarch.search`.
        settings: any other setting by its dotted name, e.g. ``{"train.epochs": 20}``.

    After ``fit``: ``predictor_`` (with uncertainties) and ``results_`` (every number of the run, in which "test" means
    the examples that were held out).
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
        metric: str | None = None,
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
        self.metric = metric
        self.members = members
        self.module = module
        self.random_state = random_state
        self.workers = workers
        self.device = device
        self.settings = settings

    def _search(self, inputs: NDArray[np.float32], targets: Tensor, class_names: tuple[str, ...] = ()) -> None:
        """Runs the search and keeps its predictor."""
        with tempfile.TemporaryDirectory(prefix="polyarch-") as folder:
            found = search(
                _dataset(inputs, targets, class_names, int(self.random_state)),
                out=Path(folder) / "run",
                method=self._method(),
                space=self.space,
                module=self.module,
                max_params=self.max_params,
                max_macs=self.max_macs,
                max_latency=self.max_latency,
                max_minutes=self.max_minutes,
                metric=self.metric,
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
        if inputs.ndim == 2 and isinstance(self.predictor_.forward, Program):
            # A row's prediction must not depend on the rows beside it, whose number changes the order of float32 sums.
            self.predictor_.forward.mixture.double().register_forward_pre_hook(_in_double)

    def _method(self) -> str | Method:
        """What was asked for, or what fits the settings; those that every fit has do not count."""
        settings = with_overrides({}, self.settings or {})
        return self.method or settings.get("method") or fitting_method(settings)

    def _members_of_method(self) -> dict[str, int]:
        """Methods with an ensemble of their own have a setting of their own for it."""
        asked = self._method()
        method: Method = asked if isinstance(asked, Method) else method_named(asked)
        return {f"{method.section}.members": self.members} if "members" in method.Settings.model_fields else {}

    def predict_uncertain(self, X: ArrayLike) -> Predictions:  # noqa: N803
        """Predictions with their uncertainty, and a flag on examples that are better left to somebody."""
        check_is_fitted(self)
        inputs = validate_data(self, X, reset=False, allow_nd=True, ensure_all_finite="allow-nan", dtype=np.float32)
        return self.predictor_(torch.tensor(np.ascontiguousarray(inputs)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class PolyarchClassifier(ClassifierMixin, PolyarchEstimator):  # type: ignore[misc]
    """Predicts classes; see `PolyarchEstimator` for the arguments. Every class needs three examples or more.

    After ``fit``: ``classes_``, too.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803 - scikit-learn's names
        """Searches and trains; X is (n, ...), y (n,) labels of any kind."""
        inputs, labels = validate_data(self, X, y, allow_nd=True, ensure_all_finite="allow-nan", dtype=np.float32)
        check_classification_targets(labels)
        self.classes_, targets = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"Expected 2 or more classes. Got 1 class: {self.classes_[0]!r}.")
        self._search(inputs, torch.tensor(targets.astype(np.int64)), tuple(map(str, self.classes_)))
        return self

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


class PolyarchRegressor(RegressorMixin, PolyarchEstimator):  # type: ignore[misc]
    """Predicts one number per example, or several; see `PolyarchEstimator` for the arguments.

    After ``fit``: ``predictor_`` gives standard deviations and intervals, too; see ``predict_uncertain``.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803 - scikit-learn's names
        """Searches and trains; X is (n, ...), y (n,) or (n, targets) numbers."""
        inputs, targets = validate_data(
            self,
            X,
            y,
            allow_nd=True,
            ensure_all_finite="allow-nan",
            dtype=np.float32,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=FEWEST_EXAMPLES,
        )
        self._is_single = np.ndim(targets) == 1
        self._search(inputs, torch.tensor(np.asarray(targets, dtype=np.float32).reshape(len(targets), -1)))
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """The expected values, (n,) or (n, targets) like y."""
        found: NDArray[np.float64] = self.predict_uncertain(X).mean.double().numpy()
        return found[:, 0] if self._is_single else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _in_double(mixture: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a network with float64 numbers."""
    return tuple(mapped(lambda one: one.double() if one.is_floating_point() else one, inputs) for inputs in arguments)


def _dataset(inputs: NDArray[np.float32], targets: Tensor, class_names: tuple[str, ...], seed: int) -> Dataset:
    """All examples; those that the run holds out for validation also stand where it expects a test set."""
    values = torch.tensor(np.ascontiguousarray(inputs))  # a copy: the array may be read-only
    columns: tuple[Column, ...] = ()
    kind = TensorData
    if values.dim() == 2:
        columns = tuple(Column(f"x{index}", None) for index in range(values.shape[1]))
        kind = TableData
    examples: Examples = kind(values, targets, len(class_names))
    _, held_out = stratified_split(examples, HELD_OUT, seed=seed)  # the very examples of the run's validation
    names = () if class_names else tuple(f"target {index}" for index in range(targets.shape[1]))
    return Dataset("the data given to fit", examples, held_out, class_names, columns, target_names=names)
