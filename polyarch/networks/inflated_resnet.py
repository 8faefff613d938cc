"""Residual networks of bottlenecks, such as ResNet-50, plain or inflated.

He et al. (2016), "Deep Residual Learning for Image Recognition", arXiv:1512.03385. Inflation adds parallel kernel sizes
to search over, as in Zhou et al. (2020), "Posterior-Guided Neural Architecture Search", arXiv:1906.09557.
"""

from collections.abc import Iterable

from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.networks.gateable import GateableNetwork, require_counts, require_kernels, require_positive
from polyarch.networks.layers import Stem, concatenated_convolutions, convolution, convolutions, make_stem


class Bottleneck(nn.Module):
    """ReLU(shortcut(x) + branch(x)): (B, inputs, H, W) -> (B, outputs, H/stride, W/stride).

    The branch consists of a 1x1, a kxk and a 1x1 convolution with batch normalisation and ReLU between them. In place
    of the kxk convolution, which carries the stride, one convolution of each kernel size is added up and normalised,
    or they share the channels and are concatenated.
    """

    def __init__(
        self, inputs: int, inner: int, outputs: int, *, stride: int, kernels: tuple[int, ...], concatenated: bool
    ) -> None:
        super().__init__()
        parallel = concatenated_convolutions if concatenated else convolutions
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(convolution(inputs, outputs, 1, stride=stride), nn.BatchNorm2d(outputs))
        self.branch = nn.Sequential(
            convolution(inputs, inner, 1), nn.BatchNorm2d(inner), nn.ReLU(),
            parallel(inner, inner, kernels, stride=stride), nn.BatchNorm2d(inner), nn.ReLU(),
            convolution(inner, outputs, 1), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) -> (B, outputs, H/stride, W/stride)."""
        activated: Tensor = self.activation(self.shortcut(x) + self.branch(x))
        return activated


class InflatedResNet(GateableNetwork):
    """Stages of bottlenecks: (B, in_channels, H, W) -> (B, classes).

    ``width=64, blocks=(3, 4, 6, 3), kernels=(3,), stem="large", classes=1000`` is ResNet-50, with the stride on the 3x3
    convolution; ``kernels=(1, 3, 5, 9), concatenated=True`` inflates it as Zhou et al. (2020) do.

    Args:
        width: the number of channels inside the bottlenecks of the first stage; every further stage doubles it and
            halves the resolution.
        blocks: the number of bottlenecks in every stage.
        kernels: the sizes of the parallel convolutions that replace ResNet's 3x3 convolution.
        concatenated: whether the convolutions share the channels, those of size 5 and more dilated, instead of being
            added up.
        expansion: the ratio of a bottleneck's outputs to its inner channels.
        stem: ``small`` for images of about 32x32, ``large`` for images of about 224x224.
    """

    def __init__(
        self,
        *,
        width: int = 16,
        blocks: Iterable[int] = (1, 1, 1),
        kernels: Iterable[int] = (3, 5),
        concatenated: bool = False,
        expansion: int = 4,
        stem: Stem = "small",
        in_channels: int = 3,
        classes: int = 10,
    ) -> None:
        super().__init__()
        blocks, kernels = require_counts("blocks", blocks), require_kernels(kernels)
        require_positive(width=width, expansion=expansion, in_channels=in_channels, classes=classes)
        if concatenated and width < len(kernels):
            raise InvalidInput(f"Expected a width of {len(kernels)} or more for as many kernel sizes. Got {width}.")
        self.stem = make_stem(stem, in_channels, width)
        self.blocks = nn.Sequential()
        channels = width
        for stage, count in enumerate(blocks):
            inner = width * 2**stage
            for position in range(count):
                stride = 2 if stage > 0 and position == 0 else 1
                outputs = expansion * inner
                block = Bottleneck(channels, inner, outputs, stride=stride, kernels=kernels, concatenated=concatenated)
                self.blocks.append(block)
                channels = outputs
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes)."""
        logits: Tensor = self.classifier(self.blocks(self.stem(x)).mean((2, 3)))
        return logits
