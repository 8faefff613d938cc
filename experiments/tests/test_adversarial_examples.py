"""Adversarial examples against closed forms, a loop by finite differences, and foolbox."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.objectives import log_marginal
from polyarch.predictive import Mixture
from polyarch.randomness import generator_at, global_seed
from polyarch.testing import same_bits, state_of
from polyarch_experiments.stochastic.attacks import PGD

BYTES = [(1, 2, 1), (2, 3, 1), (3, 4, 1), (8, 5, 3)]
"""Radius, steps and step size; the last ones are cut off by the ball."""


def network(seed: int = 0) -> nn.Module:
    with global_seed(seed, "network"):
        convolution = nn.Conv2d(2, 4, 3, padding=1)
        return nn.Sequential(convolution, nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3)).double().eval()


def images() -> Tensor:
    """With values at both ends of the range, where the range cuts the ball."""
    x = torch.rand(5, 2, 4, 4, dtype=torch.float64, generator=generator_at(0, "images"))
    return (1.2 * x - 0.1).clamp(0, 1)


LABELS = torch.tensor([0, 1, 2, 0, 1])


def loss(predict: nn.Module, x: Tensor) -> float:
    return nn.functional.cross_entropy(predict(x), LABELS).item()


def foolbox() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports from a name that scipy will drop
        return pytest.importorskip("foolbox")


@pytest.mark.parametrize(("radius", "steps", "step_size"), BYTES)
def test_equals_foolbox(radius: int, steps: int, step_size: int) -> None:
    library = foolbox()
    target, x = network(), images()
    model = library.PyTorchModel(target, bounds=(0, 1), device="cpu")
    attack = library.attacks.LinfPGD(abs_stepsize=step_size / 255, steps=steps, random_start=False)
    _, expected, _ = attack(model, x, LABELS, epsilons=radius / 255)
    found = PGD.in_bytes(radius, steps, step_size)(target, x, LABELS)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    assert loss(target, found) > loss(target, x)


def test_of_two_classes_that_are_linear() -> None:
    """-log p(y) = log(1 + exp(-m)), m = +-(w.x + b): every step goes against the sign of w, whatever x."""
    with global_seed(0, "linear"):
        linear = nn.Linear(6, 2).double()
    x = 0.5 + 0.1 * torch.randn(4, 6, dtype=torch.float64, generator=generator_at(0, "inputs"))
    labels = torch.tensor([0, 1, 1, 0])
    downhill = (linear.weight[1] - linear.weight[0]).sign().detach()
    sign = torch.where(labels == 0, 1.0, -1.0).double()[:, None]
    for attack, length in ((PGD(0.1, 3, 0.02), 0.06), (PGD(0.1, 3, 0.07), 0.1)):
        torch.testing.assert_close(attack(linear, x, labels), x + length * sign * downhill, rtol=0, atol=1e-15)


def test_the_direction_is_that_of_finite_differences() -> None:
    target, x, attack = network(), images(), PGD(1 / 255, 1, 1 / 255, low=-1.0, high=2.0)
    moved = attack(target, x, LABELS) - x
    for place in [(0, 0, 1, 2), (1, 1, 3, 3), (4, 0, 0, 0), (2, 1, 2, 1)]:
        nudge = torch.zeros_like(x)
        nudge[place] = 1e-6
        slope = loss(target, x + nudge) - loss(target, x - nudge)
        assert moved[place].item() == pytest.approx(math.copysign(1 / 255, slope), abs=1e-15)


def test_stays_in_ball_and_range_and_leaves_the_network_alone() -> None:
    target, x = network(), images()
    before = state_of(target)
    for generator in (None, generator_at(0, "start")):
        found = PGD.in_bytes(3, 4, 2)(target, x, LABELS, generator=generator)
        assert (found - x).abs().max() <= 3 / 255 + 1e-15
        assert found.min() >= 0 and found.max() <= 1
        assert not found.requires_grad
    assert same_bits(state_of(target), before)
    assert all(parameter.grad is None for parameter in target.parameters())


def test_works_where_gradients_are_off() -> None:
    target, x, attack = network(), images(), PGD.in_bytes(2, 3, 1)
    with torch.no_grad():
        assert same_bits(attack(target, x, LABELS), attack(target, x, LABELS))
        assert not attack(target, x, LABELS).equal(x)


def test_examples_do_not_depend_on_each_other() -> None:
    target, x, attack = network(), images(), PGD.in_bytes(8, 5, 3)
    together = attack(target, x, LABELS)
    for row in range(len(x)):
        alone = attack(target, x[row : row + 1], LABELS[row : row + 1])
        torch.testing.assert_close(alone, together[row : row + 1], rtol=0, atol=1e-15)


def test_random_starts() -> None:
    """Uniform in the ball: with steps that are next to nothing the start is what is left."""
    linear = nn.Linear(4000, 2, dtype=torch.float64)
    x = torch.full((1, 4000), 0.5, dtype=torch.float64)
    attack, labels = PGD(0.1, 1, 1e-12), torch.tensor([0])
    first, again, other = (attack(linear, x, labels, generator=generator_at(seed, "start")) for seed in (0, 0, 1))
    assert same_bits(first, again) and not first.equal(other)
    places = ((first - x) / 0.1).flatten().sort().values
    expected = torch.linspace(-1, 1, 4000, dtype=torch.float64)
    assert (places - expected).abs().max() < 2 * 1.95 / math.sqrt(4000)  # Kolmogorov-Smirnov at 0.001


def test_through_a_mixture() -> None:
    """The gradient is that of -log sum_k w_k p_k(y), not of one member or of the mean loss."""
    members, weights = [network(seed) for seed in range(3)], torch.tensor([0.5, 0.3, 0.2]).double()
    mixture, x = Mixture(members, weights, temperature=2.0).eval(), images()

    def predict(inputs: Tensor) -> Tensor:
        logits = mixture.member_outputs(inputs) / mixture.temperature
        return log_marginal(torch.log_softmax(logits, -1), mixture.weights.log())

    found = PGD.in_bytes(1, 1, 1)(predict, x, LABELS)
    leaf = x.clone().requires_grad_()
    p = torch.stack([torch.softmax(member(leaf) / 2, -1) for member in members])
    likelihood = torch.einsum("k,kbc->bc", weights, p).gather(1, LABELS[:, None])
    (gradient,) = torch.autograd.grad(-likelihood.log().sum(), leaf)
    torch.testing.assert_close(found, (x + gradient.sign() / 255).clamp(0, 1), rtol=0, atol=1e-14)
    alone = PGD.in_bytes(1, 1, 1)(members[0], x, LABELS)
    assert not torch.allclose(found, alone)


def test_log_probabilities_are_as_good_as_logits() -> None:
    target, x, attack = network(), images(), PGD.in_bytes(3, 4, 1)
    found = attack(lambda inputs: torch.log_softmax(target(inputs), -1), x, LABELS)
    torch.testing.assert_close(found, attack(target, x, LABELS), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        (images() * 255, "Expected inputs in 0..1. Got 0..255: normalisation belongs"),
        (images() - 1, r"Got -1..0"),
        (images().mul(255).byte(), "Expected floats to move. Got torch.uint8"),
        (torch.full((5, 2, 4, 4), math.nan), "Expected inputs in 0..1. Got nan"),
    ],
)
def test_inputs_that_do_not_fit(inputs: Tensor, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        PGD.in_bytes(1, 2, 1)(network(), inputs, LABELS)


def test_labels_and_outputs_that_do_not_fit() -> None:
    attack = PGD.in_bytes(1, 2, 1)
    with pytest.raises(InvalidInput, match=r"labels in 0..2. Got 0..3"):
        attack(network(), images(), torch.tensor([0, 1, 2, 3, 1]))
    with pytest.raises(InvalidInput, match=r"floats of shape \(B, C\)"):
        attack(lambda x: x, images(), LABELS)
    with pytest.raises(NotFiniteError, match="finite gradient"):
        attack(lambda x: (x - x.detach()).abs().sqrt().flatten(1), images(), LABELS)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ((0.0, 1, 0.1), "radius and a step size above 0"),
        ((0.1, 0, 0.1), "1 or more steps"),
        ((0.1, 1, -0.1), "step size above 0"),
        ((math.nan, 1, 0.1), "Got nan"),
    ],
)
def test_settings_that_do_not_fit(settings: tuple[float, int, float], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        PGD(*settings)
    with pytest.raises(InvalidInput, match="low below high"):
        PGD(0.1, 1, 0.1, low=1.0, high=1.0)
