"""What a differentiable search is doing, measured along its way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from polyarch.data import Batch
from polyarch.distributions import ArchDistribution
from polyarch.errors import InvalidInput
from polyarch.nn import BatchStatistics
from polyarch.objectives import dominant_eigenvalue
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, cell_depths, operation_count, skip_count
from polyarch.supernets import Supernet
from polyarch.training.callbacks import Callback, Row, Run


@runtime_checkable
class Searching(Protocol):
    """A strategy that searches while it trains: it moves a distribution q over relaxed choices."""

    @property
    def net(self) -> Supernet:
        """The weights that all architectures share."""

    @property
    def q(self) -> ArchDistribution:
        """Over the relaxed choices, which may be others than those of ``net.space``."""

    def architecture(self) -> Architecture:
        """What the search would choose now, in ``net.space``."""

    def relaxed_loss(self, batch: Batch) -> Tensor:
        """The scalar loss with the mean gates of q, twice differentiable in its parameters."""


class SearchDiagnostics(Callback):
    """Adds to every epoch's row what the search would choose now, and how sure of it q is.

    - ``skips`` and ``skip_share``: chosen skips, and their share of the chosen operations
    - ``cell_depth``, or ``cell_depth_normal`` and ``cell_depth_reduce``: see `cell_depths`; only where there are cells
    - ``entropy`` and ``entropy_share``: H[q] in nats, and over its maximum, the log of the number of combinations
      that are left
    - ``eigenvalue``: the largest of the Hessian of the loss on ``held_out`` in the parameters of q, with batch
      statistics and without dropout; weights, statistics and gradients stay as they are
    - ``true_accuracy``: of the chosen architecture, in percent, where a table knows it

    Comes before callbacks that read these values or write rows elsewhere.

    Args:
        held_out: always the same batches; the graphs of all of them are in memory at once. Without any there is no
            eigenvalue. For a search that optimises training losses, take training batches.
        every: how many epochs there are from one eigenvalue to the next; it costs ``steps`` double backward passes.
        truth: the true accuracy of an architecture in percent, None where it is not known.
        seed: of the start vector of the eigenvalue.

    ``architectures`` are the keys of what would have been chosen after each epoch, ``marginals`` the probabilities of
    the options of every choice: choice -> (O,).
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

    def on_epoch_end(self, run: Run, row: Row) -> None:
        """Adds to the row, which is already in the history."""
        strategy = run.strategy
        if not isinstance(strategy, Searching):
            raise InvalidInput(f"Expected a strategy that searches while it trains. Got {type(strategy).__name__}.")
        architecture = strategy.architecture()
        row["skips"] = float(skip_count(architecture))
        row["skip_share"] = row["skips"] / max(operation_count(architecture), 1)
        for cell, depth in cell_depths(architecture).items():
            row["cell_depth" if cell == "cell" else f"cell_depth_{cell}"] = float(depth)
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
        """Architectures and marginals of the epochs so far; the rows keep the rest."""
        return {"architectures": self.architectures, "marginals": self.marginals}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts them back."""
        self.architectures, self.marginals = state["architectures"], state["marginals"]

    def _eigenvalue(self, strategy: Searching) -> float:
        """Of the mean over all held-out examples."""
        sizes = [len(batch.targets) for batch in self.held_out]

        def loss() -> Tensor:
            losses = [strategy.relaxed_loss(batch) * size for batch, size in zip(self.held_out, sizes, strict=True)]
            return torch.stack(losses).sum() / sum(sizes)

        parameters = [parameter for parameter in strategy.q.parameters() if parameter.requires_grad]
        with _as_it_was(strategy.net):
            BatchStatistics().prepare(strategy.net, ())
            generator = generator_at(self.seed, "curvature")
            return dominant_eigenvalue(loss, parameters, steps=self.steps, generator=generator)


@contextmanager
def _as_it_was(net: nn.Module) -> Iterator[None]:
    """Puts the modes and buffers of all modules back at the end."""
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
