"""Strategies, estimators and worker processes work on a network of one's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from polyarch.data import Batch, Batches
from polyarch.distributions import FactorisedCategorical, Uniform
from polyarch.estimators import Estimator, Latency, MACs, Parameters, Score, Scoring, ShortRun, SoTL, ValAcc
from polyarch.executors import Processes
from polyarch.nn import AdaptedStatistics, Maybe, OneOf, Repeat
from polyarch.objectives import SampledExpectation
from polyarch.randomness import global_seed
from polyarch.strategies import OneShot, Strategy, Variational
from polyarch.supernets import ModuleSupernet, Supernet, from_module
from polyarch.testing import EstimatorContract, StrategyContract, random_data, same_bits

SHAPE = (3, 8, 8)
TRAIN = Batches(random_data(SHAPE, examples=24), 8)
VALID = Batches(random_data(SHAPE, examples=20, seed=1), 8, shuffle=False)


def conv(inputs: int, outputs: int, kernel: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.BatchNorm2d(outputs), nn.ReLU())


class Network(nn.Module):
    """Small, with all kinds of block and one inside another."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = OneOf("stem", conv1=conv(3, 4, 1), conv3=conv(3, 4, 3))
        self.body = Repeat("depth", [conv(4, 4, 3), Maybe("second", conv(4, 4, 1))])
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(self.stem(x)))
        return logits


def supernet() -> ModuleSupernet:
    return from_module(Network(), torch.zeros(2, *SHAPE))


class ImageContract(StrategyContract):
    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data(SHAPE), 8).epoch(0))


class TestSinglePath(ImageContract):
    def make_strategy(self) -> Strategy:
        net = supernet()
        return OneShot(net, torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-2))


class TestVariational(ImageContract):
    def make_strategy(self) -> Strategy:
        net = supernet()
        q = FactorisedCategorical(net.space)
        optimizer = torch.optim.SGD([*net.parameters(), *q.parameters()], lr=0.05, momentum=0.9)
        return Variational(net, q, Uniform(net.space), optimizer, num_data=32, expectation=SampledExpectation(2))


class OwnContract(EstimatorContract):
    def make_supernet(self) -> Supernet:
        return supernet()


class TestValAcc(OwnContract):
    def make_estimator(self) -> Estimator:
        return ValAcc(VALID, TRAIN, policy=AdaptedStatistics(2))


class TestSoTL(OwnContract):
    def make_estimator(self) -> Estimator:
        return SoTL(ShortRun(TRAIN, steps=4, weight_decay=1e-3))


class TestParameters(OwnContract):
    def make_estimator(self) -> Estimator:
        return Parameters()


class TestMACs(OwnContract):
    def make_estimator(self) -> Estimator:
        return MACs(SHAPE)


class TestLatency(OwnContract):
    deterministic = False

    def make_estimator(self) -> Estimator:
        return Latency(SHAPE, batch_size=2, rounds=3)


def test_costs_by_hand() -> None:
    net = supernet()
    architecture = net.space.architecture({"stem": "conv3", "depth": "2", "second": "on"})
    pixels = SHAPE[1] * SHAPE[2]
    assert MACs(SHAPE).score(net, architecture) == pixels * (3 * 4 * 9 + 4 * 4 * 9 + 4 * 4) + 4 * 3
    weights = (3 * 4 * 9 + 4) + (4 * 4 * 9 + 4) + (4 * 4 + 4) + 3 * 2 * 4 + (4 * 3 + 3)
    assert Parameters().score(net, architecture) == weights
    assert Parameters().score(net, architecture.replace(second="off")) == weights - (4 * 4 + 4) - 2 * 4


def test_worker_processes_score_it() -> None:
    """The supernet and its space go to spawned processes; made of torch's classes only, which they can import."""
    with global_seed(0, "net"):
        inner = OneOf("inner", tanh=nn.Tanh(), norm=nn.BatchNorm1d(4))
        model = nn.Sequential(
            nn.Flatten(), nn.Linear(192, 4), Maybe("maybe", inner), Repeat("depth", [nn.Linear(4, 4)] * 2)
        )
    net = from_module(model, torch.zeros(2, *SHAPE))
    task = Scoring(
        net, [ValAcc(VALID, TRAIN, policy=AdaptedStatistics(1)), Parameters(), SoTL(ShortRun(TRAIN, steps=2))]
    )
    architectures = list(net.space.enumerate())
    with Processes(1).open(task) as run:
        found = dict(run(architectures))
    for position, architecture in enumerate(architectures):
        scores, expected = found[position], task(architecture)
        assert isinstance(scores, list) and isinstance(expected, list)
        assert all(isinstance(score, Score) for score in scores)
        assert same_bits([score.value for score in scores], [score.value for score in expected])
