"""The interface of training strategies: take a step, evaluate, and be saved."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Generator, Tensor, nn

from polyarch.data import Batch
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.tasks import Classification, Task

Loss = Callable[[Tensor, Tensor], Tensor]
"""Outputs (B, O) and targets (B, ...) -> a scalar to minimise."""

CLASSES = Classification()
"""The task that strategies assume unless they are given another one: classes, whatever their number."""


class Stateful(Protocol):
    """Anything a checkpoint can save and restore."""

    def state_dict(self) -> dict[str, Any]:
        """The state as tensors and plain values."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any:
        """Restores a state."""


class Strategy(ABC):
    """Defines what happens in one training step; knows nothing of epochs, files or schedules."""

    batches_per_step: int = 1
    held_out_per_step: int = 0
    """Training and held-out batches that a step uses; the last step of an epoch may have fewer training batches."""
    paths_per_step: int = 1
    """Architectures that a step trains on each of its batches, counted once for every pass."""

    @abstractmethod
    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Makes one update from up to ``batches_per_step`` training batches and returns what it measured, as means.

        Args:
            held_out: at least ``held_out_per_step`` batches; extra ones are ignored.
        """

    @abstractmethod
    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """The ``loss`` and the selection metric of the task on held-out batches; leaves all weights unchanged."""

    @abstractmethod
    def parts(self) -> Mapping[str, Stateful]:
        """Everything that training changes, by name: weights, q, optimisers."""


def to_training(module: nn.Module) -> None:
    """Switches to training mode if needed: walking over all blocks of a supernet takes 3 % of a step."""
    if not module.training:
        module.train()


def finite(loss: Tensor) -> float:
    """The value of a loss; raises `NotFiniteError` if it is NaN or infinite."""
    value = loss.item()
    if not math.isfinite(value):
        raise NotFiniteError(f"Expected a finite training loss. Got {value}; try a lower learning rate.")
    return value


def minimise(loss: Tensor, optimizer: torch.optim.Optimizer, *, clip: float | None = None) -> float:
    """Takes one optimiser step; raises `NotFiniteError` before anything changes if the loss is not finite.

    Gradients are first set to ``None``: with zeros, momentum and decay would still move the weights of other paths.

    Args:
        clip: the largest norm of all gradients together, to which longer ones are scaled.
    """
    value = finite(loss)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if clip is not None:
        nn.utils.clip_grad_norm_((weight for group in optimizer.param_groups for weight in group["params"]), clip)
    optimizer.step()
    return value


def measure(task: Task, predict: Callable[[Any], Tensor], batches: Iterable[Batch]) -> dict[str, float]:
    """The ``loss`` in nats per example and the selection metric of outputs ``predict(inputs)``, (B, ...) -> (B, O)."""
    with torch.no_grad():
        pairs = [(predict(batch.inputs), batch.targets) for batch in batches]
    if not pairs:
        raise InvalidInput("Expected at least one batch to evaluate on. Got none.")
    outputs = torch.cat([found for found, _ in pairs]).double()
    return task.scores(outputs[None], torch.cat([targets for _, targets in pairs]))
