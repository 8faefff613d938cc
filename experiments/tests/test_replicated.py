"""Trainings side by side do what each does alone: steps, evaluations and, in float64, whole runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

from polyarch.data import Batch, Batches
from polyarch.distributions import Categorical
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.methods.depth.search import DepthSearch, Prior, depth_prior
from polyarch.objectives import marginal_log_probabilities
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import Strategy, Supervised, Variational, measure
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import FullyConnectedDepth
from polyarch.testing import StrategyContract, random_data
from polyarch_experiments.depth.fixed_depth import FixedDepth
from polyarch_experiments.depth.replicas import FullyConnectedReplicas
from polyarch_experiments.depth.replicated import (
    Replicated,
    ReplicatedDepths,
    ReplicatedSupervised,
    ReplicatedVariational,
    loss_name,
)
from polyarch_experiments.depth.side_by_side import search_together, train_together
from polyarch_experiments.depth.stacked_batches import StackedBatches

REPLICAS = 3
assert_close = partial(torch.testing.assert_close, rtol=1e-7, atol=1e-9)
"""Of float64 values after tens of steps; training amplifies the rounding of a sum in another order."""


def network(seed: int) -> FullyConnectedDepth:
    with global_seed(seed, "net"):
        return FullyConnectedDepth(features=4, classes=3, max_depth=3, width=5).double()


def source(seed: int, batch_size: int = 24) -> Batches:
    """Of its own data, in its own order; full batches in the given one."""
    data = random_data((4,), examples=24, seed=seed)
    return Batches(data, batch_size, seed=seed, shuffle=batch_size < 24, preprocessing=Tensor.double)


def networks() -> list[FullyConnectedDepth]:
    return [network(seed) for seed in range(REPLICAS)]


def stacked() -> list[Batch]:
    return list(StackedBatches([source(seed, 6) for seed in range(REPLICAS)]).epoch(0))


def sgd(*modules: torch.nn.Module) -> torch.optim.SGD:
    parameters = [parameter for module in modules for parameter in module.parameters()]
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-2)


def replicated_variational(nets: Sequence[FullyConnectedDepth]) -> tuple[ReplicatedVariational, ReplicatedDepths]:
    together = FullyConnectedReplicas(nets)
    log_prior = depth_prior(nets[0].space).to(together.weight).log_probabilities()
    q = ReplicatedDepths(together.replicas, log_prior)
    with torch.no_grad():
        q.logits.normal_(generator=generator_at(0, "q"))
    return ReplicatedVariational(together, q, sgd(together, q), num_data=24), q


def replicated_supervised(nets: Sequence[FullyConnectedDepth]) -> ReplicatedSupervised:
    together = FullyConnectedReplicas(nets)
    return ReplicatedSupervised(together, sgd(together))


class TestVariationalContract(StrategyContract):
    def make_strategy(self) -> Strategy:
        return replicated_variational(networks())[0]

    def make_batches(self) -> list[Batch]:
        return stacked()


class TestSupervisedContract(StrategyContract):
    def make_strategy(self) -> Strategy:
        return replicated_supervised(networks())

    def make_batches(self) -> list[Batch]:
        return stacked()


def variational_alone(net: FullyConnectedDepth, logits: Tensor) -> Variational:
    q, prior = Categorical(net.space, logits), depth_prior(net.space).double()
    return Variational(net, q, prior, sgd(net, q), num_data=24)


def same_weights(first: torch.nn.Module, second: torch.nn.Module) -> None:
    """Weights and running averages; how many batches the averages have seen is not counted for replicas."""
    others = second.state_dict()
    for name, value in first.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            assert_close(value, others[name], msg=name)


def test_variational_steps_are_those_of_each_alone() -> None:
    strategy, q = replicated_variational(networks())
    alone = [variational_alone(net, q.logits[0, replica]) for replica, net in enumerate(networks())]
    for batch in stacked():
        measured = strategy.step([batch], generator=generator_at(0, "unused"))
        losses = []
        for replica, one in enumerate(alone):
            part = Batch(batch.inputs[replica], batch.targets[replica])
            losses.append(one.step([part], generator=generator_at(0, "unused"))["loss"])
        assert [measured[loss_name(replica)] for replica in range(REPLICAS)] == pytest.approx(losses, rel=1e-11)
        assert measured["loss"] == pytest.approx(sum(losses) / REPLICAS, rel=1e-11)
        assert len(measured) == REPLICAS + 1
    for replica, (net, one) in enumerate(zip(strategy.net.split(), alone, strict=True)):
        same_weights(net, one.net)
        assert isinstance(one.q, Categorical)
        assert_close(q.logits[0, replica].detach(), one.q.logits.detach())
        assert_close(q.log_probabilities()[replica], one.q.log_probabilities())


def test_supervised_steps_are_those_of_each_alone() -> None:
    strategy = replicated_supervised(networks())
    plain = [net.extract(net.space.members[-1]) for net in networks()]
    alone = [Supervised(one, sgd(one)) for one in plain]
    for batch in stacked():
        measured = strategy.step([batch], generator=generator_at(0, "unused"))
        for replica, one in enumerate(alone):
            part = Batch(batch.inputs[replica], batch.targets[replica])
            loss = one.step([part], generator=generator_at(0, "unused"))["loss"]
            assert measured[loss_name(replica)] == pytest.approx(loss, rel=1e-11)
    for net, network_alone in zip(strategy.net.split(), plain, strict=True):
        same_weights(network_alone, net)


def test_evaluation_is_the_mean_over_replicas() -> None:
    variational, q = replicated_variational(networks())
    supervised = replicated_supervised(networks())
    mixtures, full = list[Batch](), list[Batch]()
    with torch.no_grad():
        for batch in stacked():
            for replica, net in enumerate(networks()):
                net.eval()
                inputs, targets = batch.inputs[replica], batch.targets[replica]
                alone = Categorical(net.space, q.logits[0, replica])
                mixtures.append(Batch(marginal_log_probabilities(net, alone, inputs), targets))
                full.append(Batch(net(inputs, net.space.members[-1]), targets))
    for strategy, logits in ((variational, mixtures), (supervised, full)):
        measured = strategy.evaluate(stacked(), generator=generator_at(0, "unused"))
        assert measured == pytest.approx(measure(CLASSES, lambda x: x, logits), rel=1e-11)


@pytest.mark.parametrize("make", [lambda nets: replicated_variational(nets)[0], replicated_supervised])
def test_one_loss_that_is_not_finite_names_all(make: Callable[..., Replicated]) -> None:
    strategy = make(networks())
    batch = stacked()[0]
    batch.inputs[1] = math.nan
    with pytest.raises(NotFiniteError, match=r"finite training losses. Got \[\d.*, nan, \d.*\]; try a lower"):
        strategy.step([batch], generator=generator_at(0, "unused"))


SEARCHES = {
    "full batches": (DepthSearch(epochs=40, patience=2, learning_rate=0.2, momentum=0.9), 24),
    "minibatches": (DepthSearch(epochs=12, patience=3, learning_rate=0.1), 8),
    "a falling rate": (DepthSearch(epochs=10, drop_after=4, learning_rate=0.2, weight_decay=0.01), 8),
}


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("prior", ["geometric", "uniform", (1, 2, 3, 4)], ids=str)
def test_learned_depths_together_and_alone(kind: str, prior: Prior) -> None:
    """Weights, q, running averages, histories and the epoch each stops at, on a data set for each."""
    found, batch_size = SEARCHES[kind]
    search = DepthSearch(**{**vars(found), "prior": prior})
    nets, sources = networks(), [source(seed, batch_size) for seed in range(REPLICAS)]
    together = search_together(search, nets, sources, seed=0)
    for net, untouched in zip(nets, networks(), strict=True):
        same_weights(net, untouched)
    lengths = set()
    for (net, q, history), other, one in zip(together, networks(), sources, strict=True):
        other_q, other_history = search.fit(other, one, seed=0)
        assert len(history.rows) == len(other_history.rows)
        for name in ("epoch", "step", "loss", "elbo"):
            assert history[name] == pytest.approx(other_history[name], rel=1e-7), name
        same_weights(net, other)
        assert_close(q.logits, other_q.logits)
        assert q.space == net.space and q.logits.dtype == torch.float64
        lengths.add(len(history.rows))
    if kind == "full batches":
        assert len(lengths) > 1 and min(lengths) < search.epochs  # they stop at different epochs


@pytest.mark.parametrize(("patience", "batch_size", "rate"), [(1, 24, 0.3), (1, 8, 0.3), (100, 8, 0.01)])
def test_fixed_depths_together_and_alone(patience: int, batch_size: int, rate: float) -> None:
    training = FixedDepth(epochs=25, patience=patience, learning_rate=rate)
    sources = [source(seed, batch_size) for seed in range(REPLICAS)]
    together = train_together(training, networks(), sources, seed=0)
    lengths = set()
    for (net, history), other, one in zip(together, networks(), sources, strict=True):
        plain, other_history = training.fit(other, one, seed=0)
        same_weights(plain, net)
        assert len(history.rows) == len(other_history.rows)
        for name in ("epoch", "step", "loss"):
            assert history[name] == pytest.approx(other_history[name], rel=1e-7), name
        lengths.add(len(history.rows))
    assert (min(lengths) < training.epochs) == (patience == 1)


def test_closed_form_updates_are_not_for_networks_side_by_side() -> None:
    with pytest.raises(InvalidInput, match=r"updates by the gradient for networks side by side. Got 'em'"):
        search_together(DepthSearch(epochs=1, updates="em"), networks(), [source(0)] * REPLICAS, seed=0)
