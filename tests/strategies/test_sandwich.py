"""The sandwich rule: which sizes a step trains, the gradient it follows, and statistics of every size."""

from __future__ import annotations

import copy

import pytest
import torch

from polyarch.data import Batch, Batches
from polyarch.errors import InvalidInput
from polyarch.nn import ReestimatedStatistics
from polyarch.nn.norm_policies import norm_layers
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import Distilled, Sandwich, SandwichPaths, Strategy
from polyarch.supernets import ElasticMLPSupernet, MLPSupernet, MobileSupernet, ResNetSupernet, ladder
from polyarch.tasks import Classification
from polyarch.testing import StrategyContract, random_data


def net_of() -> ElasticMLPSupernet:
    return ElasticMLPSupernet(features=4, classes=3, widths=(2, 4, 6), inner_widths=(3, 5, 7), max_depth=1)


def sgd(module: torch.nn.Module, momentum: float = 0.9) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.05, momentum=momentum)


class TestSandwich(StrategyContract):
    def make_strategy(self) -> Strategy:
        net = net_of()
        return Sandwich(net, sgd(net), paths=SandwichPaths(ladder(net)))

    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data((4,)), 8).epoch(0))


class TestDistilled(TestSandwich):
    def make_strategy(self) -> Strategy:
        net = net_of()
        smallest, *_, largest = ladder(net)
        student = net.extract(smallest)
        return Distilled(student, sgd(student), teacher=net.extract(largest).eval())


def test_a_step_follows_the_sum_of_its_parts() -> None:
    """The gradient of the largest on labels, and of the others on its predictions, which are constants; float64."""
    with global_seed(0, "net"):
        net = net_of().double()
    batch = Batch(torch.randn(16, 4, dtype=torch.float64, generator=generator_at(0, "x")), torch.arange(16) % 3)
    paths, task = SandwichPaths(ladder(net), between=1), Classification()
    twin = copy.deepcopy(net)
    largest, *others = paths.draw(generator_at(0, "step", 3))
    twin.train()
    outputs = twin(batch.inputs, largest)
    losses = [torch.nn.functional.cross_entropy(outputs, batch.targets)]
    soft = outputs.detach().softmax(1)
    losses += [-(soft * twin(batch.inputs, one).log_softmax(1)).sum(1).mean() for one in others]
    gradients = torch.autograd.grad(torch.stack(losses).sum(), list(twin.parameters()), allow_unused=True)
    before = [parameter.detach().clone() for parameter in net.parameters()]
    measured = Sandwich(net, sgd(net, 0.0), paths=paths, task=task).step([batch], generator=generator_at(0, "step", 3))
    for parameter, old, gradient in zip(net.parameters(), before, gradients, strict=True):
        expected = old if gradient is None else old - 0.05 * gradient
        assert torch.allclose(parameter, expected, rtol=0, atol=1e-12)
    assert measured["loss"] == pytest.approx(float(losses[0].detach()))
    assert measured["other_loss"] == pytest.approx(sum(float(loss.detach()) for loss in losses[1:]) / len(others))


def test_the_ends_are_always_trained() -> None:
    sizes = ladder(net_of())
    paths = SandwichPaths(sizes, between=1)
    draws = [paths.draw(generator_at(0, "step", place)) for place in range(30)]
    assert all(draw[:2] == [sizes[-1], sizes[0]] and len(draw) == paths.count == 3 for draw in draws)
    assert {draw[2] for draw in draws} == set(sizes[1:-1])
    everything = SandwichPaths(sizes, between=100)
    assert set(everything.draw(generator_at(0, "step"))) == set(sizes) and everything.count == len(sizes)
    assert SandwichPaths(sizes[:1]).draw(generator_at(0, "step")) == sizes[:1]
    with pytest.raises(InvalidInput, match="1 or more sizes"):
        SandwichPaths([])
    with pytest.raises(InvalidInput, match="share of the teacher"):
        Distilled(torch.nn.Linear(1, 1), None, teacher=torch.nn.Linear(1, 1), share=2.0)  # type: ignore[arg-type]


def test_statistics_of_a_size_are_those_of_its_activations() -> None:
    """The mean over batches of every batch's mean and unbiased variance, computed by hand before the first norm."""
    with global_seed(0, "net"):
        net = net_of().double()
    network = net.extract(ladder(net)[0])
    batches = list(torch.randn(5, 8, 4, dtype=torch.float64, generator=generator_at(0, "x")))
    ReestimatedStatistics(5).prepare(network, batches)
    first = next(norm_layers(network))
    stem = next(module for module in network.modules() if isinstance(module, torch.nn.Linear))
    with torch.no_grad():
        found = [stem(batch) for batch in batches]
    assert first.running_mean is not None and first.running_var is not None
    assert torch.allclose(first.running_mean, torch.stack([one.mean(0) for one in found]).mean(0))
    assert torch.allclose(first.running_var, torch.stack([one.var(0) for one in found]).mean(0))


def test_ladders_scale_widths_and_depths() -> None:
    assert [one.names for one in ladder(net_of())] == [("2", "3"), ("4", "5"), ("6", "7")]
    deep = ladder(ResNetSupernet(widths=(4, 8, 16), max_depth=2, stages=1, kernels=(3, 5)))
    assert [(one.option("stage1.width"), one.option("stage1.depth")) for one in deep] == [
        (width, depth) for width in ("4", "8", "16") for depth in ("1", "2")
    ]
    assert {one.option("stage1.kernel") for one in deep} == {"3"}
    mobile = ladder(MobileSupernet(widths=(8, 12, 16, 24), expansions=(2, 4), max_depth=1, stages=1))
    assert [one.option("stage1.block1.expansion") for one in mobile] == ["2", "2", "4", "4"]
    assert ladder(MLPSupernet(features=4, classes=3)) == []  # its widths share no weights
