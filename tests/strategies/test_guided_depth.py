"""Joint training of kernels, drop probabilities and a depth: the contract, the formula, gradients, the mixture."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from polyarch.data import Batch, Batches
from polyarch.distributions import Categorical, DepthAndChannels, KeepDrop, geometric_prior
from polyarch.errors import InvalidInput
from polyarch.objectives import SpikeSlab
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.strategies import GuidedDepth, Strategy
from polyarch.supernets import ConvolutionalDepth, DepthSupernet, FullyConnectedDepth, GatedDepthSupernet
from polyarch.testing import StrategyContract, random_data

NUM_DATA = 32


def strategy(depths: DepthSupernet, example: Tensor, *, lr: float = 0.05) -> GuidedDepth:
    net = GatedDepthSupernet(depths, example)
    start = torch.linspace(-0.5, 0.5, len(depths.space.members))
    q = DepthAndChannels(net.space, Categorical(depths.space, start), KeepDrop(net.slice_space, net.groups, drop=0.3))
    optimizer = torch.optim.SGD([*net.parameters(), *q.parameters()], lr=lr, momentum=0.9)
    prior = geometric_prior(depths.space, 0.6)
    return GuidedDepth(net, q, prior, optimizer, penalty=SpikeSlab(NUM_DATA, length_scale=3.0), temperature=0.5)


def row_depths() -> DepthSupernet:
    return FullyConnectedDepth(features=4, classes=3, max_depth=2, width=5)


class TestTables(StrategyContract):
    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data((4,)), 8).epoch(0))

    def make_strategy(self) -> Strategy:
        return strategy(row_depths(), torch.zeros(2, 4))


class TestImages(StrategyContract):
    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data((1, 8, 8)), 8).epoch(0))

    def make_strategy(self) -> Strategy:
        depths = ConvolutionalDepth(classes=3, max_depth=2, channels=4, inner_channels=2)
        return strategy(depths, torch.zeros(2, 1, 8, 8))


def precise() -> GuidedDepth:
    """Tables in float64; the optimiser holds the very parameters, whatever their precision."""
    with global_seed(0, "test"):
        guided = strategy(row_depths(), torch.zeros(2, 4))
    for part in (guided.net, guided.joint, guided.prior):
        part.double()
    return guided


def batch() -> Batch:
    inputs, targets = TestTables().make_batches()[0]
    return Batch(inputs.double(), targets)


def entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


def by_hand(guided: GuidedDepth, keep: Tensor) -> float:
    """-(1/B) sum_n sum_d q(d) log p(y_n | x_n, d, keep_n) + KL(q(d) || prior) / N + the penalty, with plain numbers.

    Normalisation layers use the statistics of the batch, which has its own relaxed channels in every row.
    """
    depths = guided.net.depths
    inputs, targets = batch()
    stem, head = depths.get_submodule("stem.1"), depths.get_submodule("head")
    features = stem(inputs)
    likelihoods = []
    for block in range(3):
        log_probs = torch.log_softmax(head(features), -1)
        likelihoods.append(sum(log_probs[n, y].item() for n, y in enumerate(targets.tolist())) / len(targets))
        if block < 2:
            layer, norm = (depths.blocks[block].get_submodule(name) for name in ("0", "2"))
            assert isinstance(layer, nn.Linear) and isinstance(norm, nn.BatchNorm1d)
            hidden = torch.relu((keep[:, 5 * block : 5 * block + 5] * features) @ layer.weight.T + layer.bias)
            hidden = (hidden - hidden.mean(0)) / torch.sqrt(hidden.var(0, unbiased=False) + 1e-5)
            features = features + norm.weight * hidden + norm.bias
    q = torch.softmax(guided.joint.depth.logits, 0).tolist()
    prior = [0.6 ** (1 + depth) / (0.6 + 0.6**2 + 0.6**3) for depth in range(3)]
    divergence = sum(ours * math.log(ours / theirs) for ours, theirs in zip(q, prior, strict=True))
    total: float = divergence / NUM_DATA - sum(one * value for one, value in zip(q, likelihoods, strict=True))
    for block, p in enumerate(torch.sigmoid(guided.joint.channels.logits).tolist()):
        square = float(depths.blocks[block].get_submodule("0").get_parameter("weight").square().sum())
        total += 3.0**2 * (1 - p) / (2 * NUM_DATA) * square - 5 / NUM_DATA * entropy(p)
    return total


def test_the_formula() -> None:
    guided = precise()
    with torch.no_grad():
        guided.joint.channels.logits.copy_(torch.tensor([-0.4, 0.7]))
        keep = guided.q.rsample_slices(8, temperature=0.5, generator=generator_at(0, "step"))
        expected = by_hand(guided, keep)
    penalty = guided.penalty(guided.net.square_norms(), guided.q).item()
    measured = guided.step([batch()], generator=generator_at(0, "step"))
    assert measured["loss"] == pytest.approx(expected, rel=1e-7)  # the prior was rounded to float32
    assert measured["penalty"] == pytest.approx(penalty, rel=1e-12)
    assert 0 < measured["kept"] < 1


def test_all_channels_and_one_depth_are_plain_training() -> None:
    """Where q is sure of a depth and the channels are kept, the loss is the cross-entropy of that network."""
    guided = precise()
    inputs, targets = batch()
    with torch.no_grad():
        guided.joint.depth.logits.copy_(torch.tensor([-200.0, 200.0, -200.0]))
    found = guided.objective(inputs, targets, torch.ones(8, 10, dtype=torch.float64))
    logits = guided.net.depths(inputs, guided.net.depths.space.members[1])
    expected = torch.nn.functional.cross_entropy(logits, targets).item()
    prior = 0.6**2 / (0.6 + 0.6**2 + 0.6**3)
    assert found.item() == pytest.approx(expected - math.log(prior) / NUM_DATA, rel=1e-7)


def loss(guided: GuidedDepth) -> Tensor:
    """What a step minimises, with the same draw at every call."""
    keep = guided.q.rsample_slices(8, temperature=0.5, generator=generator_at(0, "draws"))
    return guided.objective(*batch(), keep) + guided.penalty(guided.net.square_norms(), guided.q)


def differences(guided: GuidedDepth, place: Tensor) -> Tensor:
    """Central differences of the loss in all entries of a parameter."""
    found = torch.zeros_like(place).view(-1)
    for index in range(place.numel()):
        ends = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                place.view(-1)[index] += step
                ends.append(loss(guided).item())
                place.view(-1)[index] -= step
        found[index] = (ends[0] - ends[1]) / 2e-6
    return found.view_as(place)


@pytest.mark.parametrize(
    "parameter",
    [
        lambda guided: guided.joint.depth.logits,
        lambda guided: guided.joint.channels.logits,
        lambda guided: guided.net.depths.blocks[0].get_submodule("0").get_parameter("weight"),
    ],
    ids=["depth", "drop", "kernel"],
)
def test_gradients_match_differences(parameter: Callable[[GuidedDepth], Tensor]) -> None:
    guided = precise()
    place = parameter(guided)
    (gradient,) = torch.autograd.grad(loss(guided), [place])
    assert gradient.abs().max() > 1e-3
    torch.testing.assert_close(gradient, differences(guided, place.detach()), rtol=1e-5, atol=1e-8)


def test_a_step_follows_these_gradients() -> None:
    guided, other = precise(), precise()
    places = [other.joint.depth.logits, other.joint.channels.logits, *other.net.gated_kernels()]
    gradients = torch.autograd.grad(loss(other), places)
    guided.step([batch()], generator=generator_at(0, "draws"))
    moved = [guided.joint.depth.logits, guided.joint.channels.logits, *guided.net.gated_kernels()]
    for after, before, gradient in zip(moved, places, gradients, strict=True):
        torch.testing.assert_close(after, before - 0.05 * gradient, rtol=1e-10, atol=1e-12)


def test_evaluation_is_of_the_mixture() -> None:
    """log sum_d q(d) p(y | x, d, keep_n), every example with a hard draw of its own, in evaluation mode."""
    guided = precise()
    guided.step([batch()], generator=generator_at(0, "step"))
    batches = [batch(), Batch(batch().inputs[:3] + 0.5, batch().targets[:3])]
    found = guided.evaluate(batches, generator=generator_at(0, "evaluate"))
    generator = generator_at(0, "evaluate")
    net, weights = guided.net.eval(), torch.softmax(guided.joint.depth.logits, 0).tolist()
    losses, correct = [], []
    for inputs, targets in batches:
        keep = guided.q.sample_slices(len(inputs), generator=generator)
        assert set(keep.unique().tolist()) == {0.0, 1.0}
        for x, y, slices in zip(inputs, targets.tolist(), keep.int().tolist(), strict=True):
            mixture = torch.zeros(3, dtype=torch.float64)
            for depth, weight in enumerate(weights):
                logits = net(x[None], Architecture(net.space, (depth, *slices)))[0].detach()
                mixture += weight * torch.softmax(logits, 0)
            losses.append(-math.log(mixture[y]))
            correct.append(int(mixture.argmax()) == y)
    assert found["loss"] == pytest.approx(sum(losses) / 11, rel=1e-9)
    assert found["accuracy"] == pytest.approx(sum(correct) / 11)


def test_what_is_kept_by_checkpoints() -> None:
    guided = strategy(row_depths(), torch.zeros(2, 4))
    assert guided.posterior is guided.joint
    assert guided.posterior.channels is guided.q
    assert list(guided.parts()) == ["net", "q", "optimizer"]
    assert "depth.logits" in guided.parts()["q"].state_dict()


def test_a_depth_that_helps_becomes_probable() -> None:
    """The head prefers the wrong class, and only the last block adds what speaks against that."""
    guided = precise()
    with torch.no_grad():
        for parameter in guided.net.parameters():
            parameter.zero_()
        stem, head = (guided.net.depths.get_submodule(name) for name in ("stem.1", "head"))
        stem.get_parameter("weight").copy_(torch.eye(5, 4))
        head.get_parameter("bias")[0] = 3.0
        last = guided.net.depths.blocks[1].get_submodule("2")
        last.get_parameter("bias")[1] = 1.0
        head.get_parameter("weight")[:, 1] = torch.tensor([-4.0, 4.0, 0.0])
    guided.optimizer = torch.optim.SGD(guided.joint.depth.parameters(), lr=2.0)
    always = Batch(torch.zeros(8, 4, dtype=torch.float64), torch.ones(8, dtype=torch.int64))
    before = guided.joint.depth.log_probabilities().detach()
    for position in range(5):
        guided.step([always], generator=generator_at(0, "step", position))
    gain = guided.joint.depth.log_probabilities() - before
    assert gain[2] > 0.1 and max(gain[:2]) < 0


def test_mistakes() -> None:
    guided = strategy(row_depths(), torch.zeros(2, 4))
    other = strategy(FullyConnectedDepth(features=4, classes=3, max_depth=3, width=5), torch.zeros(2, 4))
    with pytest.raises(InvalidInput, match=r"a prior over its depths. Got 'depth2 gated' and 'depth3'"):
        GuidedDepth(guided.net, guided.joint, other.prior, guided.optimizer, penalty=guided.penalty)
    with pytest.raises(InvalidInput, match="over the groups"):
        GuidedDepth(guided.net, other.joint, guided.prior, guided.optimizer, penalty=guided.penalty)
    with pytest.raises(InvalidInput, match=r"temperature above 0. Got 0"):
        GuidedDepth(guided.net, guided.joint, guided.prior, guided.optimizer, penalty=guided.penalty, temperature=0.0)
