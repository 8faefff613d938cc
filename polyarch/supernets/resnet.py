"""A residual network whose depth, width and kernel size are choices, stage by stage.

Pre-activation: He et al. (2016), "Identity Mappings in Deep Residual Networks", arXiv:1603.05027. Elastic depth, width
and kernel size: Cai et al. (2020), "Once-for-All: Train One Network and Specialize it for Efficient Deployment",
arXiv:1908.09791.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from polyarch.nn import ElasticBatchNorm2d, ElasticLinear, Sizes, call
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


class ResNetSupernet(ElasticSupernet):
    """Stem, stages of pre-activation residual blocks, head.

    Stage s has the choices ``stage{s}.width``, ``stage{s}.kernel`` and ``stage{s}.depth``; its blocks share width and
    kernel size. The first block of every stage but the first halves the resolution. Narrow, shallow networks with small
    kernels use slices of the weights of the largest.

    Args:
        classes: the number of outputs.
        widths: the channels of the first stage to choose from; they double with each stage.
        max_depth: the largest number of blocks per stage; the smallest is 1.
        kernels: odd kernel sizes to choose from.
        stem_stride: by which the stem reduces large images.
    """

    def __init__(
        self,
        *,
        in_channels: int = 3,
        classes: int = 10,
        widths: Sequence[int] = (4, 8, 16, 32),
        max_depth: int = 4,
        kernels: Sequence[int] = (3, 5),
        stages: int = 3,
        stem_stride: int = 1,
    ) -> None:
        require_positive(in_channels=in_channels, classes=classes, widths=widths, max_depth=max_depth, kernels=kernels)
        require_positive(stages=stages, stem_stride=stem_stride)
        channels = stage_widths(stages, widths)
        blocks = residual_stages(channels, max_depth=max_depth, kernels=kernels)
        parts: list[nn.Module] = [stem(in_channels, channels[0], stem_stride), *blocks]
        width = channels[-1]
        parts += [ElasticBatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        super().__init__(nn.Sequential(*parts, ElasticLinear(width, classes)), name="resnet")


def residual_stages(channels: Sequence[int | Sizes], *, max_depth: int, kernels: Sequence[int]) -> list[nn.Module]:
    """Pre-activation residual blocks, stage by stage; the first block of every stage but the first halves."""
    found = []
    for stage, width in enumerate(channels):
        kernel = elastic(f"stage{stage + 1}.kernel", kernels)
        first = _Block(channels[stage - 1], width, kernel, stride=2) if stage else _Block(width, width, kernel)
        blocks = [first, *(_Block(width, width, kernel) for _ in range(max_depth - 1))]
        found.append(elastic_depth(f"stage{stage + 1}.depth", blocks))
    return found


class _Block(Composed):
    """a = relu(norm(x)), y = shortcut + conv(relu(norm(conv(a)))).

    The shortcut is x. Where the resolution changes, it is a 1x1 convolution of the averages of a over 2x2 pixels.
    """

    def __init__(self, inputs: int | Sizes, outputs: int | Sizes, kernel: int | Sizes, *, stride: int = 1) -> None:
        super().__init__()
        self.before = nn.Sequential(ElasticBatchNorm2d(inputs), nn.ReLU())
        self.body = nn.Sequential(
            convolution(inputs, outputs, kernel, stride=stride),
            ElasticBatchNorm2d(outputs),
            nn.ReLU(),
            convolution(outputs, outputs, kernel),
        )
        self.shortcut = None
        if stride > 1:  # averages, because a strided 1x1 convolution of few channels is not safe, see `pointwise`
            self.shortcut = nn.Sequential(nn.AvgPool2d(stride, ceil_mode=True), convolution(inputs, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) -> (B, outputs, H', W')."""
        a = call(self.before, x)
        return (x if self.shortcut is None else call(self.shortcut, a)) + call(self.body, a)
