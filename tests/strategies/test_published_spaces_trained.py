"""Strategies and estimators keep their contracts on the supernets of published spaces."""

from __future__ import annotations

import pytest
import torch

from polyarch.data import Batch, Batches
from polyarch.errors import InvalidInput
from polyarch.estimators import Estimator, ValAcc
from polyarch.nn import AdaptedStatistics
from polyarch.randomness import generator_at
from polyarch.spaces import darts_space, nb101_space
from polyarch.strategies import FairPaths, OneShot, Strategy
from polyarch.supernets import MacroSupernet, NB101Supernet, Supernet
from polyarch.testing import EstimatorContract, StrategyContract, random_data

TRAIN = Batches(random_data((1, 6, 6)), 8)


def sgd(net: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)


class TestSinglePathOverNodes(StrategyContract):
    def make_strategy(self) -> Strategy:
        net = NB101Supernet(1, channels=2, cells=1, in_channels=1, classes=3)
        return OneShot(net, sgd(net))

    def make_batches(self) -> list[Batch]:
        return list(TRAIN.epoch(0))


class TestValAccOfMacro(EstimatorContract):
    def make_supernet(self) -> Supernet:
        return MacroSupernet(channels=2, head_channels=4, in_channels=1, classes=3)

    def make_estimator(self) -> Estimator:
        return ValAcc(TRAIN, TRAIN, policy=AdaptedStatistics(1))


def test_fair_paths_through_darts_share_the_wiring_and_use_every_operation_once() -> None:
    space = darts_space()
    paths = FairPaths(space).draw(generator_at(0, "paths"))
    assert len(paths) == 7
    for choice in space.choices:
        taken = [path[choice.name] for path in paths]
        assert len(set(taken)) == 1 if choice.kind == "wiring" else sorted(taken) == list(range(7))


def test_fair_paths_are_not_defined_for_operations_on_nodes() -> None:
    with pytest.raises(InvalidInput, match="operations on nodes"):
        FairPaths(nb101_space(1))
