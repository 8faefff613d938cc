"""Draws judged with the weights they come with: as masked networks, with what they cost, wherever they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.data import Batches
from polyarch.distributions import Categorical, DepthAndChannels, KeepDrop
from polyarch.estimators import Parameters
from polyarch.executors import Executor, Processes, Serial
from polyarch.nn import multiply_accumulates
from polyarch.randomness import generator_at, global_seed
from polyarch.searchers import DrawScoring, JudgedDraw, Limit, LimitedDraws, Limits, best_draw
from polyarch.supernets import ConvolutionalDepth, GatedDepthSupernet, GatedSupernet, gate
from polyarch.testing import random_data, same_bits
from polyarch.testing.tools import state_of

SHAPE = (2, 8, 8)
ITEMS = [(kind, position) for position in range(5) for kind in ("guided", "flat", "small")]


def held_out() -> Batches:
    """23 examples in batches of 8, 8 and 7."""
    return Batches(random_data(SHAPE, examples=23, seed=3), 8, shuffle=False, preprocessing=Tensor.double)


def network() -> GatedSupernet:
    body = [nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5), nn.ReLU()]
    with global_seed(0, "test"):
        model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3)).double()
    return gate(model, torch.zeros(2, *SHAPE, dtype=torch.float64))


def depths() -> GatedDepthSupernet:
    with global_seed(0, "test"):
        net = ConvolutionalDepth(in_channels=2, classes=3, max_depth=2, channels=4, inner_channels=3).double()
    return GatedDepthSupernet(net, torch.zeros(2, *SHAPE, dtype=torch.float64))


def scoring(net: GatedSupernet) -> DrawScoring:
    """With statistics that training has moved, and in training mode: judging has to care for its own."""
    channels = KeepDrop(net.slice_space, net.groups, drop=0.3)
    q: KeepDrop | DepthAndChannels = channels
    if isinstance(net, GatedDepthSupernet):
        q = DepthAndChannels(net.space, Categorical(net.depths.space), channels)
    net.train()
    with torch.no_grad():
        for inputs, _ in held_out().epoch(0):
            net.forward_slices(inputs * 1.5, torch.ones(len(net.slice_space.choices)))
    at_most = 0.6 * net.cost(net.whole()).parameters
    limits = {"small": Limits(net, [Limit(Parameters(), at_most)])}
    draws = {
        kind: LimitedDraws(net, q.flat() if kind == "flat" else q, limits.get(kind), seed=0, stream=kind)
        for kind in ("guided", "flat", "small")
    }
    return DrawScoring(net, draws, held_out())


@pytest.mark.parametrize("make", [network, depths])
def test_a_candidate_is_judged_like_the_masked_network(make: Callable[[], GatedSupernet]) -> None:
    """In evaluation mode, over all examples; nothing of the supernet changes."""
    net = make()
    judge = scoring(net)
    before = state_of(net)
    candidates = [judge(item) for item in ITEMS]
    assert same_bits(state_of(net), before)
    net.eval()
    for (kind, position), found in zip(ITEMS, candidates, strict=True):
        architecture = judge.draws[kind](position)
        loss, correct = 0.0, 0
        with torch.no_grad():
            for inputs, targets in held_out().epoch(0):
                logits = net(inputs, architecture)
                loss += F.cross_entropy(logits, targets, reduction="sum").item()
                correct += int((logits.argmax(-1) == targets).sum())
        assert found.position == position
        assert found.score == correct / 23
        assert found.loss == pytest.approx(loss / 23, rel=1e-12)
        extracted = net.extract(architecture)
        assert found.parameters == sum(parameter.numel() for parameter in extracted.parameters())
        assert found.macs == multiply_accumulates(extracted, SHAPE)
        assert kind != "small" or found.parameters <= 0.6 * net.cost(net.whole()).parameters
    assert len({found.loss for found in candidates}) > 5


def test_a_candidate_says_which_network_was_judged() -> None:
    """Draws under timed limits may be others the next time."""
    net = network()
    others = iter(net.space.sample(generator_at(0, "draws", position)) for position in range(20))
    judge = DrawScoring(net, {"timed": lambda position: next(others)}, held_out())
    for _ in range(10):
        found = judge(("timed", 0))
        assert found.parameters == net.parameter_count(net.parse(found.notation))


def test_the_same_bits_from_every_executor() -> None:
    judge = scoring(depths())
    executors: list[Executor] = [Serial(), Processes(2)]
    first, second = (run_all(executor, judge) for executor in executors)
    assert first == second
    assert len(first) == len(ITEMS)
    assert first[1] == scoring(depths())(ITEMS[1])


def run_all(executor: Executor, judge: DrawScoring) -> Mapping[int, JudgedDraw]:
    with executor.open(judge) as run:
        return dict(run(ITEMS))


def test_batches_are_those_of_the_source() -> None:
    """Here a single batch with one example of every class."""
    judge = scoring(network())
    data = random_data(SHAPE, examples=3, seed=4)
    few = Batches(data, 3, shuffle=False, preprocessing=Tensor.double)
    found = DrawScoring(judge.net, judge.draws, few)(("guided", 0))
    logits = judge.net.eval()(data.inputs.double(), judge.draws["guided"](0))
    assert found.loss == pytest.approx(F.cross_entropy(logits, data.targets).item(), rel=1e-12)
    assert found.score in (0, 1 / 3, 2 / 3, 1)


def candidate(position: int, score: float, loss: float) -> JudgedDraw:
    return JudgedDraw(position, "", score, loss, parameters=10 - position, macs=1.0)


def test_the_best_draw() -> None:
    """The score first, then the loss, then the earlier one; what it costs does not matter."""
    few = [candidate(0, 0.8, 0.1), candidate(1, 0.9, 0.7), candidate(2, 0.9, 0.5), candidate(3, 0.9, 0.5)]
    assert best_draw(few).position == 2
    assert best_draw(few[:2]).position == 1
    assert best_draw(few[:1]).position == 0
    assert best_draw(iter(few)).position == 2
