"""A zero-cost estimator: synaptic flow.

Tanaka, Kunin, Yamins and Ganguli (2020), Pruning neural networks without any data by iteratively conserving synaptic
flow, arXiv:2006.05467; as a proxy for architectures: Abdelfattah et al. (2021), Zero-Cost Proxies for Lightweight NAS,
arXiv:2101.08134.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from polyarch.errors import NotFiniteError
from polyarch.estimators import Estimator
from polyarch.runs.scores import Scores
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


class SynFlow(Estimator):
    """log of sum_w |w| dR/d|w|, where R is the sum of outputs for an input of ones and weights |w|.

    Args:
        scores: the data and settings of the run; only the shape of an example is used.
    """

    name = "synflow"

    def __init__(self, scores: Scores) -> None:
        self.input_shape = scores.input_shape

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The flow of the extracted network, which is a copy of its own: the supernet stays as it is."""
        network = net.extract(architecture).double().eval()
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.reset_running_stats()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.abs_()
        network(torch.ones(1, *self.input_shape, dtype=torch.float64)).sum().backward()
        flows = [(one * one.grad).sum() for one in network.parameters() if one.grad is not None]
        value = float(torch.stack(flows).sum().log())
        if not math.isfinite(value):
            raise NotFiniteError(f"Expected a finite {self.name} of {architecture.key}. Got {value}.")
        return value
