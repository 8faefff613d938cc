"""Inverted bottlenecks whose expansion, kernel size, squeeze-and-excitation, depth and width are choices.

Sandler et al. (2018), "MobileNetV2: Inverted Residuals and Linear Bottlenecks", arXiv:1801.04381. Squeeze-and-
excitation: Hu et al. (2018), "Squeeze-and-Excitation Networks", arXiv:1709.01507. Elastic sizes: Cai et al. (2020),
"Once-for-All: Train One Network and Specialize it for Efficient Deployment", arXiv:1908.09791.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from polyarch.nn import ElasticBatchNorm2d, ElasticConv2d, Maybe, Sizes, call
from polyarch.nn.path_recording import Composed
from polyarch.supernets.elastic import (
    ElasticSupernet,
    convolution,
    elastic,
    elastic_depth,
    require_positive,
    stage_widths,
    stem,
)

SQUEEZE = 4
"""By how much squeeze-and-excitation narrows."""


class MobileSupernet(ElasticSupernet):
    """Stem, stages of inverted bottlenecks, a 1x1 convolution, head.

    Stage s has the choices ``stage{s}.width`` and ``stage{s}.depth``, and each of its blocks b has
    ``stage{s}.block{b}.expansion``, ``.kernel`` and, if it may have one, ``.squeeze``. The first block of every stage
    but the first halves the resolution.

    Args:
        classes: the number of outputs.
        widths: the channels of the first stage to choose from; they double with each stage.
        max_depth: the largest number of blocks per stage; the smallest is 1.
        expansions: how many times wider than its input a block may be inside.
        kernels: odd sizes of depthwise kernels to choose from.
        squeeze: whether blocks may have squeeze-and-excitation.
        head_channels: of the last convolution.
        stem_stride: by which the stem reduces large images.
    """

    def __init__(
        self,
        *,
        in_channels: int = 3,
        classes: int = 10,
        widths: Sequence[int] = (8, 12, 16, 24),
        max_depth: int = 3,
        expansions: Sequence[int] = (2, 4, 6),
        kernels: Sequence[int] = (3, 5),
        squeeze: bool = True,
        stages: int = 3,
        head_channels: int = 128,
        stem_stride: int = 1,
    ) -> None:
        require_positive(in_channels=in_channels, classes=classes, widths=widths, max_depth=max_depth, kernels=kernels)
        require_positive(expansions=expansions, stages=stages, head_channels=head_channels, stem_stride=stem_stride)
        channels = stage_widths(stages, widths)
        parts = [stem(in_channels, channels[0], stem_stride), ElasticBatchNorm2d(channels[0]), nn.ReLU6()]
        for stage, width in enumerate(channels):
            blocks = []
            for block in range(max_depth):
                reduces = stage > 0 and block == 0
                name = f"stage{stage + 1}.block{block + 1}"
                blocks.append(
                    _Block(
                        name,
                        channels[stage - 1] if reduces else width,
                        width,
                        elastic(f"{name}.expansion", expansions),
                        elastic(f"{name}.kernel", kernels),
                        squeeze=squeeze,
                        stride=2 if reduces else 1,
                    )
                )
            parts.append(elastic_depth(f"stage{stage + 1}.depth", blocks))
        parts += [convolution(channels[-1], head_channels, 1), nn.BatchNorm2d(head_channels), nn.ReLU6()]
        parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(head_channels, classes)]
        super().__init__(nn.Sequential(*parts), name="mobile")


class _Block(Composed):
    """1x1 expansion, depthwise k x k convolution, squeeze-and-excitation, 1x1 projection; adds x where shapes allow."""

    def __init__(
        self,
        name: str,
        inputs: int | Sizes,
        outputs: int | Sizes,
        expansion: int | Sizes,
        kernel: int | Sizes,
        *,
        squeeze: bool,
        stride: int,
    ) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.body = nn.Sequential(
            convolution(inputs, hidden, 1),
            ElasticBatchNorm2d(hidden),
            nn.ReLU6(),
            convolution(hidden, hidden, kernel, stride=stride, groups=hidden),
            ElasticBatchNorm2d(hidden),
            nn.ReLU6(),
            *([Maybe(f"{name}.squeeze", _SqueezeExcitation(hidden))] if squeeze else []),
            convolution(hidden, outputs, 1),
            ElasticBatchNorm2d(outputs),
        )
        self.residual = stride == 1

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) -> (B, outputs, H', W')."""
        y = call(self.body, x)
        return x + y if self.residual else y


class _SqueezeExcitation(Composed):
    """Weighs every channel by a number from 0 to 1 that depends on the averages of all: y_c = x_c f(mean of x)_c."""

    def __init__(self, width: int | Sizes) -> None:
        super().__init__()
        narrow = width // SQUEEZE
        self.weights = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            ElasticConv2d(width, narrow, 1),
            nn.ReLU(),
            ElasticConv2d(narrow, width, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        return x * call(self.weights, x)
