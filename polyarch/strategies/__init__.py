"""Strategies: what happens in one training step."""

from polyarch.strategies.one_shot import SinglePath
from polyarch.strategies.replicated import (
    Replicated,
    ReplicatedDepths,
    ReplicatedSupervised,
    ReplicatedVariational,
    loss_name,
)
from polyarch.strategies.strategy import Loss, Stateful, Strategy, Tally
from polyarch.strategies.supervised import Supervised
from polyarch.strategies.variational import Variational

__all__ = [
    "Loss",
    "Replicated",
    "ReplicatedDepths",
    "ReplicatedSupervised",
    "ReplicatedVariational",
    "SinglePath",
    "Stateful",
    "Strategy",
    "Supervised",
    "Tally",
    "Variational",
    "loss_name",
]
