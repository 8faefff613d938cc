"""Contracts: classes of tests that every part of a kind passes, for our parts and for yours.

Inherit from one in a test file, say how your part is made, and pytest runs the rest::

    class TestMySupernet(SupernetContract):
        def make_supernet(self) -> Supernet:
            return MySupernet()

        def make_inputs(self) -> Tensor:
            return torch.randn(4, 3, 8, 8)

They are plain asserts; nothing here needs pytest itself.
"""

from polyarch.testing.bits import same_bits, state_of
from polyarch.testing.data import random_data
from polyarch.testing.distributions import DistributionContract, gates_to_architecture
from polyarch.testing.estimators import EstimatorContract
from polyarch.testing.searchers import SearcherContract
from polyarch.testing.spaces import SpaceContract
from polyarch.testing.stops import StopAt
from polyarch.testing.strategies import StrategyContract
from polyarch.testing.supernets import SupernetContract
from polyarch.testing.truths import TruthContract

__all__ = [
    "DistributionContract",
    "EstimatorContract",
    "SearcherContract",
    "SpaceContract",
    "StopAt",
    "StrategyContract",
    "SupernetContract",
    "TruthContract",
    "gates_to_architecture",
    "random_data",
    "same_bits",
    "state_of",
]
