"""Contracts: test classes that every implementation of an interface passes, ours and yours.

Inherit from one in a test file, define how to make your part, and pytest runs the rest::

    class TestMySupernet(SupernetContract):
        def make_supernet(self) -> Supernet:
            return MySupernet()

        def make_inputs(self) -> Tensor:
            return torch.randn(4, 3, 8, 8)

The contracts consist of plain asserts and do not import pytest.
"""

from polyarch.testing.distributions import DistributionContract
from polyarch.testing.estimators import EstimatorContract
from polyarch.testing.searchers import SearcherContract
from polyarch.testing.spaces import SpaceContract
from polyarch.testing.strategies import StrategyContract
from polyarch.testing.supernets import HardPathContract, SupernetContract
from polyarch.testing.tasks import TaskContract
from polyarch.testing.tools import StopAt, random_data, same_bits, state_of
from polyarch.testing.truths import TruthContract

__all__ = [
    "DistributionContract", "EstimatorContract", "HardPathContract", "SearcherContract", "SpaceContract", "StopAt",
    "StrategyContract", "SupernetContract", "TaskContract", "TruthContract", "random_data", "same_bits", "state_of",
]  # fmt: skip
