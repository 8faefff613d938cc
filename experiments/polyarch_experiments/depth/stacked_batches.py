"""Batches of several data sets of one size, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from polyarch.data import Batch, BatchSource
from polyarch.errors import InvalidInput


class StackedBatches:
    """The batches of R sources as one: inputs (R, B, ...) and targets (R, B).

    Args:
        sources: with the same number of examples and of batches; each keeps its own order.
    """

    def __init__(self, sources: Sequence[BatchSource]) -> None:
        sizes = {(source.num_examples, len(source)) for source in sources}
        if len(sizes) != 1:
            raise InvalidInput(
                f"Expected one or more sources of one size. Got {len(sources)} of (examples, batches) {sorted(sizes)}."
            )
        self.sources = tuple(sources)

    @property
    def num_examples(self) -> int:
        """The number of examples of every source."""
        return self.sources[0].num_examples

    def __len__(self) -> int:
        return len(self.sources[0])

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch ``start`` on."""
        for batches in zip(*(source.epoch(epoch, start=start) for source in self.sources), strict=True):
            inputs, targets = zip(*batches, strict=True)
            yield Batch(torch.stack(inputs), torch.stack(targets))
