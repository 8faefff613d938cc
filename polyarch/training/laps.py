"""Batches in laps of equal length, for trainings that are measured in steps or seconds instead of epochs."""

from collections.abc import Iterator
from itertools import islice

from polyarch.data import Batch, BatchSource, endless
from polyarch.errors import InvalidInput


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
