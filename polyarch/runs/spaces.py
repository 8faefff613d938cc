"""The spaces that a run description can name; elastic and gated ones have files of their own."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from polyarch.data import NetworkExample
from polyarch.errors import ConfigError
from polyarch.nn.numeric_embeddings import Embedding
from polyarch.plugins import is_reference
from polyarch.runs.evaluation import EvaluationSettings, evaluation_of
from polyarch.runs.own_module import Builder, build_own, import_builder
from polyarch.runs.space_settings import ImageSpaceSettings, InterChoiceSettings, SpaceSettings, float_shape
from polyarch.spaces import DARTS_OPERATIONS, NB201_OPERATIONS, parse_wiring, wired_space
from polyarch.supernets import (
    ChainSupernet,
    ConvolutionalDepth,
    DartsSupernet,
    ElasticMLPSupernet,
    FullyConnectedDepth,
    GatedDepthSupernet,
    MacroSupernet,
    MLPSupernet,
    NB101Supernet,
    NB201Supernet,
    Supernet,
    WiredSupernet,
    fairnas_chain,
    probe,
)
from polyarch.supernets.wired import WiredLayout

DEFAULT_SPACE = "nb201"


class CellSettings(ImageSpaceSettings):
    """The NAS-Bench-201 cell network.

    In the supernet, ``pool_convolution`` puts a 1x1 convolution before the pooling, and operations see one in
    ``partial`` channels; with ``affine``, its normalisation layers have scale and shift, as those of networks that are
    trained alone always have.
    """

    network = NB201Supernet
    kind: Literal["nb201"] = "nb201"
    channels: PositiveInt | None = None
    cells: PositiveInt = 1
    operations: tuple[str, ...] = NB201_OPERATIONS
    affine: bool = False
    pool_convolution: bool = False
    partial: PositiveInt = 1
    interchoice: InterChoiceSettings | None = None


class ChainSettings(ImageSpaceSettings):
    """A chain of MobileNetV2 blocks; ``dropout`` is before its linear layer."""

    network = ChainSupernet
    kind: Literal["chain"] = "chain"
    channels: tuple[PositiveInt, ...] = (16, 16, 24, 24, 40, 40)
    strides: tuple[PositiveInt, ...] = (1, 1, 2, 1, 2, 1)
    kernels: tuple[PositiveInt, ...] = (3, 5)
    expansions: tuple[PositiveInt, ...] = (3, 6)
    skip: bool = True
    stem_channels: PositiveInt = 16
    stem_stride: PositiveInt = 1
    head_channels: PositiveInt = 128
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    interchoice: InterChoiceSettings | None = None


class FairnasSettings(ImageSpaceSettings):
    """The FairNAS chain of 19 MobileNetV2 blocks, for large images; ``dropout`` is before its linear layer."""

    network = staticmethod(fairnas_chain)
    kind: Literal["fairnas"] = "fairnas"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    interchoice: InterChoiceSettings | None = None


class MacroSettings(ImageSpaceSettings):
    """The NAS-Bench-Macro chain of eight layers with three options each."""

    network = MacroSupernet
    kind: Literal["macro"] = "macro"
    channels: PositiveInt = 32
    head_channels: PositiveInt = 1280
    interchoice: InterChoiceSettings | None = None


class DartsSettings(ImageSpaceSettings):
    """The DARTS network of normal and reduction cells.

    The supernet's operations see one in ``partial`` channels. With ``affine``, its cells are those of the evaluation
    network, as those of networks that are trained alone always are.
    ``none`` says whether a differentiable search weighs that operation, too; by default in all spaces but S2.
    With an ``evaluation``, networks that are trained alone have another size and are trained as DARTS does.
    """

    network = DartsSupernet
    kind: Literal["darts"] = "darts"
    layers: Annotated[int, Field(ge=3)] = 8
    channels: Annotated[int, Field(ge=2)] = 16
    operations: tuple[str, ...] = DARTS_OPERATIONS
    none: bool | None = None
    affine: bool = False
    partial: PositiveInt = 1
    evaluation: EvaluationSettings | None = None

    def options(self, input_shape: tuple[int, ...]) -> dict[str, Any]:
        """All but the evaluation, which is no matter of the supernet."""
        return {name: value for name, value in super().options(input_shape).items() if name != "evaluation"}


class NB101Settings(ImageSpaceSettings):
    """A NAS-Bench-1shot1 network: cells of NAS-Bench-101 with operations on nodes, in one of three spaces."""

    network = NB101Supernet
    kind: Literal["nb101"] = "nb101"
    space: Literal[1, 2, 3] = 1
    channels: PositiveInt = 16
    cells: PositiveInt = 3


class VectorDepthSettings(SpaceSettings):
    """A fully connected residual network whose depth is the choice; ``gated`` adds gates on its channels."""

    kind: Literal["depth_fc"] = "depth_fc"
    max_depth: PositiveInt = 20
    width: PositiveInt = 20
    gated: bool = False

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """The same on random examples of this shape, where there are no data."""
        return self.build_on(NetworkExample(probe(input_shape)), classes)

    def build_on(self, example: NetworkExample, classes: int) -> Supernet:
        """A supernet for data like these examples."""
        features = math.prod(float_shape(self.kind, example))
        net = FullyConnectedDepth(features=features, classes=classes, max_depth=self.max_depth, width=self.width)
        return GatedDepthSupernet(net, example.inputs) if self.gated else net


class ImageDepthSettings(ImageSpaceSettings):
    """A convolutional residual network whose depth is the choice.

    ``bias`` gives the convolutions of its blocks biases; ``gated`` adds gates on its channels.
    """

    network = ConvolutionalDepth
    kind: Literal["depth_cnn"] = "depth_cnn"
    max_depth: PositiveInt = 20
    channels: PositiveInt = 64
    inner_channels: PositiveInt = 32
    bias: bool = False
    gated: bool = False

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """The same on random examples of this shape, where there are no data."""
        return self.build_on(NetworkExample(probe(input_shape)), classes)

    def build_on(self, example: NetworkExample, classes: int) -> Supernet:
        """A supernet for images of 6x6 or more."""
        input_shape = float_shape(self.kind, example)
        if len(input_shape) == 3 and min(input_shape[1:]) < 6:
            raise ConfigError(f"Expected images of 6x6 or more for depth_cnn. Got {input_shape[1:]}.")
        net = super().build(input_shape, classes)
        assert isinstance(net, ConvolutionalDepth)
        return GatedDepthSupernet(net, example.inputs) if self.gated else net

    def options(self, input_shape: tuple[int, ...]) -> dict[str, Any]:
        """Gates are added afterwards."""
        return self.model_dump(exclude={"kind", "gated"})


class WiredSettings(ImageSpaceSettings):
    """Stages of convolution modules in a chain; which earlier modules of its stage a module also reads is the choice.

    ``width`` are the channels of the first stage; they double with each. ``auxiliary`` gives the supernet a second
    classifier on its last stage but one, for methods that train fixed ``wirings``. These have weights of their own and
    are then the only ones: the bits of every stage, as in ``101-000-011``. By its ``layout`` a stage passes on an
    aggregate of its modules or, as in polyarch 0.7, its ``last`` one.
    """

    network = WiredSupernet
    kind: Literal["wired"] = "wired"
    width: PositiveInt | None = None
    modules: Annotated[int, Field(ge=2, le=32)] = 4
    stages: Annotated[int, Field(ge=1, le=8)] = 3
    auxiliary: bool = True
    wirings: tuple[str, ...] = ()
    layout: WiredLayout = "aggregated"

    @classmethod
    def stored(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Polyarch 0.7 knew no other layout than its own."""
        return {"layout": "last", **content}

    def options(self, input_shape: tuple[int, ...]) -> dict[str, Any]:
        """Wirings as architectures; one stage has no last but one."""
        space = wired_space(self.stages, self.modules, aggregated=self.layout == "aggregated")
        wirings = [parse_wiring(text, space) for text in self.wirings] or None
        return super().options(input_shape) | {"wirings": wirings, "auxiliary": self.auxiliary and self.stages > 1}


class MLPSettings(SpaceSettings):
    """A fully connected residual network whose depth and inner widths are the choices.

    If it is ``elastic``, narrow networks share slices of the weights of wide ones, and there are further choices: the
    ``widths`` of the features between blocks, by default a quarter of ``width``, half of it and all; the ``embeddings``
    of numbers, ``none``, ``periodic`` or ``piecewise``; and ``dropouts``, the probabilities to drop features.
    """

    kind: Literal["mlp"] = "mlp"
    width: PositiveInt = 128
    max_depth: PositiveInt = 4
    inner_widths: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (64, 128, 256)
    elastic: bool = False
    widths: tuple[PositiveInt, ...] = ()
    embeddings: Annotated[tuple[Embedding, ...], Field(min_length=1)] = ("none",)
    dropouts: Annotated[tuple[Annotated[float, Field(ge=0, lt=1)], ...], Field(min_length=1)] = (0.0,)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.elastic and (self.widths or self.embeddings != ("none",) or self.dropouts != (0.0,)):
            raise ConfigError("Expected widths, embeddings and dropouts with elastic = true, and only there.")
        return self

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """A supernet for examples of this shape; images are flattened."""
        sizes: dict[str, Any] = {
            "features": math.prod(input_shape),
            "classes": classes,
            "max_depth": self.max_depth,
            "inner_widths": self.inner_widths,
        }
        if not self.elastic:
            return MLPSupernet(width=self.width, **sizes)
        widths = self.widths or sorted({max(self.width // share, 1) for share in (4, 2, 1)})
        return ElasticMLPSupernet(widths=widths, embeddings=self.embeddings, dropouts=self.dropouts, **sizes)


class ModuleSettings(SpaceSettings):
    """A network of your own, made by ``package.module:function``.

    It has `OneOf`, `Repeat` and `Maybe` blocks, is a `Supernet` or, with ``gated``, has channels to keep or drop.
    """

    kind: Literal["module"] = "module"
    module: str
    gated: bool = False

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """The same on random examples of this shape, where there are no data."""
        return self.build_on(NetworkExample(probe(input_shape)), classes)

    def build_on(self, example: NetworkExample, classes: int) -> Supernet:
        """Calls the function; see `build_own`."""
        return build_own(import_builder(self.module), example, classes, gated=self.gated)


class AutoSettings(SpaceSettings):
    """A space that fits the data, chosen when the run starts."""

    kind: Literal["auto"] = "auto"

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """There is nothing to build before the choice is made."""
        raise ConfigError("Expected a space that was chosen. Got 'auto', which a run replaces at its start.")


def own_builder(space: SpaceSettings) -> Builder | None:
    """The function that makes the user's own network, if the space names one."""
    if not isinstance(space, ModuleSettings) or not is_reference(space.module):
        return None
    return import_builder(space.module)


def as_trained_alone(space: SpaceSettings) -> SpaceSettings:
    """The space as networks that are trained alone have it: no weights of single choices, all channels, one head.

    Their cells are those of the benchmarks: normalisation layers have scale and shift, poolings no convolution. They
    have the size of the evaluation, where the space has one.
    """
    alone: dict[str, Any] = {
        "interchoice": None,
        "partial": 1,
        "affine": True,
        "pool_convolution": False,
        "wirings": (),
        "auxiliary": False,
    }
    evaluation = evaluation_of(space)
    if evaluation is not None:
        alone |= {"layers": evaluation.layers, "channels": evaluation.channels, "evaluation": None}
    return space.model_copy(update={name: value for name, value in alone.items() if hasattr(space, name)})
