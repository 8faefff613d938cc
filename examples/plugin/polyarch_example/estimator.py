"""A zero-cost estimator: the norm of the gradient.

Abdelfattah, Mehrotra, Dudziak and Lane (2021), Zero-Cost Proxies for Lightweight NAS, arXiv:2101.08134.
"""

from __future__ import annotations

import math

import torch

from polyarch.errors import NotFiniteError
from polyarch.estimators import Estimator
from polyarch.nn import BatchStatistics
from polyarch.runs.scores import Scores
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


class GradientNorm(Estimator):
    """sum_w ||dL/dw||_2 over the parameter tensors w of a network, where L is the loss of one training batch.

    Args:
        scores: the data and settings of the run; the first training batch and the task are used.
    """

    name = "gradient_norm"

    def __init__(self, scores: Scores) -> None:
        self.train = scores.train
        self.task = scores.feed.task

    @property
    def policy(self) -> str:
        """The batch-statistics policy in words."""
        return str(BatchStatistics())

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The norm for the extracted network, which is a copy of its own: the supernet stays as it is."""
        network, batch = net.extract(architecture), next(self.train.epoch(0))
        BatchStatistics().prepare(network, ())  # without dropout, which would draw from the global generator
        loss = self.task.loss(network(batch.inputs), batch.targets)
        gradients = torch.autograd.grad(loss, list(network.parameters()), allow_unused=True)
        value = math.fsum(one.norm().item() for one in gradients if one is not None)
        if not math.isfinite(value):
            raise NotFiniteError(f"Expected a finite {self.name} of {architecture.key}. Got {value}.")
        return value
