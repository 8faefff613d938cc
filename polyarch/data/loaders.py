"""Batches from a ``DataLoader`` of the user's own, replayed by position wherever the loader allows it."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from polyarch.data.batches import Batch
from polyarch.errors import DataError, InvalidInput
from polyarch.randomness import GlobalRandomness, Position, derive_seed, generator_at

REPLAYED = (BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)
"""Samplers of torch whose order is a function of a generator."""


class NotReplayed(UserWarning):
    """The batches of a resumed epoch may differ from those that it would have had."""


class LoaderBatches:
    """The batches of a ``DataLoader``, or of any iterable of pairs (inputs, targets), for `fit` and strategies.

    **A map-style data set.** The order of an epoch comes from the loader's sampler with its randomness derived from
    (seed, epoch); a batch is read with that of (seed, epoch, batch), which is what augmentation inside the data set
    draws from: torch's global generator, numpy's and Python's. So batches do not depend on the number of worker
    processes, and a resumed epoch skips batches without reading them. A sampler with a state of its own gives the order
    that it gives: ``note`` then says so, and a resumed epoch warns.

    **An iterable data set**, a subclass of ``DataLoader`` with an iterator of its own, or another iterable is read from
    the start of the epoch with randomness derived from (seed, epoch). A resumed epoch reads the batches before it again
    and drops them, and warns that it is the same epoch only if the data set repeats itself.

    Worker processes live for one epoch.

    Args:
        loader: gives pairs of tensors (B, ...) and (B,).
        seed: of the order and of the randomness inside the data set.
        batches: the number of batches in an epoch; by default the length of the loader.
        preprocessing: applied to the inputs on the device.
        device: where the batches go.

    Example:
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> pairs = TensorDataset(torch.arange(6.0).view(6, 1), torch.arange(6))
        >>> batches = LoaderBatches(DataLoader(pairs, batch_size=2, shuffle=True), seed=1)
        >>> whole, rest = list(batches.epoch(0)), list(batches.epoch(0, start=1))
        >>> len(batches), torch.equal(whole[1].inputs, rest[0].inputs)
        (3, True)
    """

    def __init__(
        self,
        loader: DataLoader[Any] | Iterable[Any],
        *,
        seed: int = 0,
        batches: int | None = None,
        preprocessing: Callable[[Tensor], Tensor] | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.loader = loader
        self.seed = seed
        self.preprocessing = preprocessing
        self.device = torch.device(device)
        self._length = _length(loader) if batches is None else batches
        if self._length < 1:
            raise InvalidInput(f"Expected a loader of 1 or more batches. Got {self._length}.")
        self.note = self._reservation()

    @property
    def num_examples(self) -> int:
        """The number of examples in one epoch's data, as far as the loader knows it."""
        for sized in ("sampler", "dataset"):
            try:
                return len(getattr(self.loader, sized))
            except (AttributeError, TypeError):
                continue
        raise InvalidInput(
            f"Expected a loader that knows the number of its examples. Got a {type(self.loader).__name__}."
        )

    def __len__(self) -> int:
        return self._length

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
        """Yields the batches of an epoch, beginning with batch ``start``."""
        if start and self.note:
            warnings.warn(f"Epoch {epoch} goes on with batch {start}. {self.note}", NotReplayed, stacklevel=2)
        if is_map_style(self.loader):
            order = self._order(self.loader, epoch)[start:]
            requests = [(epoch, index, rows) for index, rows in enumerate(order, start)]
            read, skipped = read_requests(self.loader, requests, self.seed), 0
        else:
            read, skipped = self._read_from_start(epoch), start
        with closing(read):
            for batch in islice(read, skipped, None):
                yield self._batch(batch)

    def _order(self, loader: DataLoader[Any], epoch: int) -> list[Any]:
        """The rows of every batch, or the row of every batch that the data set makes itself."""
        samplers = _samplers(loader)
        for sampler in samplers:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
        with GlobalRandomness(derive_seed(self.seed, "order", epoch)), _drawing_from(samplers, self.seed, epoch):
            order = list(islice(samplers[0], len(self)))
        if len(order) < len(self):
            raise DataError(
                f"Expected {len(self)} batches in an epoch of the loader. Found {len(order)} in its sampler."
            )
        return order

    def _read_from_start(self, epoch: int) -> Generator[Any, None, None]:
        """All batches of the epoch; the randomness of whoever uses them and that of the loader stay apart."""
        own = GlobalRandomness(derive_seed(self.seed, "order", epoch))
        plain = isinstance(self.loader, DataLoader) and type(self.loader).__iter__ is DataLoader.__iter__
        loader = _copied(self.loader) if plain else self.loader  # type: ignore[arg-type]
        with own, _drawing_from([loader], self.seed, epoch):
            batches = iter(loader)
        try:
            for index in range(len(self)):
                with own:
                    batch = next(batches, None)
                if batch is None:
                    raise DataError(f"Expected {len(self)} batches in an epoch of the loader. Found {index}.")
                yield batch
        finally:
            del batches  # ends the workers

    def _batch(self, batch: Any) -> Batch:
        inputs, targets = pair_of(batch)
        inputs = inputs.to(self.device, non_blocking=True)
        inputs = self.preprocessing(inputs) if self.preprocessing else inputs
        if inputs.dim() == 4:  # makes convolutions 1.3 times faster on CPU; tensor cores need it, too
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return Batch(inputs, targets.to(self.device, non_blocking=True))

    def _reservation(self) -> str | None:
        """Why a resumed epoch may differ, in a sentence; None if it cannot."""
        if not is_map_style(self.loader):
            return (
                f"A {type(self.loader).__name__} without rows to skip is read again from the start of the epoch; "
                "the batches are the same if it gives the same ones whenever it is read."
            )
        own = [sampler for sampler in _samplers(self.loader) if type(sampler) not in REPLAYED]
        if not own or all(map(np.array_equal, *(self._order(self.loader, 0) for _ in range(2)))):
            return None
        return (
            f"The order of {type(own[0]).__name__} has a state of its own, from which it goes on; "
            "give it a method set_epoch, or let it draw from torch's global generator, to resume exactly."
        )


def is_map_style(loader: object) -> TypeGuard[DataLoader[Any]]:
    """Whether a loader reads a data set by rows, so that rows can be skipped."""
    if not isinstance(loader, DataLoader) or type(loader).__iter__ is not DataLoader.__iter__:
        return False
    return not isinstance(loader.dataset, IterableDataset)


def read_requests(
    loader: DataLoader[Any], requests: Sequence[tuple[Position, Position, Any]], seed: int
) -> Generator[Any, None, None]:
    """Reads batches (epoch, index, rows) in this order, in worker processes if the loader has some.

    The randomness of a batch comes from (seed, epoch, index); the workers end when the iterator is closed.
    """
    positioned = _Positioned(loader, seed)
    batches = iter(_copied(loader, positioned, sampler=requests, batch_size=None, collate_fn=_unchanged))
    try:
        yield from batches
    finally:
        del batches  # ends the workers


def pair_of(batch: Any) -> tuple[Tensor, Tensor]:
    """The inputs and targets of a batch."""
    if isinstance(batch, tuple | list) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch):
        return batch[0], batch[1]
    found = f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, tuple | list) else type(batch).__name__
    raise DataError(f"Expected batches of two tensors, inputs and targets, from the loader. Got a {found}.")


class _Positioned(torch.utils.data.Dataset[Any]):
    """Reads whole batches of the loader's data set, each with randomness of its own."""

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        self.dataset: Any = loader.dataset
        self.collate: Any = loader.collate_fn
        self.batched = loader.batch_sampler is not None
        self.seed = seed

    def __getitem__(self, request: tuple[Position, Position, Any]) -> Any:
        epoch, index, rows = request
        with GlobalRandomness(derive_seed(self.seed, "loader", epoch, index)):
            if not self.batched:
                return self.collate(self.dataset[rows])
            at_once = getattr(self.dataset, "__getitems__", None)
            return self.collate(at_once(rows) if at_once else [self.dataset[row] for row in rows])


def _samplers(loader: DataLoader[Any]) -> list[Any]:
    """The sampler that gives batches, or rows if the data set makes batches itself, and the one inside it."""
    outer: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    inner = getattr(outer, "sampler", None)
    return [outer] if inner is None else [outer, inner]


def _copied(loader: DataLoader[Any], dataset: Any = None, **own: Any) -> DataLoader[Any]:
    """A loader with the same workers, whose global generator does not advance."""
    if dataset is None:
        own |= {"batch_size": loader.batch_size, "collate_fn": loader.collate_fn}
        own |= {} if loader.batch_size is None else {"drop_last": loader.drop_last}
    return DataLoader(
        loader.dataset if dataset is None else dataset,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=_StartWorker(loader.worker_init_fn),
        multiprocessing_context=loader.multiprocessing_context or _start_method(loader),
        prefetch_factor=loader.prefetch_factor,
        generator=torch.Generator(),
        **own,
    )


def _start_method(loader: DataLoader[Any]) -> str | None:
    """Python's default; a fork inside a worker process of polyarch, where the default would import torch every time."""
    is_inside = multiprocessing.parent_process() is not None
    return "fork" if is_inside and loader.num_workers and sys.platform == "linux" else None


class _StartWorker:
    """Leaves Ctrl-C, which reaches all processes, to the parent; then does what the loader asks for."""

    def __init__(self, then: Callable[[int], None] | None) -> None:
        self.then = then

    def __call__(self, worker: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self.then is not None:
            self.then(worker)


@contextmanager
def _drawing_from(owners: Sequence[Any], seed: int, epoch: int) -> Iterator[None]:
    """Lets samplers and loaders with a generator of their own draw from one derived from (seed, epoch)."""
    generators = {
        id(one): (one, one.generator) for one in owners if isinstance(getattr(one, "generator", None), torch.Generator)
    }
    for owner, _ in generators.values():
        owner.generator = generator_at(seed, "order", epoch)
    try:
        yield
    finally:
        for owner, generator in generators.values():
            owner.generator = generator


def _length(loader: Any) -> int:
    try:
        return len(loader)
    except TypeError:
        raise InvalidInput(
            f"Expected a loader with a length, or batches=, the number of batches in an epoch. "
            f"Got a {type(loader).__name__} without one."
        ) from None


def _unchanged(batch: Any) -> Any:
    return batch
