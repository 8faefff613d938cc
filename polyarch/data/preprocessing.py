"""Converts raw examples to network inputs.

Preprocessing is fitted on training data, saved in artifacts and exported as part of the program.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor

from polyarch.data.columns import Column
from polyarch.data.examples import Examples, TensorData
from polyarch.data.named_inputs import NamedInputs
from polyarch.data.table_encoding import TABLE_STATISTICS, TableEncoding, TableIndices
from polyarch.errors import CorruptFile
from polyarch.randomness import generator_at

STATISTICS_SAMPLE = 4096
"""The number of examples that the statistics of data outside memory are estimated from."""


class Preprocessing(Protocol):
    """A pure function of a batch, made of operations that `torch.export` and ONNX support."""

    def __call__(self, inputs: Any) -> Any:
        """(B, ...) raw examples -> (B, ...) network inputs; either may be `NamedInputs`."""

    def output_shape(self, input_shape: Any) -> Any:
        """The shape of one preprocessed example, as an `InputShape`."""

    @property
    def sizes(self) -> dict[str, Any]:
        """How many indices integer inputs have, by the name under which a user's function may ask for it."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to write to a file; `preprocessing_from` reads them."""


@dataclass(frozen=True)
class Normalisation:
    """(x - mean) / std per channel (or feature), with bytes scaled to 0..1 first."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, data: Examples | Tensor) -> "Normalisation":
        """Fits mean and std per channel on training data; a channel that never varies gets std 1.

        Data outside memory is represented by a fixed random sample of up to `STATISTICS_SAMPLE` examples.
        """
        data = data.inputs if isinstance(data, TensorData) else data
        if isinstance(data, Tensor) and data.is_floating_point():
            values = data.double()
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

    @property
    def sizes(self) -> dict[str, Any]:
        """No indices."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to write to a file; `preprocessing_from` reads them."""
        return {"kind": "normalisation", "mean": list(self.mean), "std": list(self.std)}


@dataclass(frozen=True)
class Identity:
    """Leaves inputs as they are: tokens, which are indices 0..vocabulary - 1, and masks, which have no vocabulary."""

    vocabulary: int | None = None

    def __call__(self, inputs: Tensor) -> Tensor:
        """(B, ...) -> (B, ...), the same."""
        return inputs

    def output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The same shape."""
        return input_shape

    @property
    def sizes(self) -> dict[str, Any]:
        """``vocabulary``: one more than the largest token of the data."""
        return {} if self.vocabulary is None else {"vocabulary": self.vocabulary}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to write to a file; `preprocessing_from` reads them."""
        return {"kind": "identity", "vocabulary": self.vocabulary}


@dataclass(frozen=True)
class NamedPreprocessing:
    """Every named input has a preprocessing of its own."""

    parts: Mapping[str, Preprocessing]

    def __call__(self, inputs: NamedInputs) -> NamedInputs:
        """Raw examples -> network inputs of the same names."""
        return NamedInputs.unchecked({name: part(inputs[name]) for name, part in self.parts.items()})

    def output_shape(self, input_shape: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The shapes of the preprocessed inputs."""
        return {name: part.output_shape(input_shape[name]) for name, part in self.parts.items()}

    @property
    def sizes(self) -> dict[str, Any]:
        """Those of the parts: size -> input -> number."""
        found: dict[str, dict[str, Any]] = {}
        for name, part in self.parts.items():
            for size, value in part.sizes.items():
                found.setdefault(size, {})[name] = value
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to write to a file; `preprocessing_from` reads them."""
        return {"kind": "named", "inputs": {name: part.to_dict() for name, part in self.parts.items()}}


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


def _pieces(data: Examples | Tensor) -> Iterator[Tensor]:
    if isinstance(data, Tensor):
        return iter([data])
    rows = torch.randperm(len(data), generator=generator_at(0, "statistics"))[:STATISTICS_SAMPLE]
    return (piece for piece in data.stream(rows.split(256)) if isinstance(piece, Tensor))


def _counts(images: Tensor) -> Tensor:
    """(N, C, ...) bytes -> (C, 256) counts of each value."""
    channels = images.transpose(0, 1).flatten(1)
    return torch.stack([torch.bincount(c.flatten().int(), minlength=256) for c in channels]).double()


def preprocessing_from(content: Mapping[str, Any]) -> Preprocessing:
    """Reads the output of ``to_dict``."""
    match content.get("kind"):
        case "normalisation":
            return Normalisation(tuple(content["mean"]), tuple(content["std"]))
        case "table" | "table indices" as kind:
            columns = tuple(Column.from_dict(column) for column in content["columns"])
            encoding = TableEncoding if kind == "table" else TableIndices
            knots = tuple(tuple((float(x), float(y)) for x, y in column) for column in content.get("knots", ()))
            statistics: dict[str, Any] = {name: tuple(content[name]) for name in TABLE_STATISTICS}
            return encoding(columns, **statistics, knots=knots)
        case "identity":
            return Identity(content["vocabulary"])
        case "named":
            return NamedPreprocessing({name: preprocessing_from(part) for name, part in content["inputs"].items()})
    raise CorruptFile(f"Expected a known kind of preprocessing. Found {content.get('kind')!r}.")
