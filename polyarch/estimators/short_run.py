"""Estimators that train an architecture for a few steps from inherited weights."""

from __future__ import annotations

from itertools import islice
from typing import ClassVar

import torch

from polyarch.data import BatchSource, endless
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators.estimator import Estimator, require_finite
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.strategies import Supervised
from polyarch.supernets import Supernet


class SoTL(Estimator):
    """Minus the sum over training losses of a short run from inherited weights: how fast it learns.

    score = -sum_{t=1..T} loss(w_t, batch_t), w_{t+1} = SGD step from w_t. All architectures see the same batches in
    the same order. The run takes place on an extracted copy, with batch statistics (training mode).

    Args:
        train: the batches, from the start of its epoch 0.
        steps: T.
        learning_rate: of SGD; the documents use 0.01 after single-path training.
    """

    name: ClassVar[str] = "sotl"

    def __init__(
        self,
        train: BatchSource,
        *,
        steps: int = 100,
        learning_rate: float = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        if steps < 1:
            raise InvalidInput(f"Expected 1 or more training steps. Got {steps}.")
        self.train = train
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.seed = seed

    @property
    def policy(self) -> str:
        """Losses are taken in training mode."""
        return "batch"

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """Minus the sum of T losses, in nats."""
        network = net.extract(architecture)
        optimizer = torch.optim.SGD(
            network.parameters(),
            lr=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )
        run = Supervised(network, optimizer)
        generator = generator_at(self.seed, "score", architecture.key)
        total = 0.0
        with global_seed(self.seed, "score", architecture.key):  # dropout inside the network
            for batch in islice(endless(self.train), self.steps):
                try:
                    total += run.step([batch], generator=generator)["loss"]
                except NotFiniteError:
                    total = float("nan")
                    break
        return require_finite(-total, self, architecture)
