"""Every strategy keeps the contract."""

from __future__ import annotations

import torch

from polyarch.data import Batch, Batches
from polyarch.distributions import Categorical, FactorisedCategorical, Uniform, geometric_prior
from polyarch.methods.differentiable.recipes import Parametrisation, bilevel, mixed_supernet
from polyarch.objectives import ExactExpectation, Expectation, SampledExpectation
from polyarch.strategies import (
    HeldOutLoss,
    Hypergradient,
    LossSum,
    OneShot,
    RandomPaths,
    Strategy,
    Supervised,
    UnrolledLoss,
    UnrolledLossSum,
    Variational,
)
from polyarch.supernets import FullyConnectedDepth, MLPSupernet, NB201Supernet
from polyarch.testing import StrategyContract, random_data


def sgd(*modules: torch.nn.Module) -> torch.optim.Optimizer:
    parameters = [parameter for module in modules for parameter in module.parameters()]
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-2)


class ImageContract(StrategyContract):
    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data((3, 8, 8)), 8).epoch(0))


class TableContract(StrategyContract):
    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data((4,)), 8).epoch(0))


class TestSinglePath(ImageContract):
    def make_strategy(self) -> Strategy:
        net = NB201Supernet(channels=2, cells=1, classes=3)
        return OneShot(net, sgd(net))


class TestSinglePathFromQ(ImageContract):
    def make_strategy(self) -> Strategy:
        net = NB201Supernet(channels=2, cells=1, classes=3, operations=("skip_connect", "nor_conv_1x1"))
        logits = {choice.name: torch.tensor([0.0, 1.0]) for choice in net.space.choices}
        q = FactorisedCategorical(net.space, logits, learnable=False)
        return OneShot(net, torch.optim.Adam(net.parameters(), lr=0.01), paths=RandomPaths(q))


class TestSupervised(ImageContract):
    def make_strategy(self) -> Strategy:
        net = NB201Supernet(channels=2, cells=1, classes=3, operations=("nor_conv_3x3",))
        network = net.extract(next(net.space.enumerate()))
        return Supervised(network, sgd(network))


class TestVariationalExact(TableContract):
    expectation: Expectation = ExactExpectation()

    def make_strategy(self) -> Strategy:
        net = FullyConnectedDepth(features=4, classes=3, max_depth=3, width=5)
        q, prior = Categorical(net.space), geometric_prior(net.space, 0.85)
        return Variational(net, q, prior, sgd(net, q), num_data=32, expectation=self.expectation)


class TestVariationalSampled(TestVariationalExact):
    expectation = SampledExpectation(3)


class TestVariationalOverCells(ImageContract):
    def make_strategy(self) -> Strategy:
        net = NB201Supernet(channels=2, cells=1, classes=3, operations=("none", "nor_conv_1x1"))
        q = FactorisedCategorical(net.space)
        return Variational(net, q, Uniform(net.space), sgd(net, q), num_data=32, expectation=SampledExpectation(2))


class TestBilevel(TableContract):
    """The other gradients and ways to weigh are compositions of the same strategy."""

    gradient: Hypergradient = HeldOutLoss()
    parametrisation: Parametrisation = "softmax"

    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data((4,), examples=96), 8).epoch(0))

    def make_strategy(self) -> Strategy:
        net = MLPSupernet(features=4, classes=3, width=4, max_depth=2, inner_widths=(2, 3))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-2)
        return bilevel(mixed_supernet(net, self.parametrisation), optimizer, self.gradient)


class TestSecondOrder(TestBilevel):
    gradient = UnrolledLoss()


class TestSecondOrderByDifferences(TestBilevel):
    gradient = UnrolledLoss(form="difference")


class TestSumOfTrainingLosses(TestBilevel):
    gradient = LossSum(3)


class TestSumWithoutRepetition(TestBilevel):
    gradient = LossSum(3, repeat=False)
    parametrisation = "dirichlet"


class TestSumOfValidationLosses(TestBilevel):
    gradient = LossSum(2, on="held_out")
    parametrisation = "gumbel"


class TestExactSum(TestBilevel):
    gradient = UnrolledLossSum(3)


class TestHardDraws(ImageContract):
    def make_strategy(self) -> Strategy:
        net = NB201Supernet(channels=2, cells=1, classes=3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        return bilevel(mixed_supernet(net, "gumbel_hard"), optimizer, HeldOutLoss())
