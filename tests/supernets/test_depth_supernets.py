"""Depth supernets: exits, shared heads, what a depth leaves out."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.supernets import ConvolutionalDepth, DepthSupernet, FullyConnectedDepth

DEPTH = 3


def fully_connected() -> FullyConnectedDepth:
    with global_seed(0, "net"):
        return FullyConnectedDepth(features=64, classes=3, max_depth=DEPTH, width=4).double()


def convolutional() -> ConvolutionalDepth:
    with global_seed(0, "net"):
        return ConvolutionalDepth(classes=3, max_depth=DEPTH, channels=4, inner_channels=2).double()


def with_biases() -> ConvolutionalDepth:
    """As the authors of variational depth search have it."""
    with global_seed(0, "net"):
        return ConvolutionalDepth(classes=3, max_depth=DEPTH, channels=4, inner_channels=2, bias=True).double()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(6, 1, 8, 8, dtype=torch.float64, generator=generator_at(0, "inputs"))


def depths(net: DepthSupernet) -> list[Architecture]:
    return list(net.space.enumerate())


def fully_connected_head(net: FullyConnectedDepth, features: Tensor, depth: int) -> Tensor:
    output: Tensor = net.head(features)
    return output


def convolutional_head(net: ConvolutionalDepth, features: Tensor, depth: int) -> Tensor:
    pooled = features.mean((2, 3))
    output: Tensor = net.output(pooled + net.norms[depth](net.hidden(pooled)))
    return output


@pytest.mark.parametrize(
    ("make", "head"),
    [(fully_connected, fully_connected_head), (convolutional, convolutional_head), (with_biases, convolutional_head)],
)
def test_exits_by_the_formula(
    make: Callable[[], DepthSupernet], head: Callable[[DepthSupernet, Tensor, int], Tensor], x: Tensor
) -> None:
    """a_0 = f_0(x), a_i = a_{i-1} + f_i(a_{i-1}), prediction f_{D+1}(a_d)."""
    net = make().eval()
    features = net.stem(x)
    for depth, architecture in enumerate(depths(net)):
        if depth:
            features = features + net.blocks[depth - 1](features)
        torch.testing.assert_close(net(x, architecture), head(net, features, depth), rtol=1e-12, atol=1e-12)


both = pytest.mark.parametrize("make", [fully_connected, convolutional, with_biases])


@both
def test_gates_mix_the_logits_of_the_exits(make: Callable[[], DepthSupernet], x: Tensor) -> None:
    net = make().eval()
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    exits = net.forward_many(x, depths(net))
    torch.testing.assert_close(net(x, {"depth": weights}), (weights[:, None, None] * exits).sum(0))


@both
def test_deeper_blocks_neither_run_nor_learn(make: Callable[[], DepthSupernet], x: Tensor) -> None:
    for depth, architecture in enumerate(depths(make())):
        net = make()
        ran: list[int] = []
        for position, block in enumerate(net.blocks):
            block.register_forward_hook(lambda *_, position=position, ran=ran: ran.append(position))
        net(x, architecture).square().sum().backward()
        assert ran == list(range(depth))
        for position, block in enumerate(net.blocks):
            assert all((parameter.grad is not None) == (position < depth) for parameter in block.parameters())


@both
def test_one_walk_gives_all_exits(make: Callable[[], DepthSupernet], x: Tensor) -> None:
    net = make()
    ran: list[int] = []
    for position, block in enumerate(net.blocks):
        block.register_forward_hook(lambda *_, position=position: ran.append(position))
    net.forward_many(x, depths(net)[:-1])
    assert ran == list(range(DEPTH - 1))


@both
def test_parameter_count_is_that_of_the_extracted_network(make: Callable[[], DepthSupernet]) -> None:
    net = make()
    counts = [net.parameter_count(architecture) for architecture in depths(net)]
    assert counts == [sum(p.numel() for p in net.extract(a).parameters()) for a in depths(net)]
    block = sum(parameter.numel() for parameter in net.blocks[0].parameters())
    assert counts == [counts[0] + depth * block for depth in range(DEPTH + 1)]
    assert counts[-1] == sum(parameter.numel() for parameter in net.parameters())


def test_batched_heads_keep_the_statistics_of_every_depth(x: Tensor) -> None:
    """After a pass in training mode the running averages are those of one pass per depth."""
    batched, single = convolutional().train(), convolutional().train()
    for inputs in (x, 2 * x + 1):
        batched.forward_many(inputs, depths(batched))
        for architecture in depths(single):
            single(inputs, architecture)
    for one, other in zip(batched.norms, single.norms, strict=True):
        assert isinstance(one, nn.BatchNorm1d) and isinstance(other, nn.BatchNorm1d)
        torch.testing.assert_close(one.running_mean, other.running_mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(one.running_var, other.running_var, rtol=1e-12, atol=1e-12)
        assert one.num_batches_tracked == other.num_batches_tracked == torch.tensor(2)
    means = [buffer for name, buffer in batched.norms.named_buffers() if name.endswith("running_mean")]
    assert len(torch.stack(means).unique(dim=0)) == DEPTH + 1


def test_the_head_is_shared_by_all_depths() -> None:
    net = copy.deepcopy(convolutional())
    assert len({norm.weight for norm in net.norms}) == len({norm.bias for norm in net.norms}) == 1


def test_biases_are_those_of_the_convolutions_in_the_blocks() -> None:
    counts = [sum(parameter.numel() for parameter in make().parameters()) for make in (with_biases, convolutional)]
    assert counts[0] - counts[1] == DEPTH * (2 + 2 + 4)


def test_a_depth_of_zero_is_too_little() -> None:
    with pytest.raises(InvalidInput, match="maximum depth of 1 or more"):
        FullyConnectedDepth(features=2, classes=2, max_depth=0)


@both
def test_a_start_at_zero_says_nothing_at_any_depth_and_can_learn(make: Callable[[], DepthSupernet], x: Tensor) -> None:
    net = make()
    net.start_at_zero()
    outputs = net.forward_many(x, net.space.members)
    assert (outputs == 0).all()
    # The heads learn at once, and blocks as soon as the heads do.
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        (net.forward_many(x, net.space.members) - 1).square().sum().backward()
        optimizer.step()
    for block in net.blocks:
        assert isinstance(block, nn.Sequential)
        assert block[-1].get_parameter("weight").abs().max() > 0
