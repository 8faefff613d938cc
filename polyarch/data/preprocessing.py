"""From raw examples to what a network takes in: fitted on training data, kept in artifacts, exported inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from polyarch.data.tensors import TensorData
from polyarch.errors import CorruptFile


class Preprocessing(Protocol):
    """A pure function of a batch, made of operations that `torch.export` and ONNX know."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """(B, ...) raw examples -> (B, ...) floats."""

    def output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one example afterwards."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files; see `preprocessing_from`."""


@dataclass(frozen=True)
class Normalisation:
    """(x - mean) / std per channel (or feature), after bytes have become 0..1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, data: TensorData) -> Normalisation:
        """The statistics of (training) data per channel; a channel that never varies gets std 1."""
        inputs = data.inputs
        axes = [axis for axis in range(inputs.dim()) if axis != 1]
        if inputs.is_floating_point():
            values = inputs.double()
            mean, std = values.mean(axes), values.std(axes, correction=0)
        else:  # by counting, so that a large byte tensor is not copied as floats
            levels = torch.arange(256, dtype=torch.float64) / 255
            channels = inputs.transpose(0, 1).flatten(1)
            counts = torch.stack([torch.bincount(c.flatten().int(), minlength=256) for c in channels]).double()
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
        """Unchanged."""
        return input_shape

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files; see `preprocessing_from`."""
        return {"kind": "normalisation", "mean": list(self.mean), "std": list(self.std)}


def preprocessing_from(content: Mapping[str, Any]) -> Preprocessing:
    """What ``to_dict`` gave."""
    match content.get("kind"):
        case "normalisation":
            return Normalisation(tuple(content["mean"]), tuple(content["std"]))
    raise CorruptFile(f"Expected a known kind of preprocessing. Found {content.get('kind')!r}.")
