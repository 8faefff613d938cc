"""The short training run from inherited weights that all estimators of training speed share."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.data import Batch, BatchSource, endless
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators.trace import Trace
from polyarch.nn import BatchStatistics
from polyarch.nn.norm_policies import norm_layers
from polyarch.randomness import derive_seed, generator_at, seed_global
from polyarch.spaces import Architecture
from polyarch.strategies import Supervised
from polyarch.supernets import Supernet


@dataclass(frozen=True)
class ShortRun:
    """Trains an architecture alone for a few steps of SGD, from the weights it inherits, on an extracted copy.

    All architectures see the same batches in the same order. Training losses are taken in training mode, validation
    losses with the statistics of the validation minibatch and without dropout; they change nothing in the run.

    Args:
        train: the batches, from the start of its epoch 0.
        steps: T.
        learning_rate: of SGD; the documents use 0.01 after single-path training.
        valid: batches of which one is judged before every step.
        gradients: also sum up gradients, for `SoG` and `SoGN`.
    """

    train: BatchSource
    _: KW_ONLY
    steps: int = 100
    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    seed: int = 0
    valid: BatchSource | None = None
    gradients: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InvalidInput(f"Expected 1 or more training steps. Got {self.steps}.")

    def run(self, net: Supernet, architecture: Architecture) -> Trace:
        """The whole run; raises `NotFiniteError` when a loss is NaN or infinite."""
        running = OngoingRun(self, net, architecture)
        running.advance(self.steps)
        return running.trace()


class OngoingRun:
    """A short run under way: it can stop after any step and go on elsewhere with the same bits."""

    def __init__(self, run: ShortRun, net: Supernet, architecture: Architecture) -> None:
        self.run = run
        self.key = architecture.key
        self.network = net.extract(architecture)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(),
            lr=run.learning_rate,
            momentum=run.momentum,
            weight_decay=run.weight_decay,
            foreach=True,
        )
        self.losses: list[float] = []
        self.valid_losses: list[float] = []
        self._gradients: dict[nn.Parameter, Tensor] = {}
        self._gradient_norm = 0.0

    def advance(self, until: int) -> None:
        """Takes steps until there are so many."""
        start = len(self.losses)
        train = islice(endless(self.run.train, start=start), until - start)
        valid = endless(self.run.valid, start=start) if self.run.valid is not None else None
        strategy = Supervised(self.network, self.optimizer)
        generator = generator_at(self.run.seed, "score", self.key)
        with torch.random.fork_rng():
            for step, batch in enumerate(train, start):
                if valid is not None:
                    self.valid_losses.append(self._judge(next(valid), step))
                seed_global(derive_seed(self.run.seed, "score", self.key, step))  # dropout inside the network
                try:
                    self.losses.append(strategy.step([batch], generator=generator)["loss"])
                except NotFiniteError:
                    raise self._diverged("training", step) from None
                if self.run.gradients:
                    self._add_gradients()

    def trace(self) -> Trace:
        """What there is so far."""
        return Trace(
            losses=tuple(self.losses),
            valid_losses=None if self.run.valid is None else tuple(self.valid_losses),
            gradient_sum=self._gradient_sum() if self.run.gradients else None,
            gradient_norm=self._gradient_norm if self.run.gradients else None,
        )

    def state(self) -> bytes:
        """Weights, statistics, momentum and losses, to go on with in another process."""
        if self.run.valid is not None or self.run.gradients:
            raise InvalidInput("Expected a run of training losses alone to be moved. Got one with more.")
        content = {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "losses": self.losses,
        }
        stream = io.BytesIO()
        torch.save(content, stream)
        return stream.getvalue()

    def load(self, state: bytes) -> None:
        """Goes back to a `state`."""
        content = torch.load(io.BytesIO(state), weights_only=True)
        self.network.load_state_dict(content["network"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.losses = content["losses"]

    def _judge(self, batch: Batch, step: int) -> float:
        with torch.no_grad(), _batch_statistics(self.network):
            loss = F.cross_entropy(self.network(batch.inputs), batch.targets).item()
        if not math.isfinite(loss):
            raise self._diverged("validation", step)
        return loss

    def _diverged(self, kind: str, step: int) -> NotFiniteError:
        return NotFiniteError(
            f"Expected a finite {kind} loss in the short run of {self.key}. Got NaN or infinity at step {step + 1}."
        )

    def _add_gradients(self) -> None:
        """SGD leaves them where the backward pass put them, without the weight decay."""
        for parameter in self.network.parameters():
            gradient = parameter.grad
            if gradient is not None:
                self._gradient_norm += gradient.abs().sum().item()
                if parameter in self._gradients:
                    self._gradients[parameter] += gradient
                else:
                    self._gradients[parameter] = gradient.clone()

    def _gradient_sum(self) -> float:
        return math.fsum(total.abs().sum().item() for total in self._gradients.values())


@contextmanager
def _batch_statistics(network: nn.Module) -> Iterator[None]:
    """The statistics of the batch inside the block, with the running ones left alone."""
    BatchStatistics().prepare(network, ())
    tracking = {layer: layer.track_running_stats for layer in norm_layers(network)}
    for layer in tracking:
        layer.track_running_stats = False  # torch then neither reads nor writes them in training mode
    yield
    for layer, tracked in tracking.items():
        layer.track_running_stats = tracked
    network.train()
