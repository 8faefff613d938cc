"""Images in files: decoded once into memory if they fit, otherwise by worker processes in every epoch."""

import math
import os
import signal
import sys
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from polyarch.data.decoding import ImageContent, Pixels, decode_pixels, read_header
from polyarch.data.examples import TensorData
from polyarch.errors import PolyarchError, WorkerDied, first_line

RESIDENT_LIMIT = 2 * 2**30
"""Decoded images of up to this many bytes are kept in memory."""

LARGEST_DEFAULT_SIZE = 64
HEADER_SAMPLE = 1024
"""The number of images, evenly spread, that decide on the default size and channels."""

WORKERS = 2


class ImageContents(Protocol):
    """A sequence of encoded images."""

    def __len__(self) -> int:
        """The number of images."""

    def __getitem__(self, index: int, /) -> ImageContent:
        """The path or the bytes of an image."""

    def name(self, index: int, /) -> str:
        """How error messages refer to the image."""


@dataclass(frozen=True)
class ImagePaths:
    """Images stored one per file."""

    paths: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int, /) -> ImageContent:
        return Path(self.paths[index])

    def name(self, index: int, /) -> str:
        """How error messages refer to the image: by its path."""
        return self.paths[index]


@dataclass(frozen=True)
class ImageFiles:
    """Images that do not fit in memory; worker processes decode them on demand."""

    contents: ImageContents
    rows: Tensor  # (N,) the positions of these examples in the contents
    targets: Tensor  # (N,) class indices
    classes: int
    input_shape: tuple[int, ...]  # (C, H, W) of a decoded image

    def __len__(self) -> int:
        return len(self.rows)

    def subset(self, rows: Tensor | Sequence[int], /) -> Self:
        """The examples at these rows, in this order."""
        rows = torch.as_tensor(rows)
        return replace(self, rows=self.rows[rows], targets=self.targets[rows])

    def resized(self, size: int) -> Self:
        """The same images at size x size."""
        return replace(self, input_shape=(self.input_shape[0], size, size))

    def stream(self, orders: Sequence[Tensor], /) -> Generator[Tensor, None, None]:
        """Yields the images (B, C, H, W) uint8 for each tensor of rows (B,).

        Worker processes decode ahead; they end when the generator is closed.
        """
        loader: DataLoader[Any] = DataLoader(
            _Decoder(self),
            batch_sampler=[rows.tolist() for rows in orders],
            num_workers=min(WORKERS, len(os.sched_getaffinity(0)), max(len(orders), 1)),
            collate_fn=_unchanged,
            worker_init_fn=_start_worker,
            generator=torch.Generator(),  # the global generator must not advance, as it does not for images in memory
            # Workers start anew in every epoch; forked ones need not import torch each time.
            multiprocessing_context="fork" if sys.platform == "linux" else None,
        )
        batches = iter(loader)
        try:
            for batch in batches:
                if isinstance(batch, PolyarchError):
                    raise batch
                yield torch.from_numpy(batch)
        except RuntimeError as error:
            raise WorkerDied(f"Expected the worker processes to decode images. Found: {first_line(error)}.") from None
        finally:
            del batches  # ends the workers

    def decode(self, rows: Sequence[int]) -> Pixels:
        """Decodes the images (B, C, H, W) at these rows."""
        places = [int(self.rows[row]) for row in rows]
        return np.stack(
            [decode_pixels(self.contents[place], self.input_shape, self.contents.name(place)) for place in places]
        )

    def resident(self) -> TensorData:
        """The same examples in memory, decoded by threads."""
        inputs = torch.empty(len(self), *self.input_shape, dtype=torch.uint8)

        def fill(rows: range) -> None:
            inputs[rows.start : rows.stop] = torch.from_numpy(self.decode(rows))

        pieces = [range(start, min(start + 64, len(self))) for start in range(0, len(self), 64)]
        pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        try:
            for _ in pool.map(fill, pieces):
                pass
        finally:
            pool.shutdown(cancel_futures=True)
        return TensorData(inputs, self.targets, self.classes)


class _Decoder(torch.utils.data.Dataset[Any]):
    """The data set that worker processes read."""

    def __init__(self, images: ImageFiles) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitems__(self, rows: list[int]) -> Pixels | PolyarchError:
        # Arrays travel through a pipe; tensors would take shared memory, which is scarce in containers. Errors are
        # returned because raised ones would arrive wrapped in the worker's traceback.
        try:
            return self.images.decode(rows)
        except PolyarchError as error:
            return error


def _unchanged(batch: Any) -> Any:
    return batch


def _start_worker(worker: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent handles it


def default_shape(contents: ImageContents, size: int | None) -> tuple[int, int, int]:
    """(C, S, S): one channel if all images are grey, otherwise three; the given size or a default.

    The default is the common size if all images are equal squares, otherwise the median of their shorter sides, at
    most 64.
    """
    step = max(len(contents) / HEADER_SAMPLE, 1.0)
    places = [int(step * number) for number in range(min(len(contents), HEADER_SAMPLE))]
    headers = [read_header(contents[place], contents.name(place)) for place in places]
    channels = 1 if all(header.grey for header in headers) else 3
    if size is None:
        sides = {(header.width, header.height) for header in headers}
        first = headers[0]
        if len(sides) == 1 and first.width == first.height:
            size = first.width
        else:
            shorter = median_low(min(header.width, header.height) for header in headers)
            size = min(shorter, LARGEST_DEFAULT_SIZE)
    return channels, size, size


def fits_in_memory(images: ImageFiles, limit: int = RESIDENT_LIMIT) -> bool:
    """Whether the decoded images take at most ``limit`` bytes."""
    return len(images) * math.prod(images.input_shape) <= limit
