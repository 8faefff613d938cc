"""What every training strategy can do: take one step, judge itself, and be saved."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from polyarch.data import Batch
from polyarch.errors import InvalidInput, NotFiniteError

Loss = Callable[[Tensor, Tensor], Tensor]
"""Logits (B, C) and targets (B,) -> a scalar to minimise."""


class Stateful(Protocol):
    """Something a checkpoint can keep."""

    def state_dict(self) -> dict[str, Any]:
        """Its state, made of tensors and plain values."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any:
        """Puts a state back."""


class Strategy(ABC):
    """Owns the order of what happens in one training step; knows nothing of epochs, files or schedules."""

    batches_per_step: int = 1
    held_out_per_step: int = 0
    """How many batches of held-out data a step looks at."""

    @abstractmethod
    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """One update from ``batches_per_step`` training batches; returns what was measured on the way.

        Args:
            held_out: ``held_out_per_step`` batches, or more, of which the first count.
        """

    @abstractmethod
    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Mean ``loss`` and ``accuracy`` on held-out batches; leaves all weights and statistics as they were."""

    @abstractmethod
    def parts(self) -> Mapping[str, Stateful]:
        """Everything that training changes, by name: weights, q, optimisers."""


def to_training(module: nn.Module) -> None:
    """Training mode; does nothing if it is on, as the walk over all blocks of a supernet takes 3 % of a step."""
    if not module.training:
        module.train()


def finite(loss: Tensor) -> float:
    """The value of a loss; raises if it is not finite."""
    value = loss.item()
    if not math.isfinite(value):
        raise NotFiniteError(f"Expected a finite training loss. Got {value}; try a lower learning rate.")
    return value


def minimise(loss: Tensor, optimizer: torch.optim.Optimizer) -> float:
    """One optimiser step; raises if the loss is not finite, before anything is changed.

    Gradients are set to ``None`` first: with zeros, momentum and decay would still move weights of other paths.
    """
    value = finite(loss)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return value


class Tally:
    """Running totals of loss and accuracy over batches of different sizes."""

    def __init__(self) -> None:
        self._loss = 0.0
        self._correct = 0
        self._count = 0

    def add(self, logits: Tensor, targets: Tensor) -> None:
        """Counts a batch: logits (B, C), targets (B,)."""
        self._loss += F.cross_entropy(logits, targets, reduction="sum").item()
        self._correct += int((logits.argmax(-1) == targets).sum())
        self._count += len(targets)

    def means(self) -> dict[str, float]:
        """``loss`` (nats per example) and ``accuracy``."""
        if not self._count:
            raise InvalidInput("Expected at least one batch to evaluate on. Got none.")
        return {"loss": self._loss / self._count, "accuracy": self._correct / self._count}
