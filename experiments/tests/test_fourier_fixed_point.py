"""Where searches for a degree come to rest: the closed form against searches in float64 on orthogonal features."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from polyarch.methods.differentiable.tuning import Tuner
from polyarch.objectives import InnerSGD
from polyarch_experiments.training_speed.fourier import RegressionData
from polyarch_experiments.training_speed.fourier_degree import FOURIER_DEGREE
from polyarch_experiments.training_speed.fourier_fixed_point import fixed_point, pull
from polyarch_experiments.training_speed.fourier_search import gated_loss

LARGEST = 9
DECAYS = {"decay": 0.4, "weight_decay": 0.04}


def data(degree: int) -> RegressionData:
    """Features of mean square 1 and without any correlation, all of them in one batch."""
    features = math.sqrt(LARGEST + 1) * torch.eye(LARGEST + 1, dtype=torch.float64)
    return RegressionData(features, features[:, : degree + 1].sum(1))


def tuner_at(maximum: float, weights: Tensor, *, decay: float, weight_decay: float, outer_rate: float = 0.01) -> Tuner:
    return Tuner(
        gated_loss,
        {"w": weights},
        {"max_degree": torch.tensor(maximum, dtype=torch.float64)},
        InnerSGD(0.01, weight_decay=weight_decay),
        outer=partial(torch.optim.SGD, lr=outer_rate, weight_decay=decay),
        clip=float("inf"),
    )


def weights_at_rest(maximum: float, degree: int, weight_decay: float) -> Tensor:
    gates = (torch.tanh(maximum - torch.arange(LARGEST + 1, dtype=torch.float64)) + 1) / 2
    return 2 * gates / (2 * gates**2 + weight_decay) * (torch.arange(LARGEST + 1) <= degree)


@given(
    st.floats(-1, 6), st.integers(0, 4), st.floats(0.001, 0.5), st.integers(1, 12), st.booleans(), st.floats(0.001, 0.1)
)
def test_the_pull_is_the_gradient_through_the_steps(
    maximum: float, degree: int, weight_decay: float, steps: int, validation: bool, rate: float
) -> None:
    tuner = tuner_at(maximum, weights_at_rest(maximum, degree, weight_decay), decay=0.0, weight_decay=weight_decay)
    tuner.inner = InnerSGD(rate, weight_decay=weight_decay)
    batch = data(degree)
    block = tuner.block([batch] * steps, batch if validation else None)
    expected = pull(maximum, degree, weight_decay=weight_decay, rate=rate, steps=steps, validation=validation)
    assert -block.gradient["max_degree"].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("degree", [0, 3, 8])
@pytest.mark.parametrize(("steps", "validation"), [(2, False), (25, False), (2, True)])
def test_a_search_at_its_fixed_point_stays_there(degree: int, steps: int, validation: bool) -> None:
    rest = fixed_point(degree, rate=0.01, steps=steps, validation=validation, **DECAYS)
    weights = weights_at_rest(rest, degree, DECAYS["weight_decay"])
    tuner = tuner_at(rest, weights, **DECAYS)
    batch = data(degree)
    tuner.run([batch] * (4 * steps), steps, [batch] * 4 if validation else None)
    assert tuner.settings["max_degree"].item() == pytest.approx(rest, abs=1e-9)
    assert torch.allclose(tuner.weights["w"], weights, atol=1e-9)


@pytest.mark.parametrize("start", [-1.0, 6.0])
def test_searches_from_both_sides_come_to_rest_there(start: float) -> None:
    """With an outer rate of five times that of the experiment, to be quick."""
    rest = fixed_point(3, rate=0.01, steps=25, **DECAYS)
    tuner = tuner_at(start, torch.zeros(LARGEST + 1, dtype=torch.float64), outer_rate=0.05, **DECAYS)
    tuner.run([data(3)] * 4000, 25)
    assert tuner.settings["max_degree"].item() == pytest.approx(rest, abs=0.01)


def test_without_decay_of_the_weights_nothing_holds_the_degree() -> None:
    """The weights make up for any gate, and the degree decays as it would alone."""
    tuner = tuner_at(2.4, weights_at_rest(2.4, 3, 0.0), decay=0.4, weight_decay=0.0)
    block = tuner.block([data(3)] * 25)
    assert block.gradient["max_degree"].item() == pytest.approx(0, abs=1e-12)
    assert tuner.settings["max_degree"].item() == pytest.approx(2.4 * (1 - 0.01 * 0.4))
    assert fixed_point(3, decay=0.4, weight_decay=0.0, rate=0.01, steps=25) == 0
    assert fixed_point(3, decay=0.4, weight_decay=1e-4, rate=0.01, steps=25) < 2.5


@pytest.mark.parametrize("preset", ["cpu", "paper"])
def test_the_decays_of_the_presets_find_degrees_from_0_to_8(preset: str) -> None:
    settings = FOURIER_DEGREE.presets[preset]
    kept = {name: settings[name] for name in ("decay", "weight_decay", "rate")}
    for degree in range(9):
        assert math.floor(fixed_point(degree, steps=settings["unroll"], **kept)) == degree
