"""Splits the shared weights of a supernet into copies that train separately.

Laube and Zell (2021), "Inter-choice dependent super-network weights", arXiv:2104.11522.
"""

import copy

import torch

from polyarch.errors import InvalidInput
from polyarch.nn import ChoiceBlock, SplitCopies
from polyarch.supernets import Supernet
from polyarch.training.callbacks import Callback, FitState


class SplitWeights(Callback):
    """Splits the weights of a supernet with ``InterChoice("split")`` before the first step of an epoch.

    Every copy starts with the weights, statistics and optimiser state of its operation. The state of the supernet
    records the split, so that a resume needs nothing else. ``optimizer`` holds all parameters of the supernet.
    """

    def __init__(self, net: Supernet, optimizer: torch.optim.Optimizer, *, epoch: int) -> None:
        self.net = net
        self.optimizer = optimizer
        self.epoch = epoch
        held = {parameter for group in optimizer.param_groups for parameter in group["params"]}
        missing = sum(parameter not in held for parameter in net.parameters())
        if missing:
            raise InvalidInput(f"Expected an optimiser of all parameters of the supernet. Got one without {missing}.")

    def on_start(self, state: FitState) -> None:
        """Refuses an epoch beyond the end."""
        if not 0 <= self.epoch < state.epochs:
            raise InvalidInput(f"Expected to split in one of epochs 0..{state.epochs - 1}. Got {self.epoch}.")

    def on_step_start(self, state: FitState) -> None:
        """Splits at the first step of its epoch."""
        if state.step == self.epoch * state.steps_per_epoch:
            split_weights(self.net, self.optimizer)


def split_weights(net: Supernet, optimizer: torch.optim.Optimizer) -> None:
    """Splits the weights and copies their optimiser state."""
    for block in net.modules():
        if isinstance(block, ChoiceBlock) and isinstance(block.interchoice, SplitCopies):
            for parameter, twin in block.interchoice.split(block.operations):
                if parameter in optimizer.state:  # absent if no path has used it yet
                    optimizer.state[twin] = copy.deepcopy(optimizer.state[parameter])
