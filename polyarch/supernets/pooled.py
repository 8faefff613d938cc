"""Convolutions that are pooled at once and go on with residual ones; widths and depths are choices.

Networks of this form learn small images faster than other residual networks: Page (2018), "How to Train Your ResNet";
Coleman et al. (2017), "DAWNBench: An End-to-End Deep Learning Benchmark and Competition", NeurIPS ML Systems Workshop.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from polyarch.nn import ElasticBatchNorm2d, ElasticLinear, OneOf, Repeat, Sizes, call
from polyarch.nn.path_recording import Composed
from polyarch.supernets.elastic import ElasticSupernet, convolution, elastic, require_positive, stage_widths, stem
from polyarch.supernets.resnet import residual_stages


class PooledSupernet(ElasticSupernet):
    """Stem, stages that convolve, pool and add residual convolutions, head; a plain residual network beside them.

    Stage s has the choices ``stage{s}.width`` and ``stage{s}.depth``, the number of its residual convolutions. The
    choice ``family`` is between networks of these stages (``pooled``) and ordinary pre-activation ones (``plain``) of
    one block per stage and ``plain.width`` channels in the first: what anyone would try, to compare with. The choice
    ``view`` is between images as they are (``one``) and the mean output of an image and its mirror image (``both``),
    which costs twice as much and has the same weights.

    Args:
        classes: the number of outputs.
        widths: the channels of the first stage to choose from, which double with each stage; the stem has half of them.
        max_depth: the largest number of residual convolutions per stage.
        min_depth: the smallest.
        plain_widths: the channels of plain networks to choose from.
        stages: each of them halves the resolution.
        stem_stride: by which the stem reduces large images.
    """

    def __init__(
        self,
        *,
        in_channels: int = 3,
        classes: int = 10,
        widths: Sequence[int] = (8, 16, 32, 64),
        max_depth: int = 2,
        min_depth: int = 0,
        plain_widths: Sequence[int] = (4, 8, 16),
        stages: int = 3,
        stem_stride: int = 1,
    ) -> None:
        require_positive(in_channels=in_channels, classes=classes, widths=widths, max_depth=max_depth)
        require_positive(plain_widths=plain_widths, stages=stages, stem_stride=stem_stride)
        channels = stage_widths(stages, widths)
        first = Sizes.of(channels[0]) // 2
        parts: list[nn.Module] = [stem(in_channels, first, stem_stride), ElasticBatchNorm2d(first), nn.ReLU()]
        for stage, width in enumerate(channels):
            parts += [
                convolution(channels[stage - 1] if stage else first, width, 3),
                nn.MaxPool2d(2, ceil_mode=True),
                ElasticBatchNorm2d(width),
                nn.ReLU(),
                _residuals(f"stage{stage + 1}.depth", width, min_depth, max_depth),
            ]
        pooled = nn.Sequential(*parts, *_head(channels[-1], classes))
        width = elastic("plain.width", plain_widths)
        blocks = residual_stages([width * 2**stage for stage in range(stages)], max_depth=1, kernels=(3,))
        last = width * 2 ** (stages - 1)
        ends = [ElasticBatchNorm2d(last), nn.ReLU(), *_head(last, classes)]
        plain = nn.Sequential(stem(in_channels, width, stem_stride), *blocks, *ends)
        network = OneOf("family", pooled=pooled, plain=plain)
        super().__init__(OneOf("view", one=network, both=_BothViews(network)), name="pooled")


def _residuals(name: str, width: int | Sizes, least: int, most: int) -> nn.Module:
    blocks = [_Residual(width) for _ in range(most)]
    return nn.Sequential(*blocks) if least == most else Repeat(name, blocks, minimum=least)


def _head(width: int | Sizes, classes: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), ElasticLinear(width, classes)]


class _Residual(Composed):
    """y = x + relu(norm(conv(x)))."""

    def __init__(self, width: int | Sizes) -> None:
        super().__init__()
        self.body = nn.Sequential(convolution(width, width, 3), ElasticBatchNorm2d(width), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """(B, width, H, W) -> the same shape."""
        return x + call(self.body, x)


class _BothViews(Composed):
    """y = (f(x) + f(x mirrored)) / 2."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, outputs)."""
        return (call(self.network, x) + call(self.network, x.flip(-1))) / 2
