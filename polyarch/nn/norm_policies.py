"""Policies for the batch normalisation of a network while an architecture is evaluated.

The running statistics of a supernet mix all paths it was trained on, so a path evaluated with them looks worse than it
is. Every score names the policy under which it was computed. Batch normalisation: Ioffe & Szegedy (2015), "Batch
Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift", arXiv:1502.03167.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from polyarch.data.named_inputs import Inputs
from polyarch.errors import InvalidInput


def norm_layers(module: nn.Module) -> Iterator[_BatchNorm]:
    """The batch normalisation layers of a network."""
    return (layer for layer in module.modules() if isinstance(layer, _BatchNorm))


@dataclass(frozen=True)
class NormPolicy(ABC):
    """Prepares a network for evaluation by changing its statistics and modes, but not its weights."""

    @abstractmethod
    def prepare(self, network: nn.Module, inputs: Iterable[Inputs]) -> None:
        """Leaves the network ready for evaluation; ``inputs`` are batches of training inputs, (B, ...)."""

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True)
class RunningStatistics(NormPolicy):
    """Uses the running averages unchanged."""

    def prepare(self, network: nn.Module, inputs: Iterable[Inputs]) -> None:
        """Switches to evaluation mode."""
        network.eval()

    def __str__(self) -> str:
        return "running"


@dataclass(frozen=True)
class BatchStatistics(NormPolicy):
    """Uses the statistics of each evaluated batch."""

    def prepare(self, network: nn.Module, inputs: Iterable[Inputs]) -> None:
        """Switches to evaluation mode, except for the normalisation layers."""
        network.eval()
        for layer in norm_layers(network):
            layer.train()

    def __str__(self) -> str:
        return "batch"


@dataclass(frozen=True)
class AdaptedStatistics(NormPolicy):
    """Updates the running averages with some training batches, without resetting them, then uses them."""

    batches: int = 20

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise InvalidInput(f"Expected at least 1 batch to adapt the statistics with. Got {self.batches}.")

    def prepare(self, network: nn.Module, inputs: Iterable[Inputs]) -> None:
        """Runs ``batches`` forward passes without gradients, then switches to evaluation mode."""
        BatchStatistics().prepare(network, ())
        used = 0
        with torch.no_grad():
            for x in islice(inputs, self.batches):
                network(x)
                used += 1
        if used < self.batches:
            raise InvalidInput(f"Expected {self.batches} batches of training inputs for the statistics. Got {used}.")
        network.eval()

    def __str__(self) -> str:
        return f"adapt({self.batches})"


@dataclass(frozen=True)
class ReestimatedStatistics(AdaptedStatistics):
    """Resets the statistics and estimates them anew as the plain average over some training batches."""

    def prepare(self, network: nn.Module, inputs: Iterable[Inputs]) -> None:
        """Runs ``batches`` forward passes with a cumulative average, then switches to evaluation mode."""
        momenta = {layer: layer.momentum for layer in norm_layers(network)}
        for layer in momenta:
            layer.reset_running_stats()
            layer.momentum = None  # torch's name for the cumulative average
        super().prepare(network, inputs)
        for layer, momentum in momenta.items():
            layer.momentum = momentum

    def __str__(self) -> str:
        return f"reestimate({self.batches})"
