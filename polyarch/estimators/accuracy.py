"""How well an architecture does on validation data with the weights it inherits from the supernet."""

from itertools import islice

from torch import nn

from polyarch.data import BatchSource, endless
from polyarch.estimators.estimator import Estimator
from polyarch.nn import AdaptedStatistics, NormPolicy
from polyarch.spaces import Architecture
from polyarch.strategies import measure
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import Supernet
from polyarch.tasks import Task


class ValAcc(Estimator):
    """The selection metric of the task, the accuracy for classes, on the whole validation set.

    Metrics to be minimised, such as the RMSE, are negated.

    Args:
        valid: held-out batches.
        train: batches whose inputs adapt the batch statistics.
        policy: which statistics batch normalisation uses; adapted on 20 batches by default.
        task: what is predicted.
    """

    name = "val_acc"
    max_batches: int | None = None

    def __init__(
        self, valid: BatchSource, train: BatchSource, *, policy: NormPolicy | None = None, task: Task = CLASSES
    ) -> None:
        self.valid = valid
        self.train = train
        self.norm_policy = policy or AdaptedStatistics()
        self.task = task

    @property
    def policy(self) -> str:
        """The batch-statistics policy in words."""
        return str(self.norm_policy)

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The metric with the inherited weights, negated if less is better."""
        return self.judge(net.extract(architecture))

    def judge(self, network: nn.Module) -> float:
        """The metric of a network, negated if less is better; changes its batch statistics and modes."""
        self.norm_policy.prepare(network, (batch.inputs for batch in endless(self.train)))
        metric = self.task.selection
        return metric.gain(measure(self.task, network, islice(self.valid.epoch(0), self.max_batches))[metric.name])


class ValAccMini(ValAcc):
    """The same on one validation minibatch: cheaper and noisier.

    It is the first batch of ``valid``, which should be shuffled: sorted data begin with examples of a single class.
    """

    name = "val_acc_mini"
    max_batches = 1
