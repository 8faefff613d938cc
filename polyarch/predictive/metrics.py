"""The metrics of predictions by name, with the direction in which they improve."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

Goal = Literal["maximise", "minimise"]

Unit = Literal["", "share", "nats", "target"]

Item = TypeVar("Item")


@dataclass(frozen=True)
class Metric:
    """What a number measures and which way is better.

    Args:
        name: the key in results, such as ``rmse``.
        goal: maximise or minimise.
        title: what a person reads, such as ``RMSE``; the name by default.
        unit: ``share`` for shares in 0..1, ``nats``, ``target`` for the unit of the target, nothing for plain numbers.
    """

    name: str
    goal: Goal
    title: str = ""
    unit: Unit = ""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name.replace("_", " "))

    def gain(self, value: float, other: float = 0.0) -> float:
        """How much better a value is than another one: above 0 if it is better."""
        return value - other if self.goal == "maximise" else other - value

    def best(
        self, items: Iterable[Item], value: Callable[[Item], float], loss: Callable[[Item], float] = lambda item: 0.0
    ) -> Item:
        """The first of the items whose value is best; of several such items, the one with the lowest loss."""
        return max(items, key=lambda item: (self.gain(value(item)), -loss(item)))


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "maximise", unit="share"),
        Metric("balanced_accuracy", "maximise", unit="share"),
        Metric("macro_f1", "maximise", "macro F1"),
        Metric("micro_f1", "maximise", "micro F1"),
        Metric("auroc", "maximise", "AUROC"),
        Metric("label_accuracy", "maximise", "accuracy per label", "share"),
        Metric("exact_match", "maximise", unit="share"),
        Metric("nll", "minimise", "negative log-likelihood", "nats"),
        Metric("brier", "minimise", "Brier score"),
        Metric("calibration_error", "minimise", unit="share"),
        Metric("set_size", "minimise", "classes per prediction set"),
        Metric("rmse", "minimise", "RMSE", "target"),
        Metric("mae", "minimise", "MAE", "target"),
        Metric("r2", "maximise", "R²"),
        Metric("crps", "minimise", "CRPS", "target"),
        Metric("interval_width", "minimise", unit="target"),
    )
}
"""Metrics with a direction. The coverage of sets and intervals has none: it should equal what was asked for."""
