"""Measurements of a differentiable search along the way."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from polyarch.data import Batch
from polyarch.distributions import ArchDistribution
from polyarch.errors import InvalidInput
from polyarch.nn import BatchStatistics
from polyarch.objectives import dominant_eigenvalue
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, cell_depths, operation_count, skip_count
from polyarch.supernets import Supernet
from polyarch.training.callbacks import Callback, FitState, Row


@runtime_checkable
class SearchingStrategy(Protocol):
    """A strategy that searches while it trains: it updates a distribution q over relaxed choices."""

    @property
    def net(self) -> Supernet:
        """The supernet whose weights all architectures share."""

    @property
    def q(self) -> ArchDistribution:
        """The distribution over relaxed choices, which may differ from those of ``net.space``."""

    def architecture(self) -> Architecture:
        """The current choice of the search, in ``net.space``."""

    def relaxed_loss(self, batch: Batch) -> Tensor:
        """The scalar loss under the mean gates of q, twice differentiable in the parameters of q."""


class SearchDiagnostics(Callback):
    """Adds the current choice of the search, and how certain q is, to every epoch's row.

    - ``skips`` and ``skip_share``: the number of chosen skips, and their share of the chosen operations
    - ``cell_depth``, or ``cell_depth_normal`` and ``cell_depth_reduce``: see `cell_depths`; only in spaces of cells
    - ``entropy`` and ``entropy_share``: H[q] in nats, and as a share of its maximum, the log of the number of
      remaining combinations
    - ``eigenvalue``: the largest eigenvalue of the Hessian of the loss on ``held_out`` in the parameters of q, with
      batch statistics and without dropout; weights, statistics and gradients do not change
    - ``true_accuracy``: of the chosen architecture, in percent, if ``truth`` knows it

    Place it before callbacks that read these values or write rows elsewhere. ``architectures`` holds the key of the
    choice after each epoch, ``marginals`` the option probabilities of every choice: choice -> (O,).

    Args:
        held_out: the batches of all eigenvalues, whose graphs are in memory at the same time; without batches there is
            no eigenvalue. A search that optimises training losses takes training batches.
        every: the number of epochs between two eigenvalues, each of which takes ``steps`` double backward passes.
        truth: the true accuracy of an architecture in percent, None if it is unknown.
        seed: of the start vector of the power iteration.
    """

    def __init__(
        self,
        held_out: Sequence[Batch] = (),
        *,
        every: int = 1,
        steps: int = 20,
        truth: Callable[[Architecture], float | None] | None = None,
        seed: int = 0,
    ) -> None:
        if every < 1:
            raise InvalidInput(f"Expected an eigenvalue every 1 or more epochs. Got every {every}.")
        self.held_out = list(held_out)
        self.every = every
        self.steps = steps
        self.truth = truth
        self.seed = seed
        self.architectures: list[str] = []
        self.marginals: list[dict[str, list[float]]] = []

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        """Adds the measurements to the row, which is already in the history."""
        strategy = state.strategy
        if not isinstance(strategy, SearchingStrategy):
            raise InvalidInput(f"Expected a strategy that searches while it trains. Got {type(strategy).__name__}.")
        architecture = strategy.architecture()
        row |= measured_shape(architecture)
        row["entropy"] = strategy.q.entropy().item()
        marginals = {choice: gates.tolist() for choice, gates in strategy.q.mean().items()}
        left = sum(math.log(sum(value > 0 for value in values)) for values in marginals.values())
        row["entropy_share"] = row["entropy"] / (left or 1.0)
        if self.held_out and (row["epoch"] + 1) % self.every == 0:
            row["eigenvalue"] = self._eigenvalue(strategy)
        accuracy = self.truth(architecture) if self.truth else None
        if accuracy is not None:
            row["true_accuracy"] = accuracy
        self.architectures.append(architecture.key)
        self.marginals.append(marginals)

    def state_dict(self) -> dict[str, Any]:
        """The architectures and marginals of all epochs; the rows keep the rest."""
        return {"architectures": self.architectures, "marginals": self.marginals}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what ``state_dict`` returned."""
        self.architectures, self.marginals = state["architectures"], state["marginals"]

    def _eigenvalue(self, strategy: SearchingStrategy) -> float:
        """The dominant eigenvalue of the mean loss over all held-out examples."""
        examples = sum(len(batch.targets) for batch in self.held_out)

        def share(batch: Batch) -> Tensor:
            with global_seed(self.seed, "curvature"):  # the same dropout every time
                return strategy.relaxed_loss(batch) * (len(batch.targets) / examples)

        parameters = [parameter for parameter in strategy.q.parameters() if parameter.requires_grad]
        with _restored(strategy.net):
            BatchStatistics().prepare(strategy.net, ())
            generator = generator_at(self.seed, "curvature")
            losses = [partial(share, batch) for batch in self.held_out]
            return dominant_eigenvalue(losses, parameters, steps=self.steps, generator=generator)


def measured_shape(architecture: Architecture) -> Row:
    """``skips``, ``skip_share`` and the ``cell_depth`` of an architecture, or of each of its cells."""
    skips = float(skip_count(architecture))
    depths = {
        "cell_depth" if cell == "cell" else f"cell_depth_{cell}": float(depth)
        for cell, depth in cell_depths(architecture).items()
    }
    return {"skips": skips, "skip_share": skips / max(operation_count(architecture), 1), **depths}


@contextmanager
def _restored(net: nn.Module) -> Iterator[None]:
    """Restores the modes and buffers of all modules at the end."""
    modes = {module: module.training for module in net.modules()}
    buffers = {buffer: buffer.clone() for buffer in net.buffers()}
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
        with torch.no_grad():
            for buffer, value in buffers.items():
                buffer.copy_(value)
