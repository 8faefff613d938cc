"""Validation accuracy of an architecture with the weights it inherits from the supernet."""

from itertools import islice

from polyarch.data import BatchSource, endless
from polyarch.estimators.estimator import Estimator
from polyarch.nn import AdaptedStatistics, NormPolicy
from polyarch.spaces import Architecture
from polyarch.strategies import measure
from polyarch.supernets import Supernet


class ValAcc(Estimator):
    """Accuracy on the whole validation set.

    Args:
        valid: held-out batches.
        train: batches whose inputs adapt the batch statistics.
        policy: which statistics batch normalisation uses; adapted on 20 batches by default.
    """

    name = "val_acc"
    max_batches: int | None = None

    def __init__(self, valid: BatchSource, train: BatchSource, *, policy: NormPolicy | None = None) -> None:
        self.valid = valid
        self.train = train
        self.norm_policy = policy or AdaptedStatistics()

    @property
    def policy(self) -> str:
        """The batch-statistics policy in words."""
        return str(self.norm_policy)

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The share of correct predictions, 0..1."""
        network = net.extract(architecture)
        self.norm_policy.prepare(network, (batch.inputs for batch in endless(self.train)))
        return measure(network, islice(self.valid.epoch(0), self.max_batches))["accuracy"]


class ValAccMini(ValAcc):
    """Accuracy on the first validation minibatch: cheaper and noisier."""

    name = "val_acc_mini"
    max_batches = 1
