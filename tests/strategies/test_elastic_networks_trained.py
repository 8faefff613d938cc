"""Every strategy trains an elastic network, or says in one sentence why it cannot."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from polyarch.data import Batch, Batches
from polyarch.distributions import Empirical, FactorisedCategorical, Uniform
from polyarch.errors import InvalidInput
from polyarch.estimators import Estimator, ShortRun, SoTL
from polyarch.methods.differentiable.recipes import Parametrisation, bilevel, mixed_supernet
from polyarch.methods.one_shot.strategies import fairnas, meta_prox, multi_path, reptile
from polyarch.nn import ElasticConv2d
from polyarch.objectives import SampledExpectation
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.strategies import (
    DrawUnit,
    FairPaths,
    HeldOutLoss,
    Hypergradient,
    LossSum,
    OneShot,
    StochasticArchitectures,
    Strategy,
    Supervised,
    UnrolledLoss,
    UnrolledLossSum,
    Variational,
)
from polyarch.supernets import MobileSupernet, ResNetSupernet, Supernet
from polyarch.testing import EstimatorContract, StrategyContract, random_data

SHAPE = (1, 6, 6)
TRAIN = Batches(random_data(SHAPE, examples=64), 8)


def resnet(stages: int = 2) -> ResNetSupernet:
    return ResNetSupernet(in_channels=1, classes=3, widths=(2, 3), max_depth=2, stages=stages)


def sgd(*modules: nn.Module) -> torch.optim.SGD:
    parameters = [parameter for module in modules for parameter in module.parameters()]
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-2)


class ElasticContract(StrategyContract):
    def make_batches(self) -> list[Batch]:
        return list(TRAIN.epoch(0))


class TestSinglePath(ElasticContract):
    def make_strategy(self) -> Strategy:
        net = resnet()
        return OneShot(net, sgd(net))


@pytest.mark.slow
class TestSinglePathOfMobile(ElasticContract):
    def make_strategy(self) -> Strategy:
        net = MobileSupernet(in_channels=1, classes=3, widths=(4, 6), max_depth=2, stages=1, head_channels=4)
        return OneShot(net, sgd(net))


class TestFair(ElasticContract):
    def make_strategy(self) -> Strategy:
        net = resnet()
        return fairnas(net, sgd(net))


@pytest.mark.slow
class TestMultiPath(ElasticContract):
    def make_strategy(self) -> Strategy:
        net = resnet()
        return multi_path(net, sgd(net), count=2)


@pytest.mark.slow
class TestReptile(ElasticContract):
    def make_strategy(self) -> Strategy:
        net = resnet()
        return reptile(net, sgd(net), steps=2)


@pytest.mark.slow
class TestMetaProx(ElasticContract):
    def make_strategy(self) -> Strategy:
        net = resnet()
        return meta_prox(net, sgd(net), steps=2)


class TestVariationalSampled(ElasticContract):
    def make_strategy(self) -> Strategy:
        net = resnet(stages=1)
        q = FactorisedCategorical(net.space)
        return Variational(net, q, Uniform(net.space), sgd(net, q), num_data=64, expectation=SampledExpectation(2))


class TestBilevel(ElasticContract):
    gradient: Hypergradient = HeldOutLoss()
    parametrisation: Parametrisation = "softmax"

    def make_strategy(self) -> Strategy:
        net = resnet()
        return bilevel(mixed_supernet(net, self.parametrisation), sgd(net), self.gradient)


class TestSecondOrder(TestBilevel):
    gradient = UnrolledLoss()


@pytest.mark.slow
class TestSumOfTrainingLosses(TestBilevel):
    gradient = LossSum(2)
    parametrisation = "dirichlet"


@pytest.mark.slow
class TestExactSum(TestBilevel):
    gradient = UnrolledLossSum(2)


@pytest.mark.slow
class TestHardDraws(TestBilevel):
    parametrisation = "gumbel_hard"


class TestStochasticPerExample(ElasticContract):
    draws: DrawUnit = "example"

    def make_strategy(self) -> Strategy:
        net = resnet()
        architectures = [net.space.sample(generator_at(0, "set", position)) for position in range(4)]
        return StochasticArchitectures(net, Empirical(net.space, architectures), sgd(net), draws=self.draws)


@pytest.mark.slow
class TestStochasticPerBatch(TestStochasticPerExample):
    draws = "batch"


@pytest.mark.slow
class TestSupervised(ElasticContract):
    def make_strategy(self) -> Strategy:
        net = resnet()
        network = net.extract(net.space.sample(generator_at(0, "architecture")))
        return Supervised(network, sgd(network))


@pytest.mark.slow
class TestSoTL(EstimatorContract):
    def make_supernet(self) -> Supernet:
        return resnet()

    def make_estimator(self) -> Estimator:
        return SoTL(ShortRun(TRAIN, steps=3))


def test_a_step_moves_only_the_slices_of_its_path() -> None:
    """Without momentum and decay, which also move weights whose gradient is zero."""
    with global_seed(0, "net"):
        net = resnet()
    narrow = Architecture(net.space, (0,) * len(net.space.choices))
    before = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    (batch, *_) = TRAIN.epoch(0)
    nn.functional.cross_entropy(net(batch.inputs, narrow), batch.targets).backward()
    optimizer.step()
    for name, layer in net.named_modules():
        if isinstance(layer, ElasticConv2d):
            moved: Tensor = layer.weight.detach() != before.get_parameter(f"{name}.weight")
            outputs, inputs, size, _ = layer.shapes(dict.fromkeys(net.space.choice_names, 0))["weight"]
            used = torch.zeros_like(moved)
            margin = (layer.weight.shape[-1] - size) // 2
            used[:outputs, :inputs, margin : margin + size, margin : margin + size] = True
            assert not (moved & ~used).any()
            assert moved.any() == (layer.weight.grad is not None)


def test_fair_paths_need_equally_many_options() -> None:
    with pytest.raises(InvalidInput, match="equally many options"):
        FairPaths(ResNetSupernet().space)
