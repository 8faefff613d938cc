"""Counting the work of a network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def multiply_accumulates(network: nn.Module, input_shape: Sequence[int]) -> float:
    """Of one example of this shape: half the operations that torch's flop counter finds.

    Leaves the network in evaluation mode.
    """
    parameter = next(network.eval().parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, *input_shape, dtype=parameter.dtype, device=parameter.device))
    return float(counter.get_total_flops()) / 2
