"""Batches in laps of equal length, for trainings that are measured in steps or seconds instead of epochs."""

import statistics
from collections.abc import Iterator, Sequence
from itertools import islice

from polyarch.data import Batch, BatchSource, endless
from polyarch.errors import InvalidInput
from polyarch.training.callbacks import Row

LAP = 16
"""Steps between two looks at the clock."""
ENDLESS = 10**8
"""More laps than any budget has time for."""
CURVE_POINTS = 60


class Laps(BatchSource):
    """The batches of another source, epoch after epoch, cut into laps of ``steps`` batches.

    What `fit` calls an epoch is then a lap: short for large data sets, and more than a pass for small ones.
    """

    def __init__(self, source: BatchSource, steps: int) -> None:
        if steps < 1:
            raise InvalidInput(f"Expected laps of 1 or more batches. Got {steps}.")
        self.source = source
        self.steps = steps

    @property
    def num_examples(self) -> int:
        """The number of examples of the source."""
        return self.source.num_examples

    def __len__(self) -> int:
        return self.steps

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
        """Yields the batches of a lap, beginning with batch ``start``."""
        return islice(endless(self.source, start=epoch * self.steps + start), self.steps - start)


def thinned(rows: Sequence[Row]) -> list[dict[str, float]]:
    """Up to 60 points of the training loss over time."""
    size = max(-(-len(rows) // CURVE_POINTS), 1)
    parts = [rows[first : first + size] for first in range(0, len(rows), size)]
    return [
        {"seconds": round(part[-1]["seconds"], 2), "loss": statistics.fmean(row["loss"] for row in part)}
        for part in parts
    ]
