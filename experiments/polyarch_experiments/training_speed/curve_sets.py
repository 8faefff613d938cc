"""Learning curves of cells that were trained alone with one schedule, from any table of curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyarch.errors import InvalidInput
from polyarch.tables import CurveTable, load_truth

Values = NDArray[np.float64]

PARAMETERS = ("params", "parameters", "params_millions")
"""What tables call the column of parameters: SpikeNAS-Bench, tables that were built here, NATS-Bench."""
HELD_OUT = ("valid", "valtest")
"""What was measured after every epoch: NATS-Bench has validation and test images together, except on CIFAR-10."""


@dataclass(frozen=True, eq=False)
class CurveSet:
    """The curves of n cells over T epochs.

    Attributes:
        keys: of the cells, (n,).
        losses: of training, (n, T).
        valid_losses, valid_accuracies: after every epoch, (n, T).
        truth: the test accuracy at the end in percent, (n,).
        parameters: (n,).
    """

    keys: list[str]
    losses: Values
    valid_losses: Values
    valid_accuracies: Values
    truth: Values
    parameters: Values


def load_curves(name: str, epochs: int) -> CurveSet:
    """The cells of a table, or of the file or folder of one's own, that were trained for so many epochs."""
    table = load_truth(name)
    if not isinstance(table, CurveTable) or not table.measures:
        raise InvalidInput(f"Expected a table of learning curves. Got {name}, which has none.")
    return curves_of(table, epochs)


def curves_of(table: CurveTable, epochs: int) -> CurveSet:
    """The cells of a table that were trained for so many epochs; others, and those that diverged, are left out."""
    losses = table.curves("train_loss")
    lengths = np.isfinite(losses).sum(axis=1)
    rows = np.flatnonzero(lengths == epochs)
    if not len(rows):
        known = ", ".join(map(str, np.unique(lengths)))
        raise InvalidInput(f"Expected curves of {epochs} epochs in {table.name}. Got curves of {known} epochs.")
    held_out = _first(HELD_OUT, [measure.removesuffix("_accuracy") for measure in table.measures], table)
    architectures = table.architectures()
    return CurveSet(
        [architectures[row].key for row in rows.tolist()],
        losses[rows, :epochs],
        table.curves(f"{held_out}_loss")[rows, :epochs],
        table.curves(f"{held_out}_accuracy")[rows, :epochs],
        table.accuracies()[rows],
        table.column(_first(PARAMETERS, table.columns, table))[rows],
    )


def _first(names: tuple[str, ...], known: list[str] | tuple[str, ...], table: CurveTable) -> str:
    found = next((name for name in names if name in known), None)
    if found is None:
        raise InvalidInput(f"Expected {' or '.join(names)} in {table.name}. Got {', '.join(known)}.")
    return found
