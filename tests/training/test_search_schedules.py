"""What changes along a differentiable search by the position alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from polyarch.data import Batches
from polyarch.errors import InvalidInput
from polyarch.methods.differentiable.recipes import bilevel, hypergradient, mixed_supernet
from polyarch.randomness import global_seed
from polyarch.strategies import Bilevel
from polyarch.supernets import MLPSupernet
from polyarch.testing import random_data
from polyarch.training import Callback, DropoutSchedule, FitState, TemperatureAnnealing, WeightsFirst, fit


def strategy() -> Bilevel:
    with global_seed(0, "annealing"):
        net = MLPSupernet(features=4, classes=3, width=4, max_depth=2, inner_widths=(2, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    return bilevel(mixed_supernet(net, "gumbel"), optimizer, hypergradient("first_order"), q_rate=0.1)


class Watching(Callback):
    def __init__(self, one: Bilevel) -> None:
        self.one = one
        self.temperatures: list[float] = []
        self.q: list[list[float]] = []

    def on_step_end(self, state: FitState, metrics: object) -> None:
        self.temperatures.append(self.one.mixed.temperature)
        self.q.append([value for logits in self.one.q.parameters() for value in logits.tolist()])


def test_the_temperature_goes_from_start_to_end() -> None:
    one = strategy()
    watching, data = Watching(one), Batches(random_data((4,)), 8)
    fit(one, data, epochs=2, seed=0, held_out=data, callbacks=[TemperatureAnnealing(one, 2.0, 0.25), watching])
    assert watching.temperatures == pytest.approx([2.0 - 0.25 * step for step in range(8)])


def test_q_waits_for_the_weights() -> None:
    one = strategy()
    watching, data = Watching(one), Batches(random_data((4,)), 8)
    fit(one, data, epochs=2, seed=0, held_out=data, callbacks=[WeightsFirst(one, 1), watching])
    assert all(value == 0 for value in watching.q[3])
    assert any(value != 0 for value in watching.q[4])


def test_dropout_fades() -> None:
    layer, seen = nn.Dropout(0.0), []

    class Noting(Callback):
        def on_step_end(self, state: FitState, metrics: object) -> None:
            seen.append(layer.p)

    one, data = strategy(), Batches(random_data((4,)), 8)
    fading = DropoutSchedule([layer], lambda share: 0.4 * (1 - share))
    fit(one, data, epochs=1, seed=0, held_out=data, callbacks=[fading, Noting()])
    assert seen == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_temperatures_are_positive() -> None:
    with pytest.raises(InvalidInput, match="temperatures above 0"):
        TemperatureAnnealing(strategy(), 1.0, 0.0)


def test_held_out_data_are_needed_where_steps_look_at_them() -> None:
    with pytest.raises(InvalidInput, match="held-out data for Bilevel"):
        fit(strategy(), Batches(random_data((4,)), 8), epochs=1, seed=0)


def test_a_dirichlet_is_drawn_to_the_uniform_one() -> None:
    """Without any other gradient, its regulariser alone brings the concentrations back to 1."""
    with global_seed(0, "annealing"):
        net = MLPSupernet(features=4, classes=3, width=4, max_depth=2, inner_widths=(2, 3))
    one = bilevel(
        mixed_supernet(net, "dirichlet"), torch.optim.SGD(net.parameters(), lr=0.05), hypergradient("first_order")
    )
    assert one.regulariser is not None
    with torch.no_grad():
        for betas in one.q.parameters():
            betas.fill_(1.0)
    one.regulariser().backward()
    assert all((betas.grad is not None and (betas.grad != 0).all()) for betas in one.q.parameters())
