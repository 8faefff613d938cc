"""The moment from which copies of a supernet's operations are trained apart."""

from __future__ import annotations

import copy

import torch

from polyarch.errors import InvalidInput
from polyarch.nn import ChoiceBlock, SplitCopies
from polyarch.supernets import Supernet
from polyarch.training.callbacks import Callback, Run


class SplitWeights(Callback):
    """Splits the weights of a supernet with ``InterChoice("split")`` before the first step of an epoch.

    Every copy starts with the weights, the statistics and the optimiser's state of its operation, and has its own from
    then on. Whether it has happened is part of the supernet's state, so a resumed run needs nothing else.

    Args:
        optimizer: holds all parameters of the supernet.
        epoch: N, how many epochs are trained before.
    """

    def __init__(self, net: Supernet, optimizer: torch.optim.Optimizer, *, epoch: int) -> None:
        self.net = net
        self.optimizer = optimizer
        self.epoch = epoch
        held = {parameter for group in optimizer.param_groups for parameter in group["params"]}
        missing = sum(parameter not in held for parameter in net.parameters())
        if missing:
            raise InvalidInput(f"Expected an optimiser of all parameters of the supernet. Got one without {missing}.")

    def on_start(self, run: Run) -> None:
        """Refuses an epoch that never comes."""
        if not 0 <= self.epoch < run.epochs:
            raise InvalidInput(f"Expected to split in one of epochs 0..{run.epochs - 1}. Got {self.epoch}.")

    def on_step_start(self, run: Run) -> None:
        """Splits when its step has come."""
        if run.step == self.epoch * run.steps_per_epoch:
            split_weights(self.net, self.optimizer)


def split_weights(net: Supernet, optimizer: torch.optim.Optimizer) -> None:
    """Splits the weights now, with what the optimiser knows about them."""
    for block in net.modules():
        if isinstance(block, ChoiceBlock) and isinstance(block.interchoice, SplitCopies):
            for parameter, twin in block.interchoice.split(block.operations):
                if parameter in optimizer.state:  # not if it was on no path so far
                    optimizer.state[twin] = copy.deepcopy(optimizer.state[parameter])
