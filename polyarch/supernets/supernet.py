"""The interface of all supernets, and what several of them share."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.data.named_inputs import Inputs
from polyarch.errors import InvalidInput
from polyarch.nn import ChoiceBlock, StackedNetworks, multiply_accumulates, record
from polyarch.spaces import Architecture, Choice, Gates, Space


class Supernet(nn.Module, ABC):
    """One set of weights for all architectures of a space.

    The architecture is an argument of ``forward``, never state of the module, so that threads can use different
    architectures at the same time. In evaluation mode ``net(x, a)``, ``net(x, a.one_hot())`` and ``net.extract(a)(x)``
    agree numerically.
    """

    space: Space

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space

    @abstractmethod
    def forward(self, x: Any, architecture: Architecture | Gates) -> Tensor:
        """Logits (B, classes) of an architecture, which runs only what reaches the output, or of mixed options.

        Args:
            x: a batch (B, ...), or `NamedInputs` for networks with several inputs.
        """

    def forward_many(self, x: Any, architectures: Sequence[Architecture]) -> Tensor:
        """Logits of several architectures on the same batch: (S, B, classes)."""
        return torch.stack([self(x, architecture) for architecture in architectures])

    def extract(self, architecture: Architecture) -> nn.Module:
        """The architecture as a plain module with its own copy of the weights and no polyarch class inside.

        It leaves out operations that cannot reach the output.
        """
        self.space.validate(architecture)
        return record(self, lambda x: self.forward(x, architecture))

    def extract_many(self, architectures: Sequence[Architecture]) -> nn.Module:
        """Several architectures as one module with its own copy of the weights: (B, ...) -> (S, B, classes).

        In evaluation mode it computes what ``forward_many`` computes. By default every architecture is a separate
        network; supernets whose architectures share computation do it once.
        """
        return StackedNetworks([self.extract(architecture) for architecture in architectures])

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights of all chosen operations, as published tables count them.

        The extracted network is smaller if an operation cannot reach the output. Inter-choice weights do not count.
        """
        fixed, options = self._parameter_table
        return fixed + sum(options.get((name, architecture[name]), 0) for name in self.space.choice_names)

    def mac_count(self, architecture: Architecture, example: Inputs | Sequence[int]) -> float:
        """Multiply-accumulates of the extracted network on one example; see `multiply_accumulates`."""
        return multiply_accumulates(self.extract(architecture), example)

    @cached_property
    def _parameter_table(self) -> tuple[int, dict[tuple[str, int], int]]:
        """Parameters outside all choice blocks, and those of every (choice, option)."""
        fixed = count_parameters(self)
        options: dict[tuple[str, int], int] = {}
        for block in self.modules():
            if isinstance(block, ChoiceBlock):
                for index in block.passing:
                    key = (block.choice, index)
                    options[key] = options.get(key, 0) + count_parameters(block.operation(index))
                if block.interchoice is not None:
                    fixed -= count_parameters(block.interchoice)
        return fixed - sum(options.values()), options


def count_parameters(*modules: nn.Module) -> int:
    """The number of weights of the modules."""
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def pooled_head(*before: nn.Module, width: int, classes: int) -> nn.Sequential:
    """Given modules, then global average pooling and a linear layer: (B, width, H, W) -> (B, classes)."""
    return nn.Sequential(*before, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def require_sizes(classes: int, **sizes: int) -> None:
    """Requires 2 or more classes, and 1 or more of everything else."""
    if classes < 2 or min(sizes.values()) < 1:
        found = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise InvalidInput(f"Expected 1 or more {', '.join(sizes)} and 2 or more classes. Got {found}, {classes=}.")


def require_gates(gates: Gates, choice: Choice) -> Tensor:
    """The weights (O,) or (B, O) that the gates have for a choice."""
    weights = gates.get(choice.name)
    if weights is None or weights.dim() not in (1, 2) or weights.shape[-1] != len(choice):
        found = "nothing" if weights is None else f"shape {tuple(weights.shape)}"
        raise InvalidInput(
            f"Expected gates ({len(choice)},) or (batch, {len(choice)}) for {choice.name!r}. Got {found}."
        )
    return weights


def mix_logits(weights: Tensor, logits: Tensor) -> Tensor:
    """sum_d weight_d logits_d, with weights (D,) or per example (B, D): (D, B, ...) -> (B, ...)."""
    return torch.einsum("d,db...->b..." if weights.dim() == 1 else "bd,db...->b...", weights.to(logits), logits)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients inside the ``with`` block; the mode of every module is restored."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
