"""What an architecture costs: parameters, multiply-accumulates, measured latency."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch

from polyarch.data import Inputs
from polyarch.errors import InvalidInput
from polyarch.estimators.estimator import Estimator
from polyarch.nn import example_input, multiply_accumulates
from polyarch.predictive import Goal
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


class Parameters(Estimator):
    """The number of weights (`Supernet.parameter_count`)."""

    name = "params"
    goal: ClassVar[Goal] = "minimise"

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The number of weights."""
        return float(net.parameter_count(architecture))


class MACs(Estimator):
    """Multiply-accumulates of a forward pass on one example (`Supernet.mac_count`).

    Args:
        example: a batch of examples as the network reads them, or the shape of one example, for zeros.
    """

    name = "macs"
    goal: ClassVar[Goal] = "minimise"

    def __init__(self, example: Inputs | Sequence[int]) -> None:
        self.example = example

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The number of multiply-accumulates."""
        return net.mac_count(architecture, self.example)


def shared_macs(net: Supernet, example: Inputs | Sequence[int]) -> Callable[[Sequence[Architecture]], float]:
    """A function that counts the multiply-accumulates of one example through several architectures together.

    It counts the module that `Supernet.extract_many` makes of them in this order, where work that members share counts
    once. If the supernet is on the meta device, nothing is copied or computed.
    """
    return lambda architectures: multiply_accumulates(net.extract_many(architectures), example)


class Latency(Estimator):
    """Seconds per forward pass, the median of several timed passes after a warm-up.

    It is the only estimator whose bits differ between calls.

    Args:
        example: as in `MACs`.
        batch_size: examples per pass.
        rounds: timed passes.
    """

    name = "latency"
    goal: ClassVar[Goal] = "minimise"

    def __init__(self, example: Inputs | Sequence[int], *, batch_size: int = 1, rounds: int = 20) -> None:
        if batch_size < 1 or rounds < 1:
            raise InvalidInput(f"Expected a batch size and rounds of 1 or more. Got {batch_size=}, {rounds=}.")
        self.example = example
        self.batch_size = batch_size
        self.rounds = rounds

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The median time of a pass in seconds."""
        network = net.extract(architecture).eval()
        inputs = example_input(network, self.example, rows=self.batch_size)
        times = []
        with torch.inference_mode():
            for _ in range(self.rounds + 3):
                _wait(inputs.device)
                started = time.perf_counter()
                network(inputs)
                _wait(inputs.device)
                times.append(time.perf_counter() - started)
        return statistics.median(times[3:])  # the first three passes warm up


def _wait(device: torch.device) -> None:
    """Waits for the kernels of a GPU, which run asynchronously."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
