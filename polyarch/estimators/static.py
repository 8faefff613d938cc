"""Costs of an architecture: parameters, multiply-accumulates, measured latency."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from polyarch.errors import InvalidInput
from polyarch.estimators.estimator import Estimator, Goal
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


class Parameters(Estimator):
    """The number of weights, counted as published tables count them (`Supernet.parameter_count`)."""

    name = "params"
    goal: ClassVar[Goal] = "minimise"

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """A whole number."""
        return float(net.parameter_count(architecture))


class MACs(Estimator):
    """Multiply-accumulates of one forward pass of one example: half the operations torch's flop counter finds.

    Args:
        input_shape: the shape of one example.
    """

    name = "macs"
    goal: ClassVar[Goal] = "minimise"

    def __init__(self, input_shape: Sequence[int]) -> None:
        self.input_shape = tuple(input_shape)

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """A whole number."""
        return _macs(net.extract(architecture), self.input_shape)


def shared_macs(net: Supernet, example_shape: Sequence[int]) -> Callable[[Sequence[Architecture]], float]:
    """What one forward pass of one example costs for several architectures together, in multiply-accumulates.

    Counted on what `Supernet.extract_many` makes of them in this order: what is computed once counts once. Where the
    supernet is on the meta device, nothing is copied or computed.
    """
    return lambda architectures: _macs(net.extract_many(architectures), example_shape)


class Latency(Estimator):
    """Measured seconds of one forward pass: the median over rounds, after a warm-up.

    A measurement: the one estimator whose bits differ from run to run.

    Args:
        input_shape: the shape of one example.
        batch_size: examples per pass.
        rounds: timed passes.
    """

    name = "latency"
    goal: ClassVar[Goal] = "minimise"

    def __init__(self, input_shape: Sequence[int], *, batch_size: int = 1, rounds: int = 20) -> None:
        if batch_size < 1 or rounds < 1:
            raise InvalidInput(f"Expected a batch size and rounds of 1 or more. Got {batch_size=}, {rounds=}.")
        self.input_shape = tuple(input_shape)
        self.batch_size = batch_size
        self.rounds = rounds

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """Seconds."""
        network = net.extract(architecture).eval()
        parameter = next(network.parameters())
        inputs = torch.zeros(self.batch_size, *self.input_shape, dtype=parameter.dtype, device=parameter.device)
        times = []
        with torch.inference_mode():
            for attempt in range(self.rounds + 3):
                _wait(parameter.device)
                started = time.perf_counter()
                network(inputs)
                _wait(parameter.device)
                if attempt >= 3:
                    times.append(time.perf_counter() - started)
        return statistics.median(times)


def _macs(network: nn.Module, input_shape: Sequence[int]) -> float:
    """Half the operations that torch's flop counter finds for one example; leaves the network in evaluation mode."""
    parameter = next(network.eval().parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, *input_shape, dtype=parameter.dtype, device=parameter.device))
    return float(counter.get_total_flops()) / 2


def _wait(device: torch.device) -> None:
    """Kernels on a GPU run behind the caller's back."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
