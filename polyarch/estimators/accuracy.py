"""Estimators that judge an architecture with the weights it inherits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from polyarch.data import BatchSource, endless
from polyarch.errors import InvalidInput
from polyarch.estimators.estimator import Estimator
from polyarch.nn import AdaptedStatistics, NormPolicy
from polyarch.spaces import Architecture
from polyarch.strategies import Tally
from polyarch.supernets import Supernet


class ValAcc(Estimator):
    """Accuracy on the whole validation set.

    Args:
        valid: held-out batches.
        train: batches whose inputs adapt the batch statistics.
        policy: what batch normalisation uses; adapted with 20 batches by default.
    """

    name = "val_acc"
    max_batches: int | None = None

    def __init__(self, valid: BatchSource, train: BatchSource, *, policy: NormPolicy | None = None) -> None:
        self.valid = valid
        self.train = train
        self.norm_policy = policy or AdaptedStatistics()

    @property
    def policy(self) -> str:
        """The policy in words."""
        return str(self.norm_policy)

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """Correct share, 0..1."""
        network = net.extract(architecture)
        self.norm_policy.prepare(network, self._inputs())
        tally = Tally()
        with torch.no_grad():
            for inputs, targets in islice(self.valid.epoch(0), self.max_batches):
                tally.add(network(inputs), targets)
        return tally.means()["accuracy"]

    def _inputs(self) -> Iterator[Tensor]:
        return (batch.inputs for batch in endless(self.train))


class ValAccMini(ValAcc):
    """Accuracy on the first validation minibatches: cheaper and noisier."""

    name = "val_acc_mini"

    def __init__(
        self,
        valid: BatchSource,
        train: BatchSource,
        *,
        policy: NormPolicy | None = None,
        batches: int = 1,
    ) -> None:
        if batches < 1:
            raise InvalidInput(f"Expected 1 or more validation batches. Got {batches}.")
        super().__init__(valid, train, policy=policy)
        self.max_batches = batches
