"""Networks of several sizes out of one training: what each costs, how good it is, and which one keeps a limit."""

from collections.abc import Sequence

from polyarch.errors import InvalidInput
from polyarch.predictive.metrics import Metric
from polyarch.results.predictors import Record, ResampledRecord

LIMITS = {"max_params": "parameters", "max_macs": "macs", "max_latency": "latency"}
"""What a limit is called -> what it limits."""

IN_WORDS = {"parameters": "parameters", "macs": "multiply-accumulates", "latency": "seconds per forward pass"}


class SizeRecord(Record):
    """One size with the weights it inherits.

    ``valid_score`` and ``valid_loss`` are on validation data, which decide, ``score`` and ``loss`` on test data, before
    calibration; ``resampled`` has these on bootstrap samples. ``latency`` is measured, in seconds for one example:
    its bits differ from run to run. ``is_on_front`` says that no other size is better and as small in parameters and
    multiply-accumulates.
    """

    architecture: dict[str, str]
    parameters: int
    macs: float
    latency: float
    valid_score: float
    valid_loss: float
    score: float
    loss: float
    resampled: ResampledRecord | None = None
    is_on_front: bool = False


def with_front(sizes: Sequence[SizeRecord], metric: Metric) -> list[SizeRecord]:
    """The same sizes, with those marked that no other dominates on validation data."""
    better = 1.0 if metric.goal == "maximise" else -1.0

    def values(one: SizeRecord) -> tuple[float, ...]:
        return (-one.parameters, -one.macs, better * one.valid_score)

    def is_dominated(one: SizeRecord) -> bool:
        mine = values(one)
        return any(
            theirs != mine and all(left >= right for left, right in zip(theirs, mine, strict=True))
            for theirs in map(values, sizes)
        )

    return [one.model_copy(update={"is_on_front": not is_dominated(one)}) for one in sizes]


def best_within(sizes: Sequence[SizeRecord], metric: Metric, **limits: float | None) -> int:
    """The index of the size with the best validation score that keeps all limits; the names are those of `LIMITS`."""
    asked = {LIMITS[name]: value for name, value in limits.items() if value is not None}
    kept = [one for one in sizes if all(getattr(one, cost) <= value for cost, value in asked.items())]
    if not kept:
        wanted = " and ".join(f"at most {value:,.6g} {IN_WORDS[cost]}" for cost, value in asked.items())
        least = " and ".join(
            f"{min(getattr(one, cost) for one in sizes):,.6g} {IN_WORDS[cost]}" for cost, value in asked.items()
        )
        raise InvalidInput(f"Expected {wanted}. Got a run whose smallest size has {least}.")
    return sizes.index(metric.best(kept, lambda one: one.valid_score))


def size_at(sizes: Sequence[SizeRecord], index: int) -> int:
    """The index itself, if there is such a size."""
    if not 0 <= index < len(sizes):
        raise InvalidInput(f"Expected the index of a size, 0..{len(sizes) - 1}. Got {index}.")
    return index
