"""Gradients through training against central differences and closed forms, in float64."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.data import Batch
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.objectives import InnerSGD, Tensors, direct_gradient, module_loss, unrolled_gradient
from polyarch.randomness import generator_at, global_seed

Values = dict[str, Tensor]


def loss(weights: Tensors, settings: Tensors, batch: Any) -> Tensor:
    """A network of one hidden layer whose units are gated by a setting, with a penalty that is a setting too."""
    inputs: Tensor = batch[0]
    targets: Tensor = batch[1]
    hidden = torch.tanh(inputs @ weights["first"]) * torch.sigmoid(settings["gates"])
    error = ((hidden @ weights["second"] - targets) ** 2).mean()
    return error + settings["penalty"] * (weights["second"] ** 2).sum()


def draw(*shape: int, name: str) -> Tensor:
    return torch.randn(shape, generator=generator_at(0, name), dtype=torch.float64)


def problem(steps: int) -> tuple[Values, Values, list[tuple[Tensor, Tensor]]]:
    weights = {"first": draw(3, 4, name="first"), "second": draw(4, name="second")}
    settings = {
        "gates": draw(4, name="gates"),
        "penalty": torch.tensor(0.1, dtype=torch.float64),
        "rate": torch.tensor(0.08, dtype=torch.float64),
    }
    return weights, settings, [(draw(6, 3, name=f"x{t}"), draw(6, name=f"y{t}")) for t in range(steps)]


def after_training(weights: Tensors, settings: Tensors) -> Tensor:
    return loss(weights, settings, (draw(5, 3, name="valid x"), draw(5, name="valid y")))


def trained(optimiser: InnerSGD, weights: Values, settings: Values, batches: list[Any]) -> tuple[Values, list[float]]:
    """The same run by torch's own optimiser."""
    leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    rate = settings[optimiser.rate].item() if isinstance(optimiser.rate, str) else optimiser.rate
    sgd = torch.optim.SGD(leaves.values(), lr=rate, momentum=optimiser.momentum, weight_decay=optimiser.weight_decay)
    losses = []
    for batch in batches:
        value = loss(leaves, settings, batch)
        losses.append(value.item())
        sgd.zero_grad()
        value.backward()
        sgd.step()
    return {name: leaf.detach() for name, leaf in leaves.items()}, losses


def central_differences(objective: Callable[[Values], float], settings: Values, step: float = 1e-5) -> Values:
    gradient = {name: torch.zeros_like(value) for name, value in settings.items()}
    for name, value in settings.items():
        for index in range(value.numel()):
            sides = []
            for sign in (1, -1):
                moved = value.clone()
                moved.view(-1)[index] += sign * step
                sides.append(objective({**settings, name: moved}))
            gradient[name].view(-1)[index] = (sides[0] - sides[1]) / (2 * step)
    return gradient


OPTIMISERS = [
    InnerSGD(0.08),
    InnerSGD("rate"),
    InnerSGD(0.08, momentum=0.9, weight_decay=0.05),
    InnerSGD("rate", momentum=0.9, weight_decay=0.05),
]


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=str)
@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("final", [False, True])
def test_exact_gradients_equal_central_differences(optimiser: InnerSGD, steps: int, final: bool) -> None:
    weights, settings, batches = problem(steps)

    def objective(moved: Values) -> float:
        reached, losses = trained(optimiser, weights, moved, batches)
        return after_training(reached, moved).item() if final else sum(losses)

    found = unrolled_gradient(loss, weights, settings, batches, optimiser, final_loss=after_training if final else None)
    expected = central_differences(objective, settings)
    for name in settings:
        assert torch.allclose(found.gradient[name], expected[name], rtol=1e-6, atol=1e-8), name


@pytest.mark.parametrize("gradient", [unrolled_gradient, direct_gradient])
def test_the_run_is_the_one_of_torch(gradient: Callable[..., Any]) -> None:
    weights, settings, batches = problem(5)
    optimiser = InnerSGD("rate", momentum=0.9, weight_decay=0.05)
    found = gradient(loss, weights, settings, batches, optimiser)
    reached, losses = trained(optimiser, weights, settings, batches)
    assert found.losses == pytest.approx(losses, rel=1e-12)
    for name in weights:
        assert torch.allclose(found.weights[name], reached[name], rtol=1e-12)
        assert not found.weights[name].requires_grad
    assert all(not part.requires_grad for part in found.gradient.values())


def test_a_run_goes_on_from_its_velocity() -> None:
    weights, settings, batches = problem(6)
    optimiser = InnerSGD(0.08, momentum=0.9)
    half = unrolled_gradient(loss, weights, settings, batches[:3], optimiser)
    rest = unrolled_gradient(loss, half.weights, settings, batches[3:], optimiser, velocity=half.velocity)
    whole = unrolled_gradient(loss, weights, settings, batches, optimiser)
    assert half.losses + rest.losses == pytest.approx(whole.losses, rel=1e-12)
    assert torch.allclose(rest.velocity["first"], whole.velocity["first"], rtol=1e-10)


@pytest.mark.parametrize("final", [None, after_training], ids=["sum", "final"])
@pytest.mark.parametrize("segment", [1, 2, 3, 7, 100])
def test_segments_change_nothing(segment: int, final: Any) -> None:
    weights, settings, batches = problem(7)
    optimiser = InnerSGD("rate", momentum=0.9, weight_decay=0.05)
    one = unrolled_gradient(loss, weights, settings, batches, optimiser, final_loss=final, segment=7)
    other = unrolled_gradient(loss, weights, settings, batches, optimiser, final_loss=final, segment=segment)
    assert one.losses == pytest.approx(other.losses, rel=1e-12)
    for name in settings:
        assert torch.allclose(one.gradient[name], other.gradient[name], rtol=1e-9, atol=1e-12)


def test_one_step_equals_the_second_order_formula() -> None:
    """grad_a Lval(w') - eta grad2_{a,w} Ltrain . grad_w' Lval(w'), with the mixed derivative written out."""
    weights, settings, batches = problem(1)
    eta = 0.08
    leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    gates = settings["gates"].clone().requires_grad_()
    train = loss(leaves, {**settings, "gates": gates}, batches[0])
    slopes = torch.autograd.grad(train, list(leaves.values()), create_graph=True)
    pairs = zip(leaves, slopes, strict=True)
    stepped = {name: (leaves[name] - eta * slope).detach().requires_grad_() for name, slope in pairs}
    direct_gates = settings["gates"].clone().requires_grad_()
    value = after_training(stepped, {**settings, "gates": direct_gates})
    *by_weights, direct = torch.autograd.grad(value, [*stepped.values(), direct_gates])
    flat = torch.cat([slope.reshape(-1) for slope in slopes])
    mixed = torch.stack([torch.autograd.grad(entry, gates, retain_graph=True)[0] for entry in flat])  # (weights, gates)
    expected = direct - eta * torch.cat([slope.reshape(-1) for slope in by_weights]) @ mixed
    found = unrolled_gradient(loss, weights, settings, batches, InnerSGD(eta), final_loss=after_training)
    assert torch.allclose(found.gradient["gates"], expected, rtol=1e-10)


def test_the_direct_gradient_holds_the_weights_fixed() -> None:
    weights, settings, batches = problem(4)
    optimiser = InnerSGD("rate", momentum=0.5)
    found = direct_gradient(loss, weights, settings, batches, optimiser)
    points = [trained(optimiser, weights, settings, batches[:t])[0] for t in range(4)]

    def objective(moved: Values) -> float:
        return sum(loss(point, moved, batch).item() for point, batch in zip(points, batches, strict=True))

    expected = central_differences(objective, settings)
    for name in settings:
        assert torch.allclose(found.gradient[name], expected[name], rtol=1e-6, atol=1e-8)
    assert found.gradient["rate"] == 0

    last = direct_gradient(loss, weights, settings, batches, optimiser, final_loss=after_training)
    reached = trained(optimiser, weights, settings, batches)[0]
    expected = central_differences(lambda moved: after_training(reached, moved).item(), settings)
    assert torch.allclose(last.gradient["gates"], expected["gates"], rtol=1e-6, atol=1e-8)


def test_weights_that_the_loss_does_not_use_stay() -> None:
    weights, settings, batches = problem(3)
    weights["unused"] = torch.ones(2, dtype=torch.float64)
    found = unrolled_gradient(loss, weights, settings, batches, InnerSGD(0.08, momentum=0.9, weight_decay=0.1))
    assert found.weights["unused"].tolist() == [1, 1]


class SavedTensors:
    """Counts the numbers that graphs hold for their backward passes, now and at most."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def pack(self, tensor: Tensor) -> list[Tensor]:
        packed = _Held([tensor])
        self.now += tensor.numel()
        self.most = max(self.most, self.now)
        weakref.finalize(packed, self._freed, tensor.numel())
        return packed

    def _freed(self, numel: int) -> None:
        self.now -= numel

    def unpack(self, packed: list[Tensor]) -> Tensor:
        return packed[0]


class _Held(list[Tensor]):
    """A list that can be watched."""


def held(steps: int, segment: int | None) -> int:
    weights, settings, batches = problem(steps)
    counter = SavedTensors()
    with torch.autograd.graph.saved_tensors_hooks(counter.pack, counter.unpack):
        unrolled_gradient(loss, weights, settings, batches, InnerSGD(0.01, momentum=0.9), segment=segment)
    assert counter.now == 0
    return counter.most


def test_memory_grows_with_the_root_of_the_number_of_steps() -> None:
    assert held(64, segment=None) < 2.5 * held(16, segment=None)
    assert held(64, segment=64) > 3.5 * held(16, segment=16)


def test_losses_of_modules_leave_them_as_they_are() -> None:
    with global_seed(0, "net"):
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).double()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    settings = {"rate": torch.tensor(0.1, dtype=torch.float64)}
    batches = [Batch(draw(8, 3, name=f"x{t}"), torch.arange(8) % 2) for t in range(4)]
    training_loss = module_loss(net, F.cross_entropy)
    found = unrolled_gradient(training_loss, dict(net.named_parameters()), settings, batches, InnerSGD("rate"))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())

    def objective(moved: Values) -> float:
        return sum(
            unrolled_gradient(training_loss, dict(net.named_parameters()), moved, batches, InnerSGD("rate")).losses
        )

    assert torch.allclose(found.gradient["rate"], central_differences(objective, settings)["rate"], rtol=1e-6)


def test_what_cannot_be_unrolled() -> None:
    weights, settings, batches = problem(4)
    with pytest.raises(InvalidInput, match="batches"):
        unrolled_gradient(loss, weights, settings, [], InnerSGD(0.1))
    with pytest.raises(InvalidInput, match="batches"):
        unrolled_gradient(loss, weights, settings, [], InnerSGD(0.1), segment=2)
    with pytest.raises(InvalidInput, match="batches"):
        direct_gradient(loss, weights, settings, [], InnerSGD(0.1))
    with pytest.raises(InvalidInput, match="segments of 1 or more"):
        unrolled_gradient(loss, weights, settings, batches, InnerSGD(0.1), segment=0)
    with pytest.raises(InvalidInput, match="velocity"):
        unrolled_gradient(loss, weights, settings, batches, InnerSGD(0.1), velocity={"first": weights["first"]})
    with pytest.raises(NotFiniteError, match="lower learning rate"):
        unrolled_gradient(loss, weights, settings, batches * 20, InnerSGD(1e6))
    calls = iter(range(100))
    with pytest.raises(InvalidInput, match="has to come with the batch"):
        unrolled_gradient(
            lambda w, a, batch: loss(w, a, batch) * (1 + next(calls)), weights, settings, batches, InnerSGD(0.001)
        )
