"""Tuning of settings: the right gradient at the right time, clipped, and positive where it has to be."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from polyarch.errors import InvalidInput, NotFiniteError, UnknownName
from polyarch.methods.differentiable.tuning import Tuner
from polyarch.objectives import InnerSGD, Tensors, direct_gradient, unrolled_gradient
from polyarch.randomness import generator_at

WEIGHTS = {"w": torch.tensor([2.0, -1.0], dtype=torch.float64)}


def loss(weights: Tensors, settings: Tensors, batch: Any) -> Tensor:
    """A quadratic around the batch with the curvature ``settings["curvature"]``."""
    total: Tensor = (settings["curvature"] * (weights["w"] - batch) ** 2).sum()
    return total


def draws(count: int) -> list[Tensor]:
    return [torch.randn(2, generator=generator_at(0, "batch", t), dtype=torch.float64) for t in range(count)]


def tuner(**options: Any) -> Tuner:
    settings: dict[str, Tensor | float] = {"curvature": torch.tensor([1.0, 0.5], dtype=torch.float64), "rate": 0.1}
    return Tuner(loss, WEIGHTS, settings, InnerSGD("rate", momentum=0.5), **{"clip": math.inf, **options})


@pytest.mark.parametrize("held_out", [False, True])
def test_blocks_follow_the_exact_gradient(held_out: bool) -> None:
    found = tuner(outer=partial(torch.optim.SGD, lr=0.001))
    batches, others = draws(5), draws(8)[5:]
    blocks = found.run(batches, steps=2, held_out=others if held_out else None)
    assert [len(block.losses) for block in blocks] == [2, 2, 1] and found.history == blocks

    weights, velocity = WEIGHTS, None
    settings = {"curvature": torch.tensor([1.0, 0.5], dtype=torch.float64), "rate": torch.tensor(0.1)}
    for position, (block, other) in enumerate(zip(blocks, others, strict=True)):
        expected = unrolled_gradient(
            loss,
            weights,
            settings,
            batches[2 * position : 2 * position + 2],
            InnerSGD("rate", momentum=0.5),
            velocity=velocity,
            final_loss=partial(loss, batch=other) if held_out else None,
        )
        assert block.losses == pytest.approx(expected.losses, rel=1e-6)
        for name, value in settings.items():
            assert torch.allclose(block.settings[name], value)
            assert torch.allclose(block.gradient[name], expected.gradient[name])
            settings[name] = value - 0.001 * expected.gradient[name]
        weights, velocity = expected.weights, expected.velocity
    assert torch.allclose(found.weights["w"], weights["w"])
    assert torch.allclose(found.settings["curvature"], settings["curvature"])
    assert not torch.allclose(found.settings["curvature"], blocks[0].settings["curvature"])


def test_repeated_blocks_start_over_with_the_new_settings() -> None:
    """In closed form: v <- v / 2 + 2 c (w - x), w <- w - rate v, from the weights and velocity before the block."""
    found = tuner(outer=partial(torch.optim.SGD, lr=0.01), repeat=True)
    batches = draws(5)
    w, v = WEIGHTS["w"], torch.zeros(2, dtype=torch.float64)
    for block in (batches[:2], batches[2:4], batches[4:]):
        before = found.settings
        start = {"w": w}, {"w": v}
        expected = unrolled_gradient(loss, start[0], before, block, InnerSGD("rate", momentum=0.5), velocity=start[1])
        done = found.block(block)
        assert done.losses == pytest.approx(expected.losses, rel=1e-12)
        for name, value in before.items():
            assert torch.equal(done.settings[name], value)
            torch.testing.assert_close(found.settings[name], value - 0.01 * expected.gradient[name])
        curvature, rate = found.settings["curvature"], found.settings["rate"].double()
        for x in block:
            v = v / 2 + 2 * curvature * (w - x)
            w = w - rate * v
        torch.testing.assert_close(found.weights["w"], w, rtol=1e-6, atol=1e-7)
        assert found.velocity is not None
        torch.testing.assert_close(found.velocity["w"], v, rtol=1e-6, atol=1e-7)
        if len(block) > 1:  # one step hardly differs: its loss does not depend on the rate, which thus stays
            assert not torch.allclose(found.weights["w"], expected.weights["w"], rtol=1e-2)
        w, v = found.weights["w"], found.velocity["w"]


@pytest.mark.parametrize("outer", [partial(torch.optim.SGD, lr=1e30), partial(torch.optim.Adam, lr=1e30)])
def test_a_repetition_that_diverges_changes_nothing(outer: Any) -> None:
    found = tuner(outer=outer, repeat=True)
    before = found.settings
    with pytest.raises(NotFiniteError, match="finite loss"):
        found.block(draws(6))
    assert all(torch.equal(value, before[name]) for name, value in found.settings.items())
    assert torch.equal(found.weights["w"], WEIGHTS["w"]) and found.velocity is None and found.history == []
    assert not found._outer.state_dict()["state"]


def test_the_direct_gradient_is_the_cheap_one() -> None:
    settings = {"curvature": torch.tensor([1.0, 0.5], dtype=torch.float64)}
    found = Tuner(loss, WEIGHTS, settings, InnerSGD(0.1), exact=False)
    block = found.run(draws(3), steps=3)[0]
    expected = direct_gradient(loss, WEIGHTS, settings, draws(3), InnerSGD(0.1)).gradient["curvature"]
    assert torch.equal(block.gradient["curvature"], expected)
    assert torch.allclose(found.settings["curvature"], settings["curvature"] - 0.01 * expected)


def test_gradients_are_clipped_together() -> None:
    found = tuner(outer=partial(torch.optim.SGD, lr=1.0), clip=0.01)
    before = found.settings
    block = found.run(draws(4), steps=4)[0]
    whole = torch.cat([part.double().reshape(-1) for part in block.gradient.values()])
    moved = torch.cat([(before[name] - value).double().reshape(-1) for name, value in found.settings.items()])
    assert whole.norm() > 0.01
    assert torch.allclose(moved, whole * 0.01 / whole.norm(), rtol=1e-5)


@pytest.mark.parametrize("positive", [True, False])
def test_a_setting_that_would_be_negative_is_halved(positive: bool) -> None:
    """Batches that alternate make every step one in the wrong direction: a smaller rate is better."""
    found = Tuner(
        lambda weights, settings, batch: (weights["w"] * batch).sum(),
        {"w": torch.ones(1)},
        {"rate": 0.1},
        InnerSGD("rate"),
        outer=partial(torch.optim.SGD, lr=1.0),
        positive=["rate"] if positive else [],
    )
    found.run([1.0, -1.0, 1.0, -1.0], steps=2)
    assert [block.gradient["rate"].item() for block in found.history] == [1, 1]
    assert found.settings["rate"].item() == pytest.approx(0.1 / 4 if positive else 0.1 - 2)


def test_a_rate_that_is_too_low_rises_until_training_is_fast() -> None:
    """For w^2 the best rate of plain SGD is 1/2: one step then reaches the minimum."""
    found = Tuner(
        lambda weights, settings, batch: (weights["w"] ** 2).sum(),
        {"w": torch.ones(1)},
        {"rate": 0.001},
        InnerSGD("rate"),
        positive=["rate"],
    )
    found.run([None] * 600, steps=4)
    assert found.settings["rate"] > 0.05
    assert found.history[-1].losses[-1] < 1e-4 < found.history[0].losses[-1]


def test_what_cannot_be_tuned() -> None:
    with pytest.raises(UnknownName, match="curvature, rate"):
        tuner(positive=["depth"])
    with pytest.raises(UnknownName, match="rat"):
        Tuner(loss, WEIGHTS, {"curvature": 1.0}, InnerSGD("rat"))
    with pytest.raises(InvalidInput, match="start above 0"):
        Tuner(loss, WEIGHTS, {"rate": 0}, InnerSGD("rate"), positive=["rate"])
    with pytest.raises(InvalidInput, match="exact gradients"):
        tuner(exact=False)
    with pytest.raises(InvalidInput, match="1 or more steps"):
        tuner().run(draws(2), steps=0)
    with pytest.raises(InvalidInput, match="held-out batch for every block"):
        tuner().run(draws(4), steps=2, held_out=draws(1))
    wild = Tuner(lambda w, a, batch: (w["w"] * a["a"]).sum().sqrt(), {"w": torch.ones(1)}, {"a": 0.0}, InnerSGD(0.1))
    with pytest.raises(NotFiniteError):
        wild.block([None])
    assert wild.history == [] and wild.weights["w"] == 1
