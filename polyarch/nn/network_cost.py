"""Counting the work of a network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


def multiply_accumulates(network: nn.Module, input_shape: Sequence[int]) -> float:
    """Of one example of this shape: half the operations that torch's flop counter finds.

    Leaves the network in evaluation mode.
    """
    inputs = zero_input(network.eval(), (1, *input_shape))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(inputs)
    return float(counter.get_total_flops()) / 2


def zero_input(network: nn.Module, shape: Sequence[int]) -> Tensor:
    """Zeros of this shape where the network is, and in its precision; a network may be left without parameters."""
    parameter = next(network.parameters(), torch.empty(0))
    return torch.zeros(*shape, dtype=parameter.dtype, device=parameter.device)
