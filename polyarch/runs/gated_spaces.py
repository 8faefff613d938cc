"""The networks with gates that a run description can name: their channels are kept or dropped."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from polyarch.networks import DenseNet, EnasNetwork, InflatedResNet, MultiBranchResNet, ResidualMLP
from polyarch.runs.spaces import SpaceSettings
from polyarch.settings import require_images
from polyarch.supernets import Supernet, gate, probe

Kernels = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
Stages = Annotated[int, Field(ge=1, le=8)]
Network = MultiBranchResNet | EnasNetwork | InflatedResNet | DenseNet | ResidualMLP


class MultiBranchSettings(SpaceSettings):
    """The multi-branch ResNet of shake-shake, with gates.

    ``width`` are the channels of the first stage, which double with each; by default half the height of the images,
    between 4 and 16. With several ``kernels`` convolutions of all sizes stand in parallel at every place.
    """

    kind: Literal["multi_branch"] = "multi_branch"
    width: PositiveInt | None = None
    blocks: PositiveInt = 1
    stages: Stages = 3
    branches: PositiveInt = 2
    kernels: Kernels = (3, 5)
    stem_channels: PositiveInt = 16

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """A supernet for images of this shape."""
        require_images(self.kind, input_shape)
        options = self.model_dump(exclude={"kind", "width"})
        width = self.width or _width(input_shape)
        return _gated(self.kind, MultiBranchResNet(width=width, **_ends(input_shape, classes), **options), input_shape)


class EnasSettings(SpaceSettings):
    """The network of the cells that ENAS found, with gates on convolutions, poolings and identities.

    ``cells`` are normal ones per stage. ``inflated`` puts separable convolutions of sizes 3 and 5 at every place.
    """

    kind: Literal["enas"] = "enas"
    width: PositiveInt | None = None
    cells: PositiveInt = 1
    stages: Stages = 3
    inflated: bool = False

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """A supernet for images of this shape."""
        require_images(self.kind, input_shape)
        options = self.model_dump(exclude={"kind", "width"})
        width = self.width or _width(input_shape)
        return _gated(self.kind, EnasNetwork(width=width, **_ends(input_shape, classes), **options), input_shape)


class InflatedResNetSettings(SpaceSettings):
    """A bottleneck ResNet with gates; ``kernels`` of several sizes stand in parallel.

    ``blocks`` has a number for every stage. A ``large`` stem quarters the resolution first.
    """

    kind: Literal["inflated_resnet"] = "inflated_resnet"
    width: PositiveInt = 16
    blocks: Kernels = (1, 1, 1)
    kernels: Kernels = (3, 5)
    expansion: PositiveInt = 4
    stem: Literal["small", "large"] = "small"

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """A supernet for images of this shape."""
        require_images(self.kind, input_shape)
        options = self.model_dump(exclude={"kind"})
        return _gated(self.kind, InflatedResNet(**_ends(input_shape, classes), **options), input_shape)


class DenseNetSettings(SpaceSettings):
    """A DenseNet with bottlenecks and gates; ``layers`` has a number for every stage."""

    kind: Literal["densenet"] = "densenet"
    growth: PositiveInt = 8
    layers: Kernels = (4, 4, 4)
    bottleneck: PositiveInt = 4
    compression: Annotated[float, Field(gt=0, le=1)] = 0.5
    stem: Literal["small", "large"] = "small"

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """A supernet for images of this shape."""
        require_images(self.kind, input_shape)
        options = self.model_dump(exclude={"kind"})
        return _gated(self.kind, DenseNet(**_ends(input_shape, classes), **options), input_shape)


class ResidualMLPSettings(SpaceSettings):
    """A fully connected residual network with gates, for tables; ``inner`` is the width inside of its blocks."""

    kind: Literal["residual_mlp"] = "residual_mlp"
    width: PositiveInt = 64
    depth: PositiveInt = 3
    inner: PositiveInt = 128

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """A supernet for any data; images are flattened."""
        options = self.model_dump(exclude={"kind"})
        model = ResidualMLP(features=math.prod(input_shape), classes=classes, **options)
        return _gated(self.kind, model, input_shape)


def _gated(kind: str, model: Network, input_shape: tuple[int, ...]) -> Supernet:
    return gate(model, probe(input_shape), groups=model.gate_groups(), name=kind)


def _ends(input_shape: tuple[int, ...], classes: int) -> dict[str, Any]:
    return {"in_channels": input_shape[0], "classes": classes}


def _width(input_shape: tuple[int, ...]) -> int:
    return min(max(input_shape[1] // 2, 4), 16)
