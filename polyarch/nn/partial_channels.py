"""Operations that see a part of the channels, as in PC-DARTS; the other channels go past them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.choice_block import gate_for
from polyarch.nn.choice_vectors import Selection
from polyarch.nn.path_recording import call


class PartialChannels(nn.Module):
    """shuffle(concatenate(operation(first C/k channels), bypass(the others))), on an edge between nodes of C channels.

    The bypass changes nothing; where operations halve the resolution it is a 2x2 max-pooling. The shuffle in k groups
    puts channels from both parts next to each other, so that the next operation sees other ones.

    This is what every option that passes something on does, so a mixture of options with weights w has the bypass
    sum_o w_o times. In PC-DARTS it has it once, and its option ``none`` closes the first channels only. Here ``none``
    closes the edge, as it does in a network that is trained alone, and so does an edge that is not chosen.

    Args:
        channels: C.
        parts: k; operations are to be built for C/k channels.
        stride: of the operations, 1 or 2.
    """

    def __init__(self, channels: int, parts: int, *, stride: int = 1) -> None:
        super().__init__()
        self.seen = channels // parts
        # ceil_mode keeps odd sizes equal to those of strided operations
        self.bypass = nn.Identity() if stride == 1 else nn.MaxPool2d(2, stride=2, ceil_mode=True)
        self.shuffle = nn.ChannelShuffle(parts)

    def forward(self, x: Tensor, selection: Selection, operations: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, C, H, W) -> (B, C, H/stride, W/stride).

        Args:
            selection: an index, or the weights (O,) or (B, O) of the options that pass something on.
            operations: the selected operation, or their mixture: (B, C/k, H, W) -> (B, C/k, H/stride, W/stride).
        """
        past = call(self.bypass, x[:, self.seen :])
        if not isinstance(selection, int):
            past = gate_for(selection.sum(-1, keepdim=True), 0, past) * past
        return call(self.shuffle, torch.cat([operations(x[:, : self.seen]), past], dim=1))


def partial_channels(channels: int, parts: int, *, stride: int = 1) -> PartialChannels | None:
    """Nothing where operations see all channels."""
    return None if parts == 1 else PartialChannels(channels, parts, stride=stride)


def require_parts(channels: int, parts: int, *, least: int = 1) -> None:
    """Refuses numbers of channels that cannot be divided into parts with at least so many channels each."""
    if parts < 1 or channels % parts or channels // parts < least:
        raise InvalidInput(
            f"Expected a number of parts that divides the channels, with {least} or more in each. "
            f"Got partial={parts} of {channels} channels."
        )
