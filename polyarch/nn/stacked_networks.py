"""Several networks side by side, as one module."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput


class StackedNetworks(nn.ModuleList):
    """The logits of K networks on the same batch: (B, ...) -> (K, B, C).

    Args:
        networks: each (B, ...) -> logits (B, C); nothing of them is shared.
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__(networks)
        if not len(self):
            raise InvalidInput("Expected at least one network. Got none.")

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (K, B, C)."""
        outputs = [network(x) for network in self]
        first = outputs[0]
        for output in outputs:
            # Only the classes are compared: an exported network takes any number of examples.
            if output.dim() != 2 or output.shape[1] != first.shape[1]:
                raise InvalidInput(
                    f"Expected logits (B, {first.shape[-1]}) from every member. Got shape {tuple(output.shape)}."
                )
        return torch.stack(outputs)
