"""The NAS-Bench-Macro supernet: the benchmark's own network with all options in every layer.

Su et al. (2021), "Prioritized Architecture Sampling with Monto-Carlo Tree Search", arXiv:2103.11922.
"""

from itertools import pairwise

from torch import nn

from polyarch.nn import InterChoice
from polyarch.nn.operations import conv_bn, inverted_residual
from polyarch.spaces import MACRO_OPERATIONS, MACRO_STAGES, macro_space
from polyarch.supernets.chain import LayerChain, LayerOptions
from polyarch.supernets.supernet import pooled_head, require_sizes


class MacroSupernet(LayerChain):
    """Stem, eight layers in stages of 2, 3 and 3, 1x1 convolution, pooled linear head.

    The first layer of a stage halves the resolution and doubles the channels; its ``identity`` is a 1x1 convolution.
    With the default widths the networks are the benchmark's, with the parameter counts of its table, except for ReLU6
    in place of ReLU. Inter-choice weights depend on the layers before. Accepts images of any size:
    (B, in_channels, H, W) -> (B, classes).
    """

    def __init__(
        self,
        *,
        channels: int = 32,
        head_channels: int = 1280,
        in_channels: int = 3,
        classes: int = 10,
        interchoice: InterChoice | None = None,
    ) -> None:
        require_sizes(classes, channels=channels, head_channels=head_channels, in_channels=in_channels)
        stages = [stage for stage, length in enumerate(MACRO_STAGES, start=1) for _ in range(length)]
        widths = [channels, *(channels * 2**stage for stage in stages)]
        layers = [_layer(inputs, outputs) for inputs, outputs in pairwise(widths)]
        stem = nn.Sequential(*conv_bn(in_channels, channels, 3))
        head = pooled_head(*conv_bn(widths[-1], head_channels, 1), width=head_channels, classes=classes)
        super().__init__(macro_space(), stem, layers, head, interchoice)


def _layer(inputs: int, outputs: int) -> LayerOptions:
    residual = inputs == outputs
    stride = 1 if residual else 2
    operations = (
        None if residual else nn.Sequential(*conv_bn(inputs, outputs, 1, stride=stride, activation=False)),
        inverted_residual(inputs, outputs, kernel=3, expansion=3, stride=stride),
        inverted_residual(inputs, outputs, kernel=5, expansion=6, stride=stride),
    )
    return LayerOptions(dict(zip(MACRO_OPERATIONS, operations, strict=True)), inputs, residual)
