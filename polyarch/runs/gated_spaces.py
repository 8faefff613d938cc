"""The networks with gates that a run description can name: their channels are kept or dropped."""

from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from polyarch.data import NetworkExample
from polyarch.networks import DenseNet, EnasNetwork, InflatedResNet, MultiBranchResNet, ResidualMLP
from polyarch.runs.space_settings import ImageSpaceSettings, SpaceSettings, VectorSpaceSettings, float_shape
from polyarch.supernets import Supernet, gate, probe

Kernels = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
Stages = Annotated[int, Field(ge=1, le=8)]


class GatedSettings(SpaceSettings):
    """Puts gates into the network that the settings describe."""

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """The same on random examples of this shape, where there are no data."""
        return self.build_on(NetworkExample(probe(input_shape)), classes)

    def build_on(self, example: NetworkExample, classes: int) -> Supernet:
        """A supernet whose choices are the channels of the network."""
        model: Any = super().build(float_shape(self.kind, example), classes)
        return gate(model, example.inputs, groups=model.gate_groups(), name=self.kind)


class MultiBranchSettings(GatedSettings, ImageSpaceSettings):
    """The multi-branch ResNet of shake-shake, with gates.

    ``width`` are the channels of the first stage, which double with each. With several ``kernels``, convolutions of all
    sizes stand in parallel at every place.
    """

    network = MultiBranchResNet
    kind: Literal["multi_branch"] = "multi_branch"
    width: PositiveInt | None = None
    blocks: PositiveInt = 1
    stages: Stages = 3
    branches: PositiveInt = 2
    kernels: Kernels = (3,)
    stem_channels: PositiveInt = 16


class EnasSettings(GatedSettings, ImageSpaceSettings):
    """The network of the cells that ENAS found, with gates on convolutions, poolings and identities.

    ``cells`` are normal ones per stage. ``inflated`` puts separable convolutions of sizes 3 and 5 at every place.
    """

    network = EnasNetwork
    kind: Literal["enas"] = "enas"
    width: PositiveInt | None = None
    cells: PositiveInt = 1
    stages: Stages = 3
    inflated: bool = False


class InflatedResNetSettings(GatedSettings, ImageSpaceSettings):
    """A bottleneck ResNet with gates; ``kernels`` of several sizes stand in parallel.

    They are added up, or share the channels if they are ``concatenated``.
    ``blocks`` has a number for every stage. A ``large`` stem quarters the resolution first.
    """

    network = InflatedResNet
    kind: Literal["inflated_resnet"] = "inflated_resnet"
    width: PositiveInt = 16
    blocks: Kernels = (1, 1, 1)
    kernels: Kernels = (3, 5)
    concatenated: bool = False
    expansion: PositiveInt = 4
    stem: Literal["small", "large"] = "small"


class DenseNetSettings(GatedSettings, ImageSpaceSettings):
    """A DenseNet with bottlenecks and gates; ``layers`` has a number for every stage."""

    network = DenseNet
    kind: Literal["densenet"] = "densenet"
    growth: PositiveInt = 8
    layers: Kernels = (4, 4, 4)
    bottleneck: PositiveInt = 4
    compression: Annotated[float, Field(gt=0, le=1)] = 0.5
    stem: Literal["small", "large"] = "small"


class ResidualMLPSettings(GatedSettings, VectorSpaceSettings):
    """A fully connected residual network with gates, for tables; ``inner`` is the width inside of its blocks."""

    network = ResidualMLP
    kind: Literal["residual_mlp"] = "residual_mlp"
    width: PositiveInt = 64
    depth: PositiveInt = 3
    inner: PositiveInt = 128
