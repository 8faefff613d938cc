"""The E step of expectation maximisation over architectures.

Dempster, Laird and Rubin (1977), "Maximum Likelihood from Incomplete Data via the EM Algorithm", Journal of the Royal
Statistical Society B 39.
"""

import torch
from torch import Tensor

from polyarch.data import BatchSource
from polyarch.distributions import ArchDistribution, Categorical
from polyarch.errors import InvalidInput
from polyarch.objectives import log_posterior
from polyarch.randomness import global_seed
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import Supernet
from polyarch.tasks import Task
from polyarch.training.callbacks import Callback, FitState


class ExpectationStep(Callback):
    """Sets q to its optimum for the current weights at the start of every epoch, after a share of the epochs.

    q(a) = softmax_a( sum_n log p(y_n | x_n, a) + log prior(a) ), over the whole training set, with batch statistics as
    in training; the running averages do not change. The following epoch of weight updates is the M step.

    Until then q is the prior. Under untrained weights the posterior excludes every option that is slightly worse than
    the rest, and an excluded option never learns: with E steps from the start, the first choice would be final.

    Args:
        q: a distribution that no optimiser updates.
        train: all training examples, in order and not augmented.
        after: the share of the epochs before the first E step, from 0 to 1.
    """

    def __init__(
        self,
        net: Supernet,
        q: Categorical,
        prior: ArchDistribution,
        train: BatchSource,
        *,
        after: float,
        task: Task = CLASSES,
    ) -> None:
        if not 0 <= after <= 1:
            raise InvalidInput(f"Expected the first E step after a share of the epochs in 0..1. Got {after}.")
        self.net = net
        self.q = q
        self.prior = prior
        self.train = train
        self.after = after
        self.task = task

    def on_step_start(self, state: FitState) -> None:
        """Takes an E step at the first step of an epoch."""
        if state.step == 0:
            with torch.no_grad():
                self.q.logits.copy_(self.prior.log_prob(self.q.architectures))
        if state.step % state.steps_per_epoch == 0 and state.epoch >= self.after * state.epochs:
            with global_seed(state.step, "expectation step"):  # for random layers, e.g. dropout
                self.apply()

    @torch.no_grad()
    def apply(self) -> None:
        """Takes one E step."""
        self.q.logits.copy_(exact_log_posterior(self.net, self.prior, self.train, self.task))


@torch.no_grad()
def exact_log_posterior(net: Supernet, prior: ArchDistribution, train: BatchSource, task: Task = CLASSES) -> Tensor:
    """log softmax_a( sum_n log p(y_n | x_n, a) + log prior(a) ) for the weights as they are: (A,), in float64.

    One pass over the training set, with batch statistics as in training, so that it maximises the very bound that was
    trained; the running averages of ``net`` do not change.

    Args:
        prior: over the architectures of ``net.space.members``.
        train: all training examples, in order and not augmented.
    """
    net.train()
    before = {name: buffer.clone() for name, buffer in net.named_buffers()}
    architectures = net.space.members
    log_prior = prior.log_prob(architectures).double()
    totals = torch.zeros_like(log_prior)
    for inputs, targets in train.epoch(0):
        values = task.log_likelihood(net.forward_many(inputs, architectures), targets)  # (A, B)
        totals += values.double().sum(-1)
    for name, buffer in net.named_buffers():
        buffer.copy_(before[name])
    return log_posterior(totals, log_prior)
