"""Batches whose content depends on (seed, epoch, position) alone, so that training can resume at any batch."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from polyarch.data.examples import Examples
from polyarch.data.named_inputs import Inputs, mapped, shape_text
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at

Augmentation = Callable[[Tensor, Generator], Tensor]
"""Changes a batch of inputs (B, ...) with randomness from the generator."""


class Batch(NamedTuple):
    """Inputs (B, ...), or several by name, and class indices (B,)."""

    inputs: Any  # `Inputs`: almost every network reads one tensor and need not ask
    targets: Tensor


class BatchSource(Protocol):
    """Gives the same batches whenever it is asked for the same epoch, starting at any batch."""

    @property
    def num_examples(self) -> int:
        """The number of examples in one epoch's data."""

    def __len__(self) -> int:
        """The number of batches in an epoch."""

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
        """Yields the batches of an epoch, beginning with batch ``start``."""


class Batches:
    """Batches of examples, ordered by (seed, epoch) and augmented by (seed, epoch, batch).

    Args:
        batch_size: at most this many examples per batch.
        shuffle: draws a new order every epoch and drops an incomplete last batch (batch statistics of a few examples
            disturb training); otherwise batches hold all examples in the given order.
        augmentations: applied to the raw batch, in order.
        preprocessing: applied last, e.g. a `Normalisation`.
        device: where the batches go.
        views: how often every example is in its batch, augmented anew each time: inputs (views B, ...), view by view.
    """

    def __init__(
        self,
        data: Examples,
        batch_size: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        augmentations: Sequence[Augmentation] = (),
        preprocessing: Callable[[Any], Any] | None = None,
        device: str | torch.device = "cpu",
        views: int = 1,
    ) -> None:
        if batch_size < 1:
            raise InvalidInput(f"Expected a batch size of 1 or more. Got {batch_size}.")
        self.data = data
        self.batch_size = min(batch_size, len(data))
        self.seed = seed
        self.shuffle = shuffle
        self.augmentations = tuple(augmentations)
        self.preprocessing = preprocessing
        self.device = torch.device(device)
        self.views = views

    @property
    def num_examples(self) -> int:
        """The number of examples in the data."""
        return len(self.data)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.data), self.batch_size)
        return whole + (rest > 0 and not self.shuffle)

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
        """Yields the batches of an epoch, beginning with batch ``start``."""
        if not self.shuffle and not self.augmentations and len(self) == 1:  # every epoch is the same full batch
            yield from [self._whole][start:]
            return
        if self.shuffle:
            order = torch.randperm(len(self.data), generator=generator_at(self.seed, "order", epoch))
        else:
            order = torch.arange(len(self.data))
        orders = list(order.split(self.batch_size))[start : len(self)]
        stream = self.data.stream(orders)  # closed together with this generator, which ends its worker processes
        for index, (rows, inputs) in enumerate(zip(orders, stream, strict=True), start):
            yield self._batch(inputs, rows, epoch, index)

    @cached_property
    def _whole(self) -> Batch:
        rows = torch.arange(len(self.data))
        return self._batch(next(iter(self.data.stream([rows]))), rows, 0, 0)

    def _batch(self, inputs: Inputs, rows: Tensor, epoch: int, index: int) -> Batch:
        if self.views > 1:
            inputs, rows = mapped(lambda tensor: torch.cat([tensor] * self.views), inputs), rows.repeat(self.views)
        if self.augmentations:
            if not isinstance(inputs, Tensor):
                raise InvalidInput(f"Expected one input to augment. Got {shape_text(inputs)}.")
            generator = generator_at(self.seed, "augment", epoch, index)
            for augmentation in self.augmentations:
                inputs = augmentation(inputs, generator)
        inputs = inputs.to(self.device, non_blocking=True)
        inputs = self.preprocessing(inputs) if self.preprocessing else mapped(_plain, inputs)
        return Batch(mapped(_laid_out, inputs), self.data.targets[rows].to(self.device, non_blocking=True))


def _plain(inputs: Tensor) -> Tensor:
    """Bytes and floats as floats; tokens and masks as they are."""
    return inputs if inputs.dtype in (torch.int64, torch.bool) else inputs.float()


def _laid_out(inputs: Tensor) -> Tensor:
    """Images channels-last: makes convolutions 1.3 times faster on CPU, and tensor cores need it, too."""
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.dim() == 4 else inputs


def endless(source: BatchSource, *, start: int = 0) -> Iterator[Batch]:
    """Yields the batches of epochs 0, 1, 2, ... without end, beginning with batch ``start`` counted over all epochs."""
    epoch, position = divmod(start, len(source))
    while True:
        yield from source.epoch(epoch, start=position)
        epoch, position = epoch + 1, 0
