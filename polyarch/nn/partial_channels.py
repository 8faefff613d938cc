"""Operations on a part of the channels, which the other channels bypass.

Xu et al. (2020), "PC-DARTS: Partial Channel Connections for Memory-Efficient Architecture Search", arXiv:1907.05737.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.choice_block import gate_for
from polyarch.nn.choice_vectors import Selection
from polyarch.nn.path_recording import call


class PartialChannels(nn.Module):
    """shuffle(concatenate(operation(first C/k channels), bypass(other channels))) on an edge between nodes.

    The bypass is the identity, or a 2x2 max-pooling if operations halve the resolution. The shuffle in k groups
    interleaves both parts, so that the next operation sees other channels.

    Every option with an output includes the bypass, so a mixture with weights w contains it sum_o w_o times. PC-DARTS
    contains it once, and its option ``none`` drops only the first channels; here ``none`` drops all channels of the
    edge, as it does in a network that is trained alone.

    Args:
        channels: C.
        parts: k; operations must be built for C/k channels.
        stride: the stride of the operations, 1 or 2.
    """

    def __init__(self, channels: int, parts: int, *, stride: int = 1) -> None:
        super().__init__()
        self.seen = channels // parts
        # ceil_mode rounds odd sizes as strided operations do
        self.bypass = nn.Identity() if stride == 1 else nn.MaxPool2d(2, stride=2, ceil_mode=True)
        self.shuffle = nn.ChannelShuffle(parts)

    def forward(self, x: Tensor, selection: Selection, operations: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, C, H, W) -> (B, C, H/stride, W/stride).

        Args:
            selection: an index, or the weights (O,) or (B, O) of the options that have an output.
            operations: the selected operation or mixture: (B, C/k, H, W) -> (B, C/k, H/stride, W/stride).
        """
        past = call(self.bypass, x[:, self.seen :])
        if not isinstance(selection, int):
            past = gate_for(selection.sum(-1, keepdim=True), 0, past) * past
        return call(self.shuffle, torch.cat([operations(x[:, : self.seen]), past], dim=1))


def require_parts(channels: int, parts: int, *, least: int = 1) -> None:
    """Refuses parts that do not divide the channels or have fewer than ``least`` of them."""
    if parts < 1 or channels % parts or channels // parts < least:
        raise InvalidInput(
            f"Expected a number of parts that divides the channels, with {least} or more in each. "
            f"Got partial={parts} of {channels} channels."
        )
