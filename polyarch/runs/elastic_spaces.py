"""Settings of the spaces whose sizes are choices: elastic networks for images."""

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from polyarch.runs.space_settings import ImageSpaceSettings
from polyarch.supernets import MobileSupernet, PooledSupernet, ResNetSupernet

SMALL = 16
"""Images with shorter sides have one stage less and no widest networks: there is less to compute them from."""

Sizes = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
"""Ascending sizes to choose from."""


class ElasticSettings(ImageSpaceSettings):
    """Stages of blocks of elastic widths and depths.

    ``widths`` are those of the first stage to choose from, and double with each of the ``stages``. What is not given
    suits the size of the images.
    """

    widths: Sizes | None = None
    max_depth: PositiveInt
    stages: PositiveInt | None = None

    def options(self, input_shape: tuple[int, ...]) -> dict[str, Any]:
        """Widths and stages that suit the images, and a stem that makes large images small."""
        side = min(input_shape[1:])
        stride = 1 if side < 48 else 2 if side < 128 else 4
        stages = 2 if side < SMALL else 3 if side // stride < 56 else 4
        widths = self.widths or self.suitable_widths(small=side < SMALL)
        return self.model_dump(exclude={"kind"}) | {
            "widths": widths,
            "stages": self.stages or stages,
            "stem_stride": stride,
        }

    def suitable_widths(self, *, small: bool) -> tuple[int, ...]:
        """The widths of the first stage for small images, or for others."""
        raise NotImplementedError


class ResNetSettings(ElasticSettings):
    """A residual network that chooses depth, width and kernel size stage by stage, with shared slices of weights.

    ``widths`` are the channels of the first stage to choose from, and double with each of the ``stages``. What is not
    given suits the size of the images.
    """

    network = ResNetSupernet
    kind: Literal["resnet"] = "resnet"
    max_depth: PositiveInt = 4
    kernels: Sizes = (3, 5)

    def suitable_widths(self, *, small: bool) -> tuple[int, ...]:
        """From 4 channels to 32."""
        return (4, 8, 16) if small else (4, 8, 16, 32)


class PooledSettings(ElasticSettings):
    """Convolutions that are pooled at once and go on with residual ones; every stage chooses its width and depth.

    ``widths`` are the channels of the first stage to choose from, and double with each of the ``stages``; ``max_depth``
    is the largest number of residual convolutions per stage, ``min_depth`` the smallest. Plain residual networks of
    ``plain_widths`` channels belong to the space, to compare with. What is not given suits the size of the images.
    """

    network = PooledSupernet
    kind: Literal["pooled"] = "pooled"
    max_depth: PositiveInt = 2
    min_depth: NonNegativeInt = 0
    plain_widths: Sizes = (4, 6, 8, 12, 16)

    def suitable_widths(self, *, small: bool) -> tuple[int, ...]:
        """From 8 channels to 96: networks of 6,000 to 4 million parameters."""
        return (8, 12, 16, 24, 32, 48, 64, 96)


class MobileSettings(ElasticSettings):
    """Inverted bottlenecks that choose expansion, kernel, squeeze-excitation, depth and width, with shared slices.

    ``widths`` are the channels of the first stage to choose from, and double with each of the ``stages``. What is not
    given suits the size of the images.
    """

    network = MobileSupernet
    kind: Literal["mobile"] = "mobile"
    max_depth: PositiveInt = 3
    kernels: Sizes = (3, 5)
    expansions: Sizes = (2, 4, 6)
    squeeze: bool = True
    head_channels: PositiveInt = 128

    def suitable_widths(self, *, small: bool) -> tuple[int, ...]:
        """From 8 channels to 24."""
        return (8, 12, 16) if small else (8, 12, 16, 24)
