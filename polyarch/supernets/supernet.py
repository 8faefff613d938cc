"""What every supernet can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from polyarch.nn import ChoiceBlock, StackedNetworks, multiply_accumulates, record
from polyarch.spaces import Architecture, Gates, Space


class Supernet(nn.Module, ABC):
    """One set of weights for all architectures of a space.

    The architecture is an argument of ``forward``, never state of the module: calls from several threads with
    different architectures do not disturb each other. In evaluation mode ``net(x, a)``, ``net(x, a.one_hot())``
    and ``net.extract(a)(x)`` agree numerically.
    """

    space: Space

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space

    @abstractmethod
    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """Logits (B, classes) of a hard path, which computes only what reaches the output, or of mixed options."""

    def forward_many(self, x: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """Logits of several architectures on the same batch: (S, B, classes)."""
        return torch.stack([self(x, architecture) for architecture in architectures])

    def extract(self, architecture: Architecture) -> nn.Module:
        """The architecture as a plain module with its own copy of the weights and no polyarch class inside.

        Operations that cannot reach the output are left out.
        """
        self.space.validate(architecture)
        return record(self, lambda x: self.forward(x, architecture))

    def extract_many(self, architectures: Sequence[Architecture]) -> nn.Module:
        """Several architectures as one module with its own copy of the weights: (B, ...) -> (S, B, classes).

        In evaluation mode it computes what ``forward_many`` computes. Here every architecture is a network of its own;
        a supernet whose architectures have a way in common walks it once.
        """
        return StackedNetworks([self.extract(architecture) for architecture in architectures])

    def parameter_count(self, architecture: Architecture) -> int:
        """The weights of the architecture as it is written: every chosen operation counts.

        This is how published tables count. The extracted network is smaller when an operation cannot reach the
        output. Inter-choice weights are not counted.
        """
        fixed, options = self._parameter_table
        return fixed + sum(options.get((name, architecture[name]), 0) for name in self.space.choice_names)

    def mac_count(self, architecture: Architecture, input_shape: Sequence[int]) -> float:
        """Multiply-accumulates of the extracted network for one example of this shape."""
        return multiply_accumulates(self.extract(architecture), input_shape)

    @cached_property
    def _parameter_table(self) -> tuple[int, dict[tuple[str, int], int]]:
        """Parameters outside all choice blocks, and those of every (choice, option)."""
        fixed = _count(self)
        options: dict[tuple[str, int], int] = {}
        for block in self.modules():
            if isinstance(block, ChoiceBlock):
                for index in block.passing:
                    key = (block.choice, index)
                    options[key] = options.get(key, 0) + _count(block.operation(index))
                if block.interchoice is not None:
                    fixed -= _count(block.interchoice)
        return fixed - sum(options.values()), options


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
