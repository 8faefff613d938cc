"""The multi-branch residual network of shake-shake regularisation, plain or inflated.

Gastaldi (2017), "Shake-Shake Regularization", arXiv:1705.07485.
"""

from collections.abc import Iterable

from torch import Tensor, nn

from polyarch.networks.gateable import GateableNetwork, require_kernels, require_positive
from polyarch.networks.layers import convolution, convolutions, halving
from polyarch.nn.operations import relu_conv_bn


class MultiBranchBlock(nn.Module):
    """shortcut(x) + the mean of branches(x): (B, inputs, H, W) -> (B, outputs, H/stride, W/stride).

    A branch is ReLU-convolution-BN-ReLU-convolution-BN. Shake-shake computes this mean at test time. The stride is 1
    or 2.
    """

    def __init__(self, inputs: int, outputs: int, *, stride: int, branches: int, kernels: tuple[int, ...]) -> None:
        super().__init__()
        self.shortcut: nn.Module = nn.Identity()
        if stride == 2:
            self.shortcut = halving(inputs, outputs)
        elif inputs != outputs:
            self.shortcut = relu_conv_bn(inputs, outputs, 1)
        self.branches = nn.ModuleList(
            nn.Sequential(
                nn.ReLU(), convolutions(inputs, outputs, kernels, stride=stride), nn.BatchNorm2d(outputs),
                nn.ReLU(), convolutions(outputs, outputs, kernels), nn.BatchNorm2d(outputs),
            )
            for _ in range(branches)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) -> (B, outputs, H/stride, W/stride)."""
        terms: list[Tensor] = [branch(x) for branch in self.branches]
        shortcut: Tensor = self.shortcut(x)
        return shortcut + sum(terms[1:], start=terms[0]) / len(terms)


class MultiBranchResNet(GateableNetwork):
    """Stages of multi-branch residual blocks: (B, in_channels, H, W) -> (B, classes).

    ``width=96, blocks=4`` is the network "26 2x96d" of shake-shake.

    Args:
        width: the number of channels in the first stage; every further stage doubles it and halves the resolution.
        blocks: the number of blocks per stage.
        kernels: with several sizes, every convolution of a branch becomes a sum of parallel ones, one of each size.
    """

    def __init__(
        self,
        *,
        width: int = 16,
        blocks: int = 1,
        stages: int = 3,
        branches: int = 2,
        kernels: Iterable[int] = (3,),
        stem_channels: int = 16,
        in_channels: int = 3,
        classes: int = 10,
    ) -> None:
        super().__init__()
        require_positive(width=width, blocks=blocks, stages=stages, branches=branches)
        require_positive(stem_channels=stem_channels, in_channels=in_channels, classes=classes)
        kernels = require_kernels(kernels)
        self.stem = nn.Sequential(convolution(in_channels, stem_channels, 3), nn.BatchNorm2d(stem_channels))
        self.blocks = nn.Sequential()
        channels = stem_channels
        for stage in range(stages):
            for position in range(blocks):
                stride = 2 if stage > 0 and position == 0 else 1
                inputs, channels = channels, width * 2**stage
                block = MultiBranchBlock(inputs, channels, stride=stride, branches=branches, kernels=kernels)
                self.blocks.append(block)
        self.activation = nn.ReLU()
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes)."""
        x = self.activation(self.blocks(self.stem(x)))
        logits: Tensor = self.classifier(x.mean((2, 3)))
        return logits
