"""Several networks as one module."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput


class StackedNetworks(nn.ModuleList):
    """Computes the logits (B, C) of K separate networks on the same batch: (B, ...) -> (K, B, C)."""

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__(networks)
        if not len(self):
            raise InvalidInput("Expected at least one network. Got none.")

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (K, B, C)."""
        outputs = [network(x) for network in self]
        first = outputs[0]
        for output in outputs:
            # Compares only the classes, because exported networks take any number of examples.
            if output.dim() != 2 or output.shape[1] != first.shape[1]:
                raise InvalidInput(
                    f"Expected logits (B, {first.shape[-1]}) from every member. Got shape {tuple(output.shape)}."
                )
        return torch.stack(outputs)
