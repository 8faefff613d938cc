"""Converts raw examples to network inputs.

Preprocessing is fitted on training data, saved in artifacts and exported as part of the program.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from polyarch.data.columns import Column
from polyarch.data.examples import Examples, TensorData, resident
from polyarch.errors import CorruptFile, DataError
from polyarch.randomness import generator_at

STATISTICS_SAMPLE = 4096
"""The number of examples that the statistics of data outside memory are estimated from."""

TABLE_STATISTICS = ("medians", "means", "stds", "marked")


class Preprocessing(Protocol):
    """A pure function of a batch, made of operations that `torch.export` and ONNX support."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """(B, ...) raw examples -> (B, ...) floats."""

    def output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one preprocessed example."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to write to a file; `preprocessing_from` reads them."""


@dataclass(frozen=True)
class Normalisation:
    """(x - mean) / std per channel (or feature), with bytes scaled to 0..1 first."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, data: Examples) -> "Normalisation":
        """Fits mean and std per channel on training data; a channel that never varies gets std 1.

        Data outside memory is represented by a fixed random sample of up to `STATISTICS_SAMPLE` examples.
        """
        if isinstance(data, TensorData) and data.inputs.is_floating_point():
            values = data.inputs.double()
            axes = [axis for axis in range(values.dim()) if axis != 1]
            mean, std = values.mean(axes), values.std(axes, correction=0)
        elif getattr(data, "dtype", torch.uint8).is_floating_point:
            mean, std = _moments(_pieces(data))
        else:  # counts byte values, to avoid a copy of the data as floats
            levels = torch.arange(256, dtype=torch.float64) / 255
            counts = sum(_counts(piece) for piece in _pieces(data))
            assert isinstance(counts, Tensor)
            weights = counts / counts.sum(1, keepdim=True)
            mean = weights @ levels
            std = (weights @ levels.square() - mean.square()).clamp_min(0).sqrt()
        std = torch.where(std < 1e-8, torch.ones_like(std), std)
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def __call__(self, inputs: Tensor) -> Tensor:
        """(B, C, ...) bytes or floats -> floats."""
        shape = (1, -1, *[1] * (inputs.dim() - 2))
        scale = 1.0 if inputs.is_floating_point() else 255.0
        mean = torch.tensor(self.mean, dtype=torch.float32, device=inputs.device).view(shape) * scale
        std = torch.tensor(self.std, dtype=torch.float32, device=inputs.device).view(shape) * scale
        return (inputs.float() - mean) / std

    def output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Normalisation keeps the shape."""
        return input_shape

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to write to a file; `preprocessing_from` reads them."""
        return {"kind": "normalisation", "mean": list(self.mean), "std": list(self.std)}


def _moments(pieces: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and std (C,) of pieces (N, C, ...) of floats, around the mean of the first so that no digits are lost."""
    first = next(pieces).double()
    center = first.transpose(0, 1).flatten(1).mean(1, keepdim=True)
    count, total, squares = 0, torch.zeros_like(center[:, 0]), torch.zeros_like(center[:, 0])
    for piece in chain([first], pieces):
        values = piece.double().transpose(0, 1).flatten(1) - center  # (C, values)
        count += values.shape[1]
        total, squares = total + values.sum(1), squares + values.square().sum(1)
    shift = total / count
    return center[:, 0] + shift, (squares / count - shift.square()).clamp_min(0).sqrt()


def _pieces(data: Examples) -> Iterator[Tensor]:
    if isinstance(data, TensorData):
        return iter([data.inputs])
    rows = torch.randperm(len(data), generator=generator_at(0, "statistics"))[:STATISTICS_SAMPLE]
    return data.stream(rows.split(256))


def _counts(images: Tensor) -> Tensor:
    """(N, C, ...) bytes -> (C, 256) counts of each value."""
    channels = images.transpose(0, 1).flatten(1)
    return torch.stack([torch.bincount(c.flatten().int(), minlength=256) for c in channels]).double()


@dataclass(frozen=True)
class TableEncoding:
    """Turns table rows into features: standardised numbers, marks for missing numbers, one-hot categories.

        number    (x - mean) / std; a missing x is replaced by the median
        mark      1 if x is missing, else 0; for each numeric column with missing values in training
        category  one-hot; all zeros if missing or unknown

    in this order, each in the order of the columns. Mean and std are computed on training values after imputation.
    """

    columns: tuple[Column, ...]  # the columns of the raw rows (N, columns)
    medians: tuple[float, ...]  # one per numeric column, like means and stds
    means: tuple[float, ...]
    stds: tuple[float, ...]
    marked: tuple[int, ...]  # the numeric columns that get a mark, counted among the numeric ones

    @classmethod
    def of(cls, train: Examples, columns: Sequence[Column]) -> "TableEncoding":
        """Fits the statistics on training rows; a column that never varies gets std 1, an empty one median 0."""
        rows = resident(train).inputs.double().numpy()
        statistics: list[tuple[float, float, float]] = []
        marked: list[int] = []
        for index in _numeric(columns):
            values = rows[:, index]
            missing = np.isnan(values)
            if missing.any():
                marked.append(len(statistics))
            median = 0.0 if missing.all() else float(np.median(values[~missing]))
            filled = np.where(missing, median, values)
            std = float(filled.std())  # tiny but not zero for a constant column, due to rounding
            varies = filled.min() < filled.max() and std > np.finfo(np.float32).tiny
            statistics.append((median, float(filled.mean()), std if varies else 1.0))
        medians, means, stds = zip(*statistics, strict=True) if statistics else ((), (), ())
        return cls(tuple(columns), medians, means, stds, tuple(marked))

    def __call__(self, inputs: Tensor) -> Tensor:
        """(B, columns) raw rows -> (B, features) floats."""
        device = inputs.device
        parts = []
        if numeric := _numeric(self.columns):
            numbers = inputs.index_select(1, torch.tensor(numeric, device=device))
            missing = numbers.isnan()
            medians, means, stds = (
                torch.tensor(values, dtype=torch.float32, device=device)
                for values in (self.medians, self.means, self.stds)
            )
            parts.append((torch.where(missing, medians, numbers) - means) / stds)
            if self.marked:
                parts.append(missing.index_select(1, torch.tensor(self.marked, device=device)).float())
        places = [
            (index, category)
            for index, column in enumerate(self.columns)
            for category in range(len(column.categories or ()))
        ]
        if places:  # NaN and -1 match no category
            index, category = torch.tensor(places, device=device).unbind(1)
            parts.append((inputs.index_select(1, index) == category).float())
        return torch.cat(parts, 1)

    def output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """(columns,) -> (features,)."""
        if input_shape != (len(self.columns),):
            raise DataError(f"Expected rows of {len(self.columns)} columns. Got examples of shape {input_shape}.")
        categories = sum(len(column.categories or ()) for column in self.columns)
        return (len(self.means) + len(self.marked) + categories,)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to write to a file; `preprocessing_from` reads them."""
        numbers = {name: list(getattr(self, name)) for name in TABLE_STATISTICS}
        return {"kind": "table", "columns": [column.to_dict() for column in self.columns], **numbers}


def _numeric(columns: Sequence[Column]) -> list[int]:
    return [index for index, column in enumerate(columns) if column.categories is None]


def preprocessing_from(content: Mapping[str, Any]) -> Preprocessing:
    """Reads the output of ``to_dict``."""
    match content.get("kind"):
        case "normalisation":
            return Normalisation(tuple(content["mean"]), tuple(content["std"]))
        case "table":
            columns = tuple(Column.from_dict(column) for column in content["columns"])
            return TableEncoding(columns, *(tuple(content[name]) for name in TABLE_STATISTICS))
    raise CorruptFile(f"Expected a known kind of preprocessing. Found {content.get('kind')!r}.")
