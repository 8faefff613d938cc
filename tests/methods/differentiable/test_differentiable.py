"""Published differentiable searches as compositions: any gradient with any way to weigh options."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import nn

from polyarch.data import Batches
from polyarch.distributions import FactorisedCategorical, FactorisedDirichlet
from polyarch.methods.differentiable.recipes import (
    RECIPES,
    WEIGHINGS,
    DifferentiableMethod,
    GradientName,
    Parametrisation,
    bilevel,
    differentiable_search,
    hypergradient,
    mixed_supernet,
)
from polyarch.nn import OneOf
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import HeldOutLoss, LossSum, UnrolledLoss, UnrolledLossSum
from polyarch.supernets import DartsSupernet, MLPSupernet, from_module
from polyarch.testing import random_data
from polyarch.training import fit


def network() -> MLPSupernet:
    with global_seed(0, "differentiable"):
        return MLPSupernet(features=4, classes=3, width=4, max_depth=2, inner_widths=(2, 3))


def sgd(net: torch.nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)


@pytest.mark.parametrize("parametrisation", get_args(Parametrisation))
@pytest.mark.parametrize("gradient", get_args(GradientName))
def test_any_gradient_goes_with_any_parametrisation(gradient: GradientName, parametrisation: Parametrisation) -> None:
    net, data = network(), Batches(random_data((4,)), 8)
    strategy = bilevel(mixed_supernet(net, parametrisation), sgd(net), hypergradient(gradient, steps=2), q_rate=0.05)
    before = [value.detach().clone() for value in strategy.q.parameters()]
    history = fit(strategy, data, epochs=1, seed=0, held_out=data)
    assert history.last["loss"] > 0 and history.last["q_loss"] > 0
    moved = zip(before, strategy.q.parameters(), strict=True)
    assert any(not torch.equal(old, new) for old, new in moved)
    assert strategy.architecture() in net.space


@pytest.mark.parametrize(
    ("name", "gradient", "q", "weighing"),
    [
        ("darts", HeldOutLoss, FactorisedCategorical, "mean"),
        ("darts-second-order", UnrolledLoss, FactorisedCategorical, "mean"),
        ("sotl-darts", LossSum, FactorisedCategorical, "mean"),
        ("sotl-drnas", LossSum, FactorisedDirichlet, "soft"),
        ("gdas", HeldOutLoss, FactorisedCategorical, "chosen"),
        ("snas", HeldOutLoss, FactorisedCategorical, "soft"),
    ],
)
def test_methods_by_name(name: DifferentiableMethod, gradient: type, q: type, weighing: str) -> None:
    net = network()
    strategy = differentiable_search(name, net, sgd(net), steps=3)
    assert type(strategy.gradient) is gradient and type(strategy.q) is q
    assert strategy.mixed.weighing == weighing
    assert strategy.batches_per_step == (3 if gradient is LossSum else 1)


def test_every_method_has_a_name_and_a_weighing() -> None:
    assert set(get_args(DifferentiableMethod)) == set(RECIPES)
    assert {recipe.parametrisation for recipe in RECIPES.values()} <= set(WEIGHINGS)
    assert isinstance(hypergradient("sotl_exact", steps=4), UnrolledLossSum)


def test_partial_channels_weigh_the_edges_of_darts_cells() -> None:
    net = DartsSupernet(layers=3, channels=4, classes=3, operations=("skip_connect", "max_pool_3x3"), partial=2)
    strategy = differentiable_search("pc-darts", net, sgd(net))
    assert strategy.q.space["normal 4"].options == ("0", "1", "2", "3")
    assert strategy.architecture() in net.space


class Blind(nn.Module):
    """Gives away nothing of its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)


def test_q_is_learned_from_what_helps() -> None:
    """One choice, of which one option sees the input and the other does not: all gradients find it."""
    data = Batches(random_data((3,), examples=64), 16)
    for gradient in get_args(GradientName):
        with global_seed(0, "blind"):
            net = from_module(nn.Sequential(OneOf("eye", blind=Blind(), seeing=nn.Identity()), nn.Linear(3, 3)))
        strategy = bilevel(mixed_supernet(net, "softmax"), sgd(net), hypergradient(gradient, steps=2), q_rate=0.05)
        fit(strategy, data, epochs=25, seed=0, held_out=data)
        assert strategy.q.mean()["eye"][1].item() > 0.6, gradient
        assert strategy.evaluate(data.epoch(0), generator=generator_at(0, "unused"))["accuracy"] > 0.6
