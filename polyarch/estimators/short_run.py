"""The short training run from inherited weights that all estimators of training speed share.

See `polyarch.estimators.training_speed` for the papers.
"""

import copy
import io
import math
from dataclasses import KW_ONLY, dataclass
from itertools import islice

import torch
from torch import Tensor, nn

from polyarch.data import Batch, BatchSource, endless
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators.accuracy import ValAcc
from polyarch.nn import BatchStatistics
from polyarch.nn.norm_policies import norm_layers
from polyarch.randomness import derive_seed, generator_at, seed_global
from polyarch.spaces import Architecture
from polyarch.strategies import Supervised
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import Supernet
from polyarch.tasks import Task


@dataclass(frozen=True)
class Trace:
    """The course of a short run of T steps, w_{t+1} = SGD step from w_t, with gradients g_t."""

    losses: tuple[float, ...]  # (T,) the loss of training minibatch t at w_t, before step t
    valid_losses: tuple[float, ...] | None = None  # (T,) the loss of validation minibatch t at w_t
    gradient_sum: float | None = None  # sum over coordinates of |sum_t g_t|
    gradient_norm: float | None = None  # sum_t ||g_t||_1
    final_score: float | None = None  # the validation metric at w_{T+1}, after the last step


@dataclass(frozen=True)
class ShortRun:
    """Trains an extracted copy of an architecture for a few steps of SGD, from the weights it inherits.

    All architectures see the same batches in the same order. Training losses are taken in training mode, validation
    losses with the statistics of the validation minibatch and without dropout; the latter do not affect the run.

    Args:
        train: the training batches, from the start of epoch 0.
        steps: T.
        learning_rate: of SGD; the thesis uses 0.01 after single-path training.
        valid: if given, one of these batches is evaluated before every step.
        gradients: whether to accumulate gradients, for `SoG` and `SoGN`.
        judge: if given, judges the network after the last step, for `ValAccAfter`.
        task: what is predicted, and by which loss.
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
    judge: ValAcc | None = None
    task: Task = CLASSES

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InvalidInput(f"Expected 1 or more training steps. Got {self.steps}.")

    def trace(self, net: Supernet, architecture: Architecture) -> Trace:
        """The trace of the whole run; raises `NotFiniteError` if a loss is NaN or infinite."""
        ongoing = OngoingRun(self, net, architecture)
        ongoing.advance(self.steps)
        return ongoing.trace()


class OngoingRun:
    """A short run in progress: it can stop after any step and resume in another process with the same bits."""

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
        """Takes steps until ``until`` of them are done."""
        start = len(self.losses)
        train = islice(endless(self.run.train, start=start), until - start)
        valid = endless(self.run.valid, start=start) if self.run.valid is not None else None
        strategy = Supervised(self.network, self.optimizer, task=self.run.task)
        generator = generator_at(self.run.seed, "score", self.key)
        with torch.random.fork_rng():
            for step, batch in enumerate(train, start):
                if valid is not None:
                    self.valid_losses.append(self._valid_loss(next(valid), step))
                seed_global(derive_seed(self.run.seed, "score", self.key, step))  # dropout inside the network
                try:
                    self.losses.append(strategy.step([batch], generator=generator)["loss"])
                except NotFiniteError:
                    raise self._diverged("training", step) from None
                if self.run.gradients:
                    self._add_gradients()

    def trace(self) -> Trace:
        """The trace of the steps so far."""
        valid_losses = None if self.run.valid is None else tuple(self.valid_losses)
        gradient_sum = gradient_norm = final_score = None
        if self.run.gradients:
            gradient_sum = math.fsum(total.abs().sum().item() for total in self._gradients.values())
            gradient_norm = self._gradient_norm
        if self.run.judge is not None:
            final_score = self.run.judge.judge(copy.deepcopy(self.network))  # the run may go on
        return Trace(tuple(self.losses), valid_losses, gradient_sum, gradient_norm, final_score)

    def state(self) -> bytes:
        """Weights, statistics, momentum and losses, to resume from in another process."""
        if self.run.valid is not None or self.run.gradients:
            raise InvalidInput("Expected a run that records training losses only. Got one that records more.")
        parts = {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict(), "losses": self.losses}
        stream = io.BytesIO()
        torch.save(parts, stream)
        return stream.getvalue()

    def load(self, state: bytes) -> None:
        """Resumes from a `state`."""
        content = torch.load(io.BytesIO(state), weights_only=True)
        self.network.load_state_dict(content["network"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.losses = content["losses"]

    def _valid_loss(self, batch: Batch, step: int) -> float:
        """The loss with the statistics of the batch; running statistics stay unchanged."""
        BatchStatistics().prepare(self.network, ())
        tracking = {layer: layer.track_running_stats for layer in norm_layers(self.network)}
        for layer in tracking:
            layer.track_running_stats = False  # torch then neither reads nor writes them in training mode
        with torch.no_grad():
            loss = self.run.task.loss(self.network(batch.inputs), batch.targets).item()
        for layer, tracked in tracking.items():
            layer.track_running_stats = tracked
        self.network.train()
        if not math.isfinite(loss):
            raise self._diverged("validation", step)
        return loss

    def _diverged(self, kind: str, step: int) -> NotFiniteError:
        return NotFiniteError(
            f"Expected a finite {kind} loss in the short run of {self.key}. Got NaN or infinity at step {step + 1}."
        )

    def _add_gradients(self) -> None:
        """Adds the gradients of the last step: SGD leaves them in ``.grad``, without the weight decay."""
        for parameter in self.network.parameters():
            gradient = parameter.grad
            if gradient is not None:
                self._gradient_norm += gradient.abs().sum().item()
                if parameter in self._gradients:
                    self._gradients[parameter] += gradient
                else:
                    self._gradients[parameter] = gradient.clone()
