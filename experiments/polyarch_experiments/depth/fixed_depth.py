"""Deterministic-depth networks, the baseline of a learned depth: one training from scratch for every depth."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from polyarch.data import BatchSource
from polyarch.methods.depth.search import DepthTraining
from polyarch.strategies import Supervised
from polyarch.supernets import DepthSupernet
from polyarch.training import CheckpointStore, History


@dataclass(frozen=True)
class FixedDepth(DepthTraining):
    """Trains networks of a given depth by the protocol of the learned depth, without heads in between."""

    def fit(
        self,
        net: DepthSupernet,
        train: BatchSource,
        valid: BatchSource | None = None,
        *,
        seed: int,
        checkpoints: CheckpointStore | None = None,
    ) -> tuple[nn.Module, History]:
        """The network of full depth of ``net``, trained on its own weights, and what was measured."""
        network = net.extract(net.space.members[-1])
        optimizer = self.optimizer(network)
        strategy = Supervised(network, optimizer)
        history = self.run(strategy, optimizer, train, valid, seed=seed, checkpoints=checkpoints)
        return network, history
