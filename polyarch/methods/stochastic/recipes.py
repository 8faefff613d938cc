"""Networks with stochastic architectures: one set of weights trained under wirings drawn before training.

==========  ==================  =======================================================
method      a draw for every    weights of each wiring
==========  ==================  =======================================================
`nsa`       batch               none
`nsa_i`     example             none
`nsa_id`    example             coefficients of inputs, scale and shift of normalisations
==========  ==================  =======================================================

Deng, Dong, Zhang and Zhu (2020), "Understanding and Exploring the Network with Stochastic Architectures", NeurIPS.
The paper draws 5 to 50,000 wirings of three stages with eight modules (`polyarch.spaces.erdos_renyi`) and takes 5
where wirings have weights of their own; the baseline is `polyarch.spaces.residual_wiring`, trained alone.
"""

from collections.abc import Sequence
from functools import partial

import torch

from polyarch.distributions import Empirical
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture
from polyarch.strategies import DrawUnit, StochasticArchitectures
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import Supernet, WiredSupernet
from polyarch.tasks import Task


def nsa(
    net: Supernet,
    architectures: Sequence[Architecture],
    optimizer: torch.optim.Optimizer,
    *,
    draws: DrawUnit = "batch",
    task: Task = CLASSES,
) -> StochasticArchitectures:
    """One of the architectures for every batch."""
    return StochasticArchitectures(net, Empirical(net.space, architectures), optimizer, draws=draws, task=task)


nsa_i = partial(nsa, draws="example")
"""One of the architectures for every example."""


def nsa_id(net: WiredSupernet, optimizer: torch.optim.Optimizer, *, task: Task = CLASSES) -> StochasticArchitectures:
    """One of the network's own wirings for every example, with the weights of that wiring."""
    if net.wirings is None:
        raise InvalidInput("Expected a network whose wirings have weights of their own. Got one without.")
    return nsa_i(net, net.wirings, optimizer, task=task)
