"""Monte Carlo dropout: passes with dropout left on, as members of a mixture."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.dropout import drawing_from, dropout_layers, dropping
from polyarch.predictive.uncertainty import log_probabilities


class MCDropout(nn.Module):
    """log p_t(y | x) of T passes of one network, each with dropout masks of its own: (B, ...) -> (T, B, C).

    The passes are members like those of an ensemble: ``Mixture(MCDropout(...), [1.0] * passes)`` mixes them, and
    `mutual_information` says how far they disagree. Logarithms of probabilities are logits, too, so that
    `fit_temperature` takes them as they are. Normalisation layers use their running statistics in every pass, whatever
    mode the network is in.

    Args:
        network: (B, ...) -> logits (B, C), with dropout layers.
        passes: T; the usual number is 100.
        generator: gives the masks; a second call goes on from where the first one stopped.
    """

    def __init__(self, network: nn.Module, passes: int = 100, *, generator: Generator) -> None:
        super().__init__()
        if passes < 1:
            raise InvalidInput(f"Expected 1 or more passes. Got {passes}.")
        if next(dropout_layers(network), None) is None:
            raise InvalidInput("Expected a network with dropout layers of p above 0. Got one without.")
        self.network = network
        self.passes = passes
        self.generator = generator

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (T, B, C)."""
        with dropping(self.network), drawing_from(self.generator):
            logits = torch.stack([self.network(x) for _ in range(self.passes)])
        return log_probabilities(logits, 1.0)
