"""Training under drawn architectures: contracts, what is drawn, and the objective."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from polyarch.data import Batch, Batches
from polyarch.distributions import Empirical
from polyarch.errors import InvalidInput
from polyarch.methods.stochastic.recipes import nsa, nsa_i, nsa_id
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, erdos_renyi, per_example_gates, wired_space
from polyarch.strategies import StochasticArchitectures, Strategy
from polyarch.supernets import NB201Supernet, WiredSupernet
from polyarch.testing import StrategyContract, random_data

SPACE = wired_space(2, 3)


def wirings() -> list[Architecture]:
    return erdos_renyi(SPACE, 4, 0.5, generator=generator_at(0, "wirings"))


def wired(*, own: bool = False, auxiliary: bool = False) -> WiredSupernet:
    return WiredSupernet(
        width=2, modules=3, stages=2, classes=3, wirings=wirings() if own else None, auxiliary=auxiliary
    )


def sgd(net: torch.nn.Module, rate: float = 0.05) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)


def batches() -> list[Batch]:
    return list(Batches(random_data((3, 8, 8)), 8).epoch(0))


class ImageContract(StrategyContract):
    def make_batches(self) -> list[Batch]:
        return batches()


class TestDrawPerBatch(ImageContract):
    def make_strategy(self) -> Strategy:
        net = wired()
        return nsa(net, wirings(), sgd(net))


class TestDrawPerExample(ImageContract):
    def make_strategy(self) -> Strategy:
        net = wired(auxiliary=True)
        return nsa_i(net, wirings(), sgd(net))


class TestDrawPerExampleWithWeightsOfWirings(ImageContract):
    def make_strategy(self) -> Strategy:
        net = wired(own=True)
        return nsa_id(net, sgd(net))


class TestDrawPerExampleInCells(ImageContract):
    def make_strategy(self) -> Strategy:
        net = NB201Supernet(channels=2, cells=1, classes=3)
        cells = [net.space.sample(generator_at(0, "cells", position)) for position in range(3)]
        return nsa_i(net, cells, sgd(net))


@pytest.mark.parametrize(("method", "weight"), [(nsa, 0.0), (nsa_i, 0.0), (nsa, 0.1), (nsa_i, 0.1)])
def test_the_loss_is_that_of_the_drawn_architectures(
    method: Callable[..., StochasticArchitectures], weight: float
) -> None:
    """Cross-entropy of the drawn wirings in training mode, and a tenth of that of the auxiliary classifier."""
    with global_seed(0, "weights"):
        net = wired(auxiliary=weight > 0)
    strategy, batch = method(net, wirings(), sgd(net, rate=0.0)), batches()[0]
    measured = strategy.step([batch], generator=generator_at(0, "step"))["loss"]
    count = 1 if method is nsa else len(batch.inputs)
    drawn = Empirical(SPACE, wirings()).sample(count, generator=generator_at(0, "step"))
    gates = per_example_gates(drawn * (len(batch.inputs) // count))
    expected = F.cross_entropy(net(batch.inputs, gates), batch.targets)
    if weight:
        expected = expected + weight * F.cross_entropy(net.with_auxiliary(batch.inputs, gates)[1], batch.targets)
    assert measured == pytest.approx(expected.item(), rel=1e-5)


def test_evaluation_is_the_expected_loss_of_one_architecture() -> None:
    """Over many draws it becomes the mean over the set, each network by itself in evaluation mode."""
    with global_seed(0, "weights"):
        net = wired()
    strategy, repeats = nsa(net, wirings(), sgd(net)), 50
    for position, batch in enumerate(batches()):
        strategy.step([batch], generator=generator_at(0, "step", position))
    x, y = batches()[0]
    often = Batch(x.repeat(repeats, 1, 1, 1), y.repeat(repeats))
    found = strategy.evaluate([often], generator=generator_at(0, "evaluate"))["loss"]
    with torch.no_grad():
        networks = [net.extract(wiring).eval() for wiring in wirings()]
        losses = torch.stack([F.cross_entropy(network(x), y, reduction="none") for network in networks])  # (S, B)
    error = (losses.var(0).mean() / len(often.targets)).sqrt().item()
    assert 1e-4 < error < 0.02
    assert found == pytest.approx(losses.mean().item(), abs=4 * error)


def test_batch_statistics_vary_less_with_a_draw_per_example() -> None:
    """Between batches of the same examples only the drawn wirings differ: var(batch mean) falls with their sharing."""
    with global_seed(0, "weights"):
        net = wired()
    x, q = torch.cat([batch.inputs for batch in batches()]), Empirical(SPACE, wirings())
    means: list[torch.Tensor] = []
    net.downs[0].register_forward_hook(lambda _, inputs, __: means.append(inputs[0].mean((0, 2, 3))))
    # In evaluation mode: a normalisation layer in training mode would take the batch mean away.
    net.eval()
    variances = {}
    with torch.no_grad():
        for draws in ("batch", "example"):
            means.clear()
            for position in range(40):
                count = 1 if draws == "batch" else len(x)
                drawn = q.sample(count, generator=generator_at(0, draws, position))
                net(x, per_example_gates(drawn * (len(x) // count)))
            variances[draws] = torch.stack(means).var(0).sum().item()
    # independent draws for 32 examples: 1/32 of the variance if all examples reacted alike
    assert variances["example"] < variances["batch"] / 8


def test_cells_are_trained_with_a_draw_per_example() -> None:
    """The loss falls, and operations see the examples that drew them, and no others."""
    with global_seed(0, "weights"):
        net = NB201Supernet(channels=4, cells=1, classes=3)
    cells = [Architecture(net.space, (2, 0, 4, 3, 1, 0)), Architecture(net.space, (1, 3, 0, 2, 3, 4))]
    images = torch.cat([batch.inputs for batch in batches()])
    strategy, batch = nsa_i(net, cells, sgd(net, 0.1)), Batch(images, images.mean((2, 3)).argmax(1))
    seen: dict[str, list[int]] = {}
    for index, operation in net.get_submodule("layers.0.edges.3.operations").named_children():  # of edge 0->3
        sizes = seen.setdefault(index, [])
        operation.register_forward_pre_hook(lambda _, inputs, sizes=sizes: sizes.append(len(inputs[0])))
    losses = [strategy.step([batch], generator=generator_at(0, "step", step))["loss"] for step in range(16)]
    assert sum(losses[-4:]) < sum(losses[:4]) / 2
    assert [sum(sizes) for sizes in zip(seen["2"], seen["3"], strict=True)] == [len(images)] * 16
    assert seen["1"] == seen["4"] == []


def test_other_spaces_and_networks_are_refused() -> None:
    net = wired()
    with pytest.raises(InvalidInput, match="Expected architectures of space 'wired2x3out'"):
        StochasticArchitectures(net, Empirical(wired_space(1, 2), list(wired_space(1, 2).enumerate())), sgd(net))
    with pytest.raises(InvalidInput, match="wirings have weights of their own"):
        nsa_id(net, sgd(net))
