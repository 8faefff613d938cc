"""Networks side by side compute, in float64, what each computes alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.objectives import categorical_log_likelihood
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import FullyConnectedDepth
from polyarch.testing import same_bits
from polyarch_experiments.depth.replicas import FullyConnectedReplicas

DEPTH, REPLICAS, BATCH, CLASSES = 3, 4, 9, 3
assert_close = partial(torch.testing.assert_close, rtol=1e-11, atol=1e-11)


def network(seed: int, *, max_depth: int = DEPTH, width: int = 5) -> FullyConnectedDepth:
    """With statistics and scales unlike those of a new network."""
    with global_seed(seed, "net"):
        net = FullyConnectedDepth(features=6, classes=CLASSES, max_depth=max_depth, width=width).double()
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                assert module.running_mean is not None and module.running_var is not None
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
                torch.nn.init.normal_(module.weight)
                torch.nn.init.normal_(module.bias)
    return net


def networks(count: int = REPLICAS) -> list[FullyConnectedDepth]:
    return [network(seed) for seed in range(count)]


@pytest.fixture
def x() -> Tensor:
    return torch.randn(REPLICAS, BATCH, 6, dtype=torch.float64, generator=generator_at(0, "inputs"))


@pytest.fixture
def targets() -> Tensor:
    return torch.randint(CLASSES, (REPLICAS, BATCH), generator=generator_at(0, "targets"))


def alone(nets: Sequence[FullyConnectedDepth], x: Tensor, depths: Sequence[int]) -> Tensor:
    """(R, S, B, classes) from one network after the other."""
    return torch.stack(
        [net.forward_many(one, [net.space.members[d] for d in depths]) for net, one in zip(nets, x, strict=True)]
    )


def statistics(nets: Sequence[FullyConnectedDepth]) -> dict[str, Tensor]:
    """The running averages, (R, D, width)."""
    names = ("running_mean", "running_var")
    return {
        name: torch.stack([torch.stack([block[2].get_buffer(name) for block in net.blocks]) for net in nets])  # type: ignore[index]
        for name in names
    }


subsets = pytest.mark.parametrize("depths", [[0, 1, 2, 3], [0], [3], [1, 2], [2, 0], [1, 1, 3]], ids=str)
modes = pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])


@modes
@subsets
def test_forward_is_that_of_each_alone(depths: list[int], training: bool, x: Tensor) -> None:
    nets = [net.train(training) for net in networks()]
    together = FullyConnectedReplicas(nets)
    assert together.training == training
    assert (together.replicas, together.max_depth) == (REPLICAS, DEPTH)
    logits = together(x, depths)
    assert logits.shape == (REPLICAS, len(depths), BATCH, CLASSES)
    assert_close(logits, alone(nets, x, depths))


@modes
def test_all_depths_by_default_and_inputs_of_any_shape(training: bool, x: Tensor) -> None:
    nets = [net.train(training) for net in networks()]
    together = FullyConnectedReplicas(nets)
    images = x.view(REPLICAS, BATCH, 1, 2, 3)
    assert_close(together(images), alone(nets, images, range(DEPTH + 1)))


@modes
@subsets
def test_log_likelihoods(depths: list[int], training: bool, x: Tensor, targets: Tensor) -> None:
    nets = [net.train(training) for net in networks()]
    expected = [categorical_log_likelihood(*pair) for pair in zip(alone(nets, x, depths), targets, strict=True)]
    found = FullyConnectedReplicas(nets).log_likelihoods(x, targets, depths)
    assert_close(found, torch.stack(expected))


@subsets
def test_running_averages_move_as_they_do_alone(depths: list[int], x: Tensor) -> None:
    """Those of blocks that are not reached stay."""
    nets = [net.train() for net in networks()]
    together = FullyConnectedReplicas(nets)
    before = statistics(nets)
    for inputs in (x, 2 * x + 1):
        together(inputs, depths)
        alone(nets, inputs, depths)
    for name, expected in statistics(nets).items():
        found = statistics(together.split())[name]
        assert_close(found, expected)
        reached = max(depths)
        assert found[:, reached:].equal(before[name][:, reached:])
        assert not reached or not found[:, :reached].equal(before[name][:, :reached])


def test_evaluation_leaves_the_running_averages(x: Tensor) -> None:
    together = FullyConnectedReplicas(networks()).eval()
    before = copy.deepcopy(together.state_dict())
    together(x)
    assert same_bits(together.state_dict(), before)


@modes
def test_gradients_are_those_of_each_alone(training: bool, x: Tensor, targets: Tensor) -> None:
    """Of different losses, as the replicas share no weights."""
    nets = [net.train(training) for net in networks()]
    together = FullyConnectedReplicas(nets)
    weights = torch.arange(1.0, REPLICAS + 1, dtype=torch.float64)
    (weights * together.log_likelihoods(x, targets).mean((1, 2))).sum().backward()
    for replica, net in enumerate(nets):
        logits = net.forward_many(x[replica], net.space.members)
        (weights[replica] * categorical_log_likelihood(logits, targets[replica]).mean()).backward()
    for parameter in together.parameters():
        assert parameter.grad is not None
        with torch.no_grad():
            parameter.copy_(parameter.grad)
    for net, gradients in zip(nets, together.split(), strict=True):
        for (name, parameter), gradient in zip(net.named_parameters(), gradients.parameters(), strict=True):
            assert parameter.grad is not None
            assert_close(gradient.detach(), parameter.grad, msg=name)


@modes
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_split_gives_the_networks_back(training: bool, dtype: torch.dtype) -> None:
    nets = [net.train(training).to(dtype) for net in networks()]
    before = [copy.deepcopy(net.state_dict()) for net in nets]
    for net, state, back in zip(nets, before, FullyConnectedReplicas(nets).split(), strict=True):
        assert same_bits(back.state_dict(), state)
        assert same_bits(net.state_dict(), state)  # they stay as they are
        assert back.training == training and back.space == net.space


def test_weights_are_copies(x: Tensor) -> None:
    nets = networks()
    together = FullyConnectedReplicas(nets).eval()
    expected = together(x)
    with torch.no_grad():
        nets[0].head.weight.zero_()
        together.split()[1].head.weight.zero_()
    assert together(x).equal(expected)


def test_state_goes_to_a_file_and_back(x: Tensor) -> None:
    together, other = FullyConnectedReplicas(networks()), FullyConnectedReplicas(networks()[::-1])
    together(x)
    other.load_state_dict(together.state_dict())
    assert other.eval()(x).equal(together.eval()(x))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (list, "one or more networks to put side by side. Got none"),
        (lambda: [network(0), network(1, width=6)], "networks of one shape. Got 2 different ones"),
        (lambda: [network(0), network(1, max_depth=2), network(2, width=4)], "Got 3 different ones"),
        (lambda: [network(0), network(1).float()], "Got 2 different ones"),
    ],
)
def test_networks_that_do_not_fit_together(make: Callable[[], list[FullyConnectedDepth]], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        FullyConnectedReplicas(make())
