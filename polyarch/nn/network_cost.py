"""The cost of a network: its parameters and multiply-accumulates."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class NetworkCost:
    """The parameters of a network and its multiply-accumulates per example."""

    parameters: int
    macs: float


def multiply_accumulates(network: nn.Module, input_shape: Sequence[int]) -> float:
    """Multiply-accumulates per example of this shape: half of what torch's flop counter finds.

    Leaves the network in evaluation mode.
    """
    inputs = zero_input(network.eval(), (1, *input_shape))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(inputs)
    return float(counter.get_total_flops()) / 2


def zero_input(network: nn.Module, shape: Sequence[int]) -> Tensor:
    """Zeros of this shape on the device and in the precision of the network, which may have no parameters."""
    parameter = next(network.parameters(), torch.empty(0))
    return torch.zeros(*shape, dtype=parameter.dtype, device=parameter.device)
