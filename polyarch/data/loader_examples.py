"""The examples behind a ``DataLoader`` of the user's own, read by it in every epoch."""

import hashlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from polyarch.data.dataset import Dataset
from polyarch.data.digests import add_inputs
from polyarch.data.labels import check_counts
from polyarch.data.loaders import is_map_style, pair_of, read_requests
from polyarch.data.split_keys import SplitKeys
from polyarch.data.targets import TargetKind
from polyarch.data.torch_datasets import encoded_targets
from polyarch.errors import DataError

READ_AT_ONCE = 256
"""Examples in a batch of the first pass, which reads the labels."""


@dataclass(frozen=True)
class LoaderExamples:
    """Examples of a map-style data set, collated by the loader in its worker processes.

    The randomness of a batch, such as augmentation inside the data set, comes from the rows that are in it: it differs
    from epoch to epoch as their order does, and is the same whenever the same rows are read.
    """

    loader: DataLoader[Any]
    rows: Tensor  # (N,) the positions of these examples in the data set
    labels: Tensor  # (N,) or (N, T), as the loader gives them
    targets: Tensor  # (N,) class indices; (N, T) numbers, or labels that are present or not
    classes: int
    input_shape: tuple[int, ...]
    dtype: torch.dtype  # of inputs
    content: str  # SHA-256 of all inputs of the data set

    def __len__(self) -> int:
        return len(self.rows)

    def subset(self, rows: Tensor | Sequence[int], /) -> Self:
        """The examples at these rows, in this order."""
        rows = torch.as_tensor(rows)
        return replace(self, rows=self.rows[rows], labels=self.labels[rows], targets=self.targets[rows])

    def stream(self, orders: Sequence[Tensor], /) -> Generator[Tensor, None, None]:
        """Yields the inputs (B, ...) for each tensor of rows (B,); its workers end when the generator is closed."""
        batches = _read(self.loader, [self.rows[rows] for rows in orders])
        for rows, (inputs, labels) in zip(orders, batches, strict=True):
            if not torch.equal(labels, self.labels[rows]):
                raise DataError("Expected the labels of an example to be the same whenever it is read. Found others.")
            yield inputs


def read_loader(
    loader: DataLoader[Any],
    *,
    test_share: float | None = 0.2,
    keys: SplitKeys | None = None,
    task: TargetKind | None = None,
) -> Dataset:
    """Reads the targets of all examples once; inputs are read when they are needed.

    The order of examples and the size of batches are the caller's, not the loader's.

    Args:
        task: what targets are; integers (B,) are classes, several 0 or 1 are labels, anything else is numbers.
    """
    name = type(loader.dataset).__name__
    if not is_map_style(loader) or loader.batch_sampler is None:
        raise DataError(f"Expected a DataLoader that makes batches of a map-style data set. Got one of {name}.")
    count = len(loader.dataset)  # type: ignore[arg-type]
    if count == 0:
        raise DataError(f"Expected at least one example in {name}. Got an empty data set.")
    rows, found, content = torch.arange(count), [], hashlib.sha256()
    for inputs, labels in _read(loader, rows.split(READ_AT_ONCE)):
        if labels.dim() not in (1, 2):
            raise DataError(f"Expected targets (B,) or (B, T) from the loader. Got {tuple(labels.shape)}.")
        found.append(labels)
        add_inputs(content, inputs)
        shape, dtype = tuple(inputs.shape[1:]), inputs.dtype
    labels = torch.cat(found)
    classes = getattr(loader.dataset, "classes", None)
    targets, class_names, target_names = encoded_targets(labels.numpy(), task, classes, name)
    if class_names:
        check_counts(targets, class_names, name, fewest=0 if test_share is None else 3)
    examples = LoaderExamples(loader, rows, labels, targets, len(class_names), shape, dtype, content.hexdigest())
    split = (keys or SplitKeys()).split(count, name)
    return Dataset.divided(name, examples, class_names, test_share, split, target_names=target_names)


def _read(loader: DataLoader[Any], orders: Sequence[Tensor]) -> Generator[tuple[Tensor, Tensor], None, None]:
    """Inputs and labels of each tensor of rows."""
    requests = [(0, ",".join(map(str, rows.tolist())), rows.tolist()) for rows in orders]
    for rows, batch in zip(orders, read_requests(loader, requests, seed=0), strict=True):
        inputs, labels = pair_of(batch)
        if len(inputs) != len(rows) or len(labels) != len(rows):
            raise DataError(f"Expected {len(rows)} inputs and labels in a batch of as many rows. Got {len(inputs)}.")
        yield inputs, labels
