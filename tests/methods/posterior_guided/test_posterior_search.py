"""Posterior-guided search: what is learned at which rate and with which decay, and by which strategy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.data import Batches
from polyarch.distributions import DepthAndChannels, KeepDrop
from polyarch.methods.posterior_guided.search import PosteriorSearch
from polyarch.objectives import SpikeSlab
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import GuidedDepth, PosteriorGuided
from polyarch.supernets import ConvolutionalDepth, GatedDepthSupernet, GatedSupernet, gate
from polyarch.tasks import OwnTask
from polyarch.testing import random_data
from polyarch.training import Schedule, cosine, fit


def convolutions() -> GatedSupernet:
    """Two gated layers, one of them on the output of a pooling, which has no kernel."""
    layers: list[nn.Module] = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(3, 4, 3)]
    with global_seed(0, "test"):
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4, 3))
    return gate(model, torch.zeros(2, 1, 8, 8), groups={"pool": ["3"], "convolution": ["4"], "linear": ["6"]})


def tied() -> GatedSupernet:
    """Two layers with one kernel."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 3)
            self.second.weight = self.first.weight

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.second(torch.relu(self.first(torch.relu(self.stem(x)))))
            return logits

    with global_seed(0, "test"):
        return gate(Tied(), torch.zeros(2, 4))


def depths() -> GatedDepthSupernet:
    with global_seed(0, "test"):
        network = ConvolutionalDepth(classes=3, max_depth=2, channels=4, inner_channels=2)
    return GatedDepthSupernet(network, torch.zeros(2, 1, 8, 8))


NETWORKS: list[Callable[[], GatedSupernet]] = [convolutions, tied, depths]
SEARCH = PosteriorSearch(length_scale=2.0)


def groups_of(strategy: PosteriorGuided) -> list[set[Tensor]]:
    return [set(group["params"]) for group in strategy.optimizer.param_groups]


@pytest.mark.parametrize("network", NETWORKS)
def test_every_parameter_is_in_one_group(network: Callable[[], GatedSupernet]) -> None:
    net = network()
    strategy = SEARCH.strategy(net, num_data=32)
    listed = [parameter for group in strategy.optimizer.param_groups for parameter in group["params"]]
    assert len(listed) == len(set(listed))
    assert set(listed) == {*net.parameters(), *strategy.posterior.parameters()}


@pytest.mark.parametrize("network", NETWORKS)
def test_decay_and_rates(network: Callable[[], GatedSupernet]) -> None:
    """The prior is the decay of gated kernels; q has none, and learns faster."""
    net = network()
    strategy = PosteriorSearch(2.0, weight_decay=0.01, q_rate_factor=3.0).strategy(net, num_data=32)
    kernels, rest, q = strategy.optimizer.param_groups
    layers = [net.model.get_submodule(one.name) for one in net.gates if one.side == "input"]
    assert set(kernels["params"]) == {layer.get_parameter("weight") for layer in layers}
    assert set(q["params"]) == set(strategy.posterior.parameters())
    assert [group["weight_decay"] for group in (kernels, rest, q)] == [0, 0.01, 0]
    assert [group.get("rate_factor", 1.0) for group in (kernels, rest, q)] == [1.0, 1.0, 3.0]


def test_what_is_not_learned_is_in_no_group() -> None:
    net = convolutions()
    strategy = PosteriorSearch(2.0, learned=False, drop=0.35).strategy(net, num_data=32)
    assert not list(strategy.q.parameters())
    assert set().union(*groups_of(strategy)) == set(net.parameters()) and len(groups_of(strategy)) == 2
    batches = Batches(random_data((1, 8, 8)), 8)
    before = [parameter.detach().clone() for parameter in net.parameters()]
    strategy.step([next(iter(batches.epoch(0)))], generator=generator_at(0, "step"))
    torch.testing.assert_close(strategy.q.drop, torch.full((3,), 0.35))
    assert not any(new.equal(old) for new, old in zip(net.gated_kernels(), before[4::2], strict=True))


def test_a_depth_is_learned_also_where_drops_are_not() -> None:
    strategy = PosteriorSearch(2.0, learned=False).strategy(depths(), num_data=32)
    assert isinstance(strategy, GuidedDepth)
    assert groups_of(strategy)[-1] == {strategy.joint.depth.logits}


def test_the_strategy_of_plain_networks() -> None:
    """With settings where they belong, and a task of one's own."""
    task = OwnTask(lambda outputs, targets: F.cross_entropy(outputs, targets, reduction="none"), size=3)
    net = convolutions()
    search = PosteriorSearch(2.0, drop=0.25, temperature=0.7, constant_decay=0.03, learning_rate=0.2, momentum=0.5)
    strategy = search.strategy(net, num_data=77, task=task)
    assert type(strategy) is PosteriorGuided
    assert isinstance(strategy.posterior, KeepDrop) and strategy.posterior is strategy.q
    assert strategy.task is task and strategy.temperature == 0.7
    assert strategy.penalty == SpikeSlab(77, 2.0, weight_decay=0.03)
    torch.testing.assert_close(strategy.q.drop, torch.full((3,), 0.25))
    assert strategy.q.groups == ("pool", "convolution", "linear")
    kernels = strategy.optimizer.param_groups[0]
    assert (kernels["lr"], kernels["momentum"], kernels["nesterov"]) == (0.2, 0.5, True)


def test_without_momentum_there_is_none_of_nesterov() -> None:
    strategy = PosteriorSearch(2.0, momentum=0.0).strategy(convolutions(), num_data=8)
    assert [group["nesterov"] for group in strategy.optimizer.param_groups] == [False] * 3


def test_the_strategy_of_depth_networks() -> None:
    """A uniform start over depths, and a geometric prior."""
    net = depths()
    strategy = PosteriorSearch(2.0, drop=0.25, temperature=0.7, depth_ratio=0.5).strategy(net, num_data=32)
    assert isinstance(strategy, GuidedDepth) and isinstance(strategy.posterior, DepthAndChannels)
    assert strategy.temperature == 0.7 and strategy.penalty == SpikeSlab(32, 2.0)
    assert strategy.posterior.space == net.space
    torch.testing.assert_close(strategy.joint.depth.mean()["depth"], torch.full((3,), 1 / 3))
    torch.testing.assert_close(strategy.prior.mean()["depth"], torch.tensor([4.0, 2.0, 1.0]) / 7)
    torch.testing.assert_close(strategy.q.drop, torch.full((6,), 0.25))


@pytest.mark.parametrize("network", [convolutions, depths])
def test_q_moves_by_its_own_rate_under_a_schedule(network: Callable[[], GatedSupernet]) -> None:
    """A step of plain SGD: minus rate times factor times the gradient."""
    search = PosteriorSearch(2.0, learning_rate=0.01, q_rate_factor=4.0, momentum=0.0)
    strategy = search.strategy(network(), num_data=8)
    start = {name: value.detach().clone() for name, value in strategy.posterior.named_parameters()}
    schedule = Schedule(strategy.optimizer, cosine(0.01))
    fit(strategy, Batches(random_data((1, 8, 8), examples=8), 8), epochs=1, seed=0, callbacks=[schedule])
    for name, value in strategy.posterior.named_parameters():
        assert value.grad is not None and value.grad.abs().max() > 1e-4
        torch.testing.assert_close(value.detach(), start[name] - 0.04 * value.grad, rtol=1e-6, atol=1e-7)


def test_a_larger_length_scale_makes_smaller_networks() -> None:
    """The keep rate after some steps falls with d, as the page says."""
    rates = []
    for length_scale in (1.0, 10.0, 30.0):
        strategy = PosteriorSearch(length_scale, q_rate_factor=20.0).strategy(convolutions(), num_data=32)
        batches = Batches(random_data((1, 8, 8)), 16)
        fit(strategy, batches, epochs=10, seed=0, callbacks=[Schedule(strategy.optimizer, cosine(0.05))])
        rates.append(strategy.posterior.keep_rate)
    assert rates[0] > rates[1] + 0.02 > rates[2] + 0.04
