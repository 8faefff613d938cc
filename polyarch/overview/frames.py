"""What a run found, as tables of pandas."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from polyarch.errors import ConfigError
from polyarch.plugins import method_named
from polyarch.reports.text import key_of
from polyarch.results import Estimate, Judged, MethodRecord, Record, Results, SizeRecord

Row = dict[str, Any]

LISTS = (list, tuple, dict)
"""What does not fit into a cell."""


@dataclass(frozen=True)
class Frames:
    """The tables of a run.

    Args:
        results: a row for every network or mixture that was tested, with 95 % intervals over the test examples.
        study: a row for every network that the method looked at.
        front: a row for every size of a front, from small to large.
        curves: a row for every measured value along the trainings: ``network``, ``seed``, ``over`` (``epoch``,
            ``seconds`` ...), ``at``, ``measure``, ``value``.
    """

    results: pd.DataFrame
    study: pd.DataFrame
    front: pd.DataFrame
    curves: pd.DataFrame


def frames_of(results: Results) -> Frames:
    """The tables of these results."""
    record = results.record
    studied = record.studied if isinstance(record, MethodRecord) else ()
    return Frames(
        results=pd.DataFrame(_tested(results)),
        study=pd.DataFrame(_row(results, one) for one in studied),
        front=pd.DataFrame({"index": index, **_row(results, one)} for index, one in enumerate(sizes_of(results))),
        curves=pd.DataFrame(curves_of(results)),
    )


def sizes_of(results: Results) -> Sequence[SizeRecord]:
    """The sizes of a front; none where the method has none."""
    try:
        sizes: Sequence[SizeRecord] = method_named(results.method).sizes(results)
    except ConfigError:
        return ()
    return sizes


def curves_of(results: Results) -> Iterator[Row]:
    """What was measured along the training of the supernet, and along that of the networks that were tested."""
    yield from _points("supernet", None, results.training.history)
    for side in results.comparison or []:
        for run in side.runs:
            yield from _points(side.name, run.seed, run.history)


OVER = ("seconds", "step", "epoch")
"""What curves may be over, the finest first."""


def _points(network: str, seed: int | None, history: Sequence[Mapping[str, float]]) -> Iterator[Row]:
    for row in history:
        over = next((name for name in OVER if name in row), None)
        if over is not None:
            for measure in row.keys() - OVER:
                point = {"over": over, "at": row[over], "measure": measure, "value": row[measure]}
                yield {"network": network, "seed": seed, **point}


def _tested(results: Results) -> Iterator[Row]:
    for side in results.comparison or []:
        for run in side.runs:
            yield {
                "name": side.name,
                "role": side.role.value,
                "seed": run.seed,
                "folder": None,
                **_measured(results, run),
                "valid_score": run.valid_score,
                **run.metrics,
                "architecture": key_of(run.architecture),
            }
    for one in results.predictors:
        yield {
            "name": one.name,
            "role": "default predictor" if one.folder == results.default else "predictor",
            "folder": one.folder,
            **_measured(results, one),
            **one.metrics,
            "members": len(one.members),
            "temperature": one.temperature,
        }


def _measured(results: Results, one: Judged) -> Row:
    """Score and loss with their intervals."""
    examples = results.data.get("test") if results.task.unit == "share" else None
    row: Row = {}
    for name, found in (("score", Estimate.of([one], examples=examples)), ("loss", Estimate.of([one], "loss"))):
        low, high = found.interval or (None, None)
        row |= {name: found.value, f"{name}_low": low, f"{name}_high": high}
    return row


def _row(results: Results, one: Record) -> Row:
    """A record in one row: its plain values, scores by name, and its architecture as a key."""
    values = one.model_dump(exclude={"resampled"})
    row = {name: value for name, value in values.items() if not isinstance(value, LISTS)}
    row |= {score["estimator"]: score["value"] for score in values.get("scores", ())}
    if isinstance(one, SizeRecord):
        row |= _measured(results, one)
    return row | ({"architecture": key_of(values["architecture"])} if "architecture" in values else {})
