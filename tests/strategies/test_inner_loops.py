"""Inner loops against the same computation by hand, in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from polyarch.data import Batch
from polyarch.distributions import Empirical
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, parse_nb201
from polyarch.strategies import InnerLoop, InnerSteps, OneShot, PathGradients, RandomPaths
from polyarch.supernets import NB201Supernet
from polyarch.testing import random_data, same_bits

FIRST = "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|skip_connect~0|nor_conv_3x3~1|none~2|"
SECOND = "|nor_conv_1x1~0|+|nor_conv_1x1~0|nor_conv_3x3~1|+|avg_pool_3x3~0|nor_conv_3x3~1|nor_conv_1x1~2|"
T = 3

Weights = dict[str, Tensor]


def make_net() -> NB201Supernet:
    with global_seed(0, "net"):
        return NB201Supernet(channels=2, cells=1, classes=3).double().train()


def make_batches(count: int) -> list[Batch]:
    data = random_data((3, 8, 8), examples=8 * count)
    return [Batch(data.inputs[8 * t : 8 * t + 8].double(), data.targets[8 * t : 8 * t + 8]) for t in range(count)]


def paths_of(net: NB201Supernet, *texts: str) -> list[Architecture]:
    return [parse_nb201(text, net.space) for text in texts]


def loss_at(net: NB201Supernet, weights: Weights, path: Architecture, batch: Batch) -> Tensor:
    return F.cross_entropy(functional_call(net, weights, (batch.inputs, path)), batch.targets)


def gradients(loss: Tensor, weights: Weights, *, create_graph: bool = False) -> Weights:
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, create_graph=create_graph)
    return {name: grad for name, grad in zip(weights, found, strict=True) if grad is not None}


def values(net: NB201Supernet) -> Weights:
    return {name: weight.detach().clone().requires_grad_() for name, weight in net.named_parameters()}


def by_hand(
    net: NB201Supernet, path: Architecture, batches: Sequence[Batch], rate: float, proximal: float, momentum: float
) -> Weights:
    """w - w_T by autograd on the penalised loss."""
    start, now, velocity = values(net), values(net), dict[str, Tensor]()
    for batch in batches:
        distance = torch.stack([(now[name] - start[name].detach()).square().sum() for name in now]).sum()
        on_path = gradients(loss_at(net, now, path, batch), now)
        whole = gradients(loss_at(net, now, path, batch) + proximal / 2 * distance, now)
        velocity = {name: momentum * velocity[name] + whole[name] if velocity else whole[name] for name in on_path}
        moved = {name: now[name] - rate * velocity[name] if name in velocity else now[name] for name in now}
        now = {name: weight.detach().requires_grad_() for name, weight in moved.items()}
    return {name: (start[name] - now[name]).detach() for name in on_path}


def run(net: NB201Supernet, inner: InnerLoop, paths: Sequence[Architecture], batches: Sequence[Batch]) -> Weights:
    """The pseudo-gradient, by name; the weights must be as they were."""
    before = copy.deepcopy(dict(net.named_parameters()))
    inner.run(net, paths, batches, F.cross_entropy)
    assert all(same_bits(weight, before[name]) for name, weight in net.named_parameters())
    return {name: weight.grad for name, weight in net.named_parameters() if weight.grad is not None}


def assert_close(actual: Weights, expected: Weights, *, rtol: float = 1e-9) -> None:
    assert actual.keys() == expected.keys()
    for name in actual:
        torch.testing.assert_close(actual[name], expected[name], rtol=rtol, atol=1e-13, msg=name)


def mean(several: Sequence[Weights]) -> Weights:
    """Over all paths; a path without a weight asks for nothing there."""
    names = {name for one in several for name in one}
    return {name: sum(one[name] for one in several if name in one) / len(several) for name in names}  # type: ignore[misc]


@pytest.mark.parametrize("texts", [(FIRST,), (FIRST, SECOND), (SECOND, FIRST, SECOND)])
def test_path_gradients_are_the_mean(texts: tuple[str, ...]) -> None:
    net, (batch,) = make_net(), make_batches(1)
    paths = paths_of(net, *texts)
    weights = values(net)
    expected = mean([gradients(loss_at(net, weights, path, batch), weights) for path in paths])
    assert_close(run(net, PathGradients(), paths, [batch]), expected)


@pytest.mark.parametrize("texts", [(FIRST,), (FIRST, SECOND), (SECOND, SECOND)])
@pytest.mark.parametrize(("proximal", "momentum"), [(0.0, 0.0), (10.0, 0.0), (0.5, 0.9)])
def test_inner_steps_follow_the_penalised_loss(texts: tuple[str, ...], proximal: float, momentum: float) -> None:
    """Every path starts from the same weights, with momentum from none."""
    net, batches = make_net(), make_batches(T)
    paths = paths_of(net, *texts)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=momentum)
    expected = mean([by_hand(net, path, batches, 0.05, proximal, momentum) for path in paths])
    inner = InnerSteps(optimizer, steps=T, proximal=proximal, same_batch=False)
    assert_close(run(net, inner, paths, batches), expected)
    assert not optimizer.state


@pytest.mark.parametrize("proximal", [0.0, 10.0])
def test_inner_steps_on_one_batch_see_it_again_and_again(proximal: float) -> None:
    net, (batch,) = make_net(), make_batches(1)
    paths = paths_of(net, FIRST, SECOND)
    inner = InnerSteps(torch.optim.SGD(net.parameters(), lr=0.05), steps=T, proximal=proximal)
    assert (inner.batches, inner.passes) == (1, T)
    expected = mean([by_hand(net, path, [batch] * T, 0.05, proximal, 0.0) for path in paths])
    assert_close(run(net, inner, paths, [batch]), expected)


def test_a_displacement_is_the_sum_of_the_gradients_on_the_way() -> None:
    """Exactly, with plain SGD: w - w_T = eta sum_t grad L_t(w_t)."""
    net, batches = make_net(), make_batches(T)
    (path,) = paths_of(net, SECOND)
    rate = 0.1
    other = copy.deepcopy(net)
    walker = torch.optim.SGD(other.parameters(), lr=rate)
    totals: Weights = {}
    for batch in batches:
        walker.zero_grad()
        F.cross_entropy(other(batch.inputs, path), batch.targets).backward()
        for name, weight in other.named_parameters():
            if weight.grad is not None:
                totals[name] = totals.get(name, torch.zeros(())) + weight.grad
        walker.step()
    found = run(net, InnerSteps(torch.optim.SGD(net.parameters(), lr=rate), steps=T, same_batch=False), [path], batches)
    assert_close(found, {name: rate * total for name, total in totals.items()})


def unrolled_gradient(net: NB201Supernet, path: Architecture, batches: Sequence[Batch], rate: float) -> Weights:
    """The gradient in w_0 of SoTL = sum_t L_t(w_t(w_0)), through the steps."""
    start = values(net)
    now, total = start, torch.zeros((), dtype=torch.float64)
    for batch in batches:
        loss = loss_at(net, now, path, batch)
        total = total + loss
        step = gradients(loss, now, create_graph=True)
        now = {name: now[name] - rate * step[name] if name in step else now[name] for name in now}
    return gradients(total, start)


def test_a_displacement_is_the_gradient_of_sotl_to_first_order() -> None:
    """(w - w_T) / eta goes to grad SoTL and to the sum of gradients at w_0, with errors in proportion to eta."""
    net, batches = make_net(), make_batches(T)
    (path,) = paths_of(net, SECOND)
    errors: dict[str, list[float]] = {"sotl": [], "at the start": []}
    start = values(net)
    at_start = gradients(torch.stack([loss_at(net, start, path, batch) for batch in batches]).sum(), start)
    for rate in (1e-5, 1e-6, 1e-7):
        displacement = run(
            net, InnerSteps(torch.optim.SGD(net.parameters(), lr=rate), steps=T, same_batch=False), [path], batches
        )
        net.zero_grad(set_to_none=True)
        expected = {"sotl": unrolled_gradient(net, path, batches, rate), "at the start": at_start}
        for kind, gradient in expected.items():
            pairs = [displacement[name] / rate - gradient[name] for name in displacement]
            errors[kind].append(math.sqrt(sum(pair.square().sum().item() for pair in pairs)))
    for found in errors.values():
        assert found[0] > 1e-7
        assert found[0] / found[1] == pytest.approx(10, rel=0.05)
        assert found[1] / found[2] == pytest.approx(10, rel=0.05)


def test_the_outer_update_goes_a_share_of_the_mean_way() -> None:
    net, batches = make_net(), make_batches(T)
    paths = paths_of(net, FIRST, SECOND)
    before, inner = values(net), torch.optim.SGD(net.parameters(), lr=0.05)
    drawn = RandomPaths(Empirical(net.space, paths), 5)
    expected = mean([by_hand(net, path, batches, 0.05, 0.1, 0.0) for path in drawn.draw(generator_at(0, "step"))])
    strategy = OneShot(
        net,
        torch.optim.SGD(net.parameters(), lr=0.7),
        paths=drawn,
        inner=InnerSteps(inner, steps=T, proximal=0.1, same_batch=False),
    )
    strategy.step(batches, generator=generator_at(0, "step"))
    moved = {name: weight.detach() - before[name].detach() for name, weight in net.named_parameters()}
    for name, way in moved.items():
        torch.testing.assert_close(way, -0.7 * expected.get(name, torch.zeros_like(way)), rtol=1e-9, atol=1e-13)


def test_inner_loss_is_the_mean_over_paths_and_steps() -> None:
    net, batches = make_net(), make_batches(2)
    paths = paths_of(net, FIRST, SECOND)
    still = InnerSteps(torch.optim.SGD(net.parameters(), lr=0.0), steps=2, same_batch=False)
    expected = [loss_at(net, values(net), path, batch).item() for path in paths for batch in batches]
    assert still.run(net, paths, batches, F.cross_entropy) == pytest.approx(sum(expected) / 4, rel=1e-12)


@pytest.mark.parametrize("spoiled", range(T))
def test_weights_are_put_back_where_a_loss_is_not_finite(spoiled: int) -> None:
    net, batches = make_net(), make_batches(T)
    batches[spoiled] = Batch(torch.full_like(batches[spoiled].inputs, torch.nan), batches[spoiled].targets)
    before = copy.deepcopy(dict(net.named_parameters()))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(NotFiniteError, match=r"finite training loss\. Got nan"):
        InnerSteps(optimizer, steps=T, same_batch=False).run(net, paths_of(net, FIRST), batches, F.cross_entropy)
    assert all(same_bits(weight, before[name]) and weight.grad is None for name, weight in net.named_parameters())
    assert not optimizer.state


@pytest.mark.parametrize(
    ("options", "words"), [({"steps": 0}, "1 or more inner steps. Got 0"), ({"proximal": -0.1}, "0 or more. Got -0.1")]
)
def test_impossible_inner_steps(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        InnerSteps(torch.optim.SGD(make_net().parameters(), lr=0.1), **options)
