"""What a network's batch normalisation uses when an architecture is judged: a policy, as a value.

A supernet's running statistics mix all the paths it was trained on, so a path judged with them looks worse
than it is. Every score names the policy it was taken under.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from polyarch.errors import InvalidInput


def norm_layers(module: nn.Module) -> Iterator[_BatchNorm]:
    """The batch normalisation layers of a network."""
    return (layer for layer in module.modules() if isinstance(layer, _BatchNorm))


@dataclass(frozen=True)
class NormPolicy(ABC):
    """Prepares a network of one's own for evaluation; changes its statistics and modes, never its weights."""

    @abstractmethod
    def prepare(self, network: nn.Module, inputs: Iterable[Tensor]) -> None:
        """Leaves the network ready to be evaluated; ``inputs`` are batches of training inputs, (B, ...)."""

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True)
class RunningStatistics(NormPolicy):
    """The running averages as they are."""

    def prepare(self, network: nn.Module, inputs: Iterable[Tensor]) -> None:
        """Evaluation mode."""
        network.eval()

    def __str__(self) -> str:
        return "running"


@dataclass(frozen=True)
class BatchStatistics(NormPolicy):
    """The statistics of the very batch that is judged."""

    def prepare(self, network: nn.Module, inputs: Iterable[Tensor]) -> None:
        """Evaluation mode, but for the normalisation layers."""
        network.eval()
        for layer in norm_layers(network):
            layer.train()

    def __str__(self) -> str:
        return "batch"


@dataclass(frozen=True)
class AdaptedStatistics(NormPolicy):
    """Adapt with forward passes in training mode, running averages *not* reset first, then use them."""

    batches: int = 20

    def __post_init__(self) -> None:
        _require_batches(self.batches)

    def prepare(self, network: nn.Module, inputs: Iterable[Tensor]) -> None:
        """``batches`` forward passes without gradient, then evaluation mode."""
        BatchStatistics().prepare(network, ())
        _forward(network, inputs, self.batches)
        network.eval()

    def __str__(self) -> str:
        return f"adapt({self.batches})"


@dataclass(frozen=True)
class ReestimatedStatistics(NormPolicy):
    """Reset, then estimate anew as the plain average over some batches."""

    batches: int = 20

    def __post_init__(self) -> None:
        _require_batches(self.batches)

    def prepare(self, network: nn.Module, inputs: Iterable[Tensor]) -> None:
        """Reset, ``batches`` forward passes with a cumulative average, then evaluation mode."""
        BatchStatistics().prepare(network, ())
        momenta = {layer: layer.momentum for layer in norm_layers(network)}
        for layer in momenta:
            layer.reset_running_stats()
            layer.momentum = None  # torch's name for the cumulative average
        _forward(network, inputs, self.batches)
        for layer, momentum in momenta.items():
            layer.momentum = momentum
        network.eval()

    def __str__(self) -> str:
        return f"reestimate({self.batches})"


def _require_batches(batches: int) -> None:
    if batches < 1:
        raise InvalidInput(f"Expected at least 1 batch to adapt the statistics with. Got {batches}.")


def _forward(network: nn.Module, inputs: Iterable[Tensor], batches: int) -> None:
    used = 0
    with torch.no_grad():
        for x in islice(inputs, batches):
            network(x)
            used += 1
    if used < batches:
        raise InvalidInput(f"Expected {batches} batches of training inputs for the statistics. Got {used}.")
