"""Removed channels: the smaller network computes what the masked one computes, and is as small as it can be."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import ChannelGraph, multiply_accumulates, run_gated
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import gate

IMAGES = torch.randn(3, 2, 6, 6, dtype=torch.float64, generator=generator_at(0, "images"))


PAIRS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "excite": lambda x, other: x * torch.sigmoid(other.mean((2, 3), keepdim=True)),
    "multiply": lambda x, other: torch.mul(torch.tanh(other), x),
}
"""Values of the same width, channel by channel."""


class Random(nn.Module):
    """Random operations in a row, some with a random earlier value: what the analysis knows, and what it does not."""

    def __init__(self, steps: list[tuple[str, int]], *, flat: bool) -> None:
        super().__init__()
        self.flat = flat
        self.steps: list[tuple[str, int]] = []
        self.layers = nn.ModuleList([nn.Conv2d(2, 3, 3, padding=1)])
        widths = [3]
        for kind, back in steps:
            fitting = [i for i, width in enumerate(widths[:-1]) if kind not in PAIRS or width == widths[-1]]
            other = fitting[back % len(fitting)] if fitting else len(widths) - 1
            layer, width = self._made(kind, widths[-1], widths[other])
            self.steps.append((kind, other))
            self.layers.append(layer)
            widths.append(width)
        self.head = nn.Linear(widths[-1] * (36 if flat else 1), 2)

    @staticmethod
    def _made(kind: str, width: int, other: int) -> tuple[nn.Module, int]:
        layers: dict[str, tuple[nn.Module, int]] = {
            "conv": (nn.Conv2d(width, 4, 3, padding=1), 4),
            "plain conv": (nn.Conv2d(width, 4, 1, bias=False), 4),
            "depthwise": (nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False), width),
            "norm": (nn.BatchNorm2d(width), width),
            "relu": (nn.ReLU(inplace=True), width),
            "sigmoid": (nn.Sigmoid(), width),
            "pool": (nn.MaxPool2d(3, 1, 1), width),
            "opaque": (nn.GroupNorm(1, width), width),
            "slope": (nn.PReLU(), width),
            "slopes": (nn.PReLU(width), width),
            **{kind: (nn.Identity(), width) for kind in PAIRS},
            "cat": (nn.Identity(), width + other),
        }
        return layers[kind]

    def forward(self, x: Tensor) -> Tensor:
        values = [self.layers[0](x)]
        for (kind, other), layer in zip(self.steps, list(self.layers)[1:], strict=True):
            if kind in PAIRS:
                values.append(PAIRS[kind](values[-1], values[other]))
            elif kind == "cat":
                values.append(torch.cat((values[-1], 0.5 * values[other]), 1))
            else:  # some in place, on a value that others read later
                values.append(layer(values[-1]))
        last = values[-1]
        logits: Tensor = self.head(
            last.flatten(1) if self.flat else F.adaptive_avg_pool2d(last, 1).view(x.shape[0], -1)
        )
        return logits


KINDS = [
    *("conv", "plain conv", "depthwise", "norm", "relu", "sigmoid", "pool", "slope", "slopes", "opaque", "cat"), *PAIRS,
]  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 7)), min_size=5, max_size=9)


def masked_and_removed(
    model: nn.Module, groups: dict[str, list[str]], seed: int
) -> tuple[Tensor, nn.Module, dict[str, Tensor]]:
    """The output of a network with random masks, the network without the channels, and the masks.

    Some gates keep everything and some nothing; but the last layer reads something, or nothing else would matter.
    """
    net = gate(model.double().eval(), IMAGES, groups=groups)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.is_floating_point():
                tensor.add_(0.3 * torch.rand(tensor.shape, generator=generator_at(seed, name)))
    keep = {}
    for position, one in enumerate(net.gates):
        generator = generator_at(seed, "mask", position)
        rate = (0.3, 0.6, 0.0, 1.0)[int(torch.randint(2 if one.name == "head" else 4, (), generator=generator))]
        keep[one.name] = torch.rand(one.slices, generator=generator) >= rate
    with torch.no_grad():
        return run_gated(model, IMAGES, keep), ChannelGraph(model, IMAGES).removed(keep), keep


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def dropped_weights(model: nn.Module, keep: Mapping[str, Tensor]) -> int:
    """The weights in dropped slices."""
    layers = {name: model.get_submodule(name) for name in keep}
    return sum(
        int((~keep[name]).sum()) * layer.weight[:, 0].numel()
        for name, layer in layers.items()
        if isinstance(layer, nn.Conv2d | nn.Linear)
    )


@settings(max_examples=30)
@given(STEPS, st.booleans(), st.integers(0, 1000))
def test_the_smaller_network_equals_the_masked_one(steps: list[tuple[str, int]], flat: bool, seed: int) -> None:
    with global_seed(seed, "network"):
        model = Random(steps, flat=flat)
    pools = [name for name, module in model.named_modules() if isinstance(module, nn.MaxPool2d)]
    layers = [name for name, module in model.named_modules() if isinstance(module, nn.Conv2d) and module.groups == 1]
    expected, network, keep = masked_and_removed(model, {"all": [*layers[1:], *pools, "head"]}, seed)
    with torch.no_grad():
        torch.testing.assert_close(network(IMAGES), expected, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(network(IMAGES[:1]), expected[:1], rtol=1e-10, atol=1e-10)
    assert count(network) <= count(model) - dropped_weights(model, keep)
    cost = ChannelGraph(model, IMAGES).cost(keep)
    assert cost.parameters == count(network)
    assert cost.macs == pytest.approx(multiply_accumulates(network, (2, 6, 6)))
    assert all("polyarch" not in type(module).__module__ for module in network.modules())


def removed(model: nn.Module, x: Tensor, **drops: list[int]) -> nn.Module:
    """The network without some input channels of some layers, after a check that it computes the same in both modes."""
    layers = {name.replace("_", "."): drop for name, drop in drops.items()}
    net = gate(model.double(), x, groups={"all": list(layers)})
    keep = {one.name: torch.ones(one.slices, dtype=torch.bool) for one in net.gates}
    for name, drop in layers.items():
        keep[name][drop] = False
    network = ChannelGraph(model, x).removed(keep)
    for mode in (False, True):
        expected = run_gated(copy.deepcopy(model).train(mode), x, keep)
        torch.testing.assert_close(copy.deepcopy(network).train(mode)(x), expected, rtol=1e-10, atol=1e-10)
    return network


def layer_of(network: nn.Module, name: str) -> Any:
    return network.get_submodule(name)


def test_a_strided_layer_that_gets_narrow_reads_picked_pixels() -> None:
    """torch's gradient of a strided 1x1 convolution of few inputs is wrong, see `polyarch.nn.operations.pointwise`."""
    for dropped, stride in ((10, (1, 1)), (2, (2, 2))):
        model = nn.Sequential(nn.Conv2d(2, 20, 3), nn.Conv2d(20, 3, 1, stride=2))
        layer = layer_of(removed(model, IMAGES, **{"1": list(range(dropped))}), "1")
        assert (layer.stride, layer.in_channels) == (stride, 20 - dropped)


def test_a_chain_loses_rows_and_columns() -> None:
    """2 -> 4 -> 5 -> 3, with statistics: without channels 1 and 3 of the second layer's input."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 1), nn.Conv2d(5, 3, 1))
    network = removed(model, IMAGES, **{"3": [1, 3], "4": [0]})
    assert layer_of(network, "0").weight.shape == (2, 2, 3, 3)
    assert layer_of(network, "1").num_features == 2
    assert layer_of(network, "3").weight.shape == (4, 2, 1, 1)
    assert layer_of(network, "4").weight.shape == (3, 4, 1, 1)
    assert "index_select" not in network.code  # type: ignore[operator]
    assert count(network) == (2 * 2 * 9 + 2) + 2 * 2 + (4 * 2 + 4) + (3 * 4 + 3)


class Residual(nn.Module):
    """Two readers of the stem: a branch, and what comes after the addition."""

    def __init__(self, *, bias: bool = False, norm: bool = False, activation: Any = None) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 1)
        self.branch = nn.Conv2d(4, 4, 3, padding=1, bias=bias)
        self.norm = nn.BatchNorm2d(4) if norm else nn.Identity()
        self.activation = activation or nn.ReLU(inplace=True)
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y: Tensor = self.norm(self.branch(x))
        y += x
        return torch.add(self.last(self.activation(y)), x.mean())


def test_a_producer_stays_while_somebody_reads_it() -> None:
    """The mean of all is read at the end, so the stem stays whole; the branch loses the row that the last drops."""
    network = removed(Residual(bias=True, norm=True), IMAGES, branch=[0, 2], last=[1])
    assert layer_of(network, "stem").weight.shape == (4, 2, 1, 1)
    assert layer_of(network, "branch").weight.shape == (3, 2, 3, 3)
    assert layer_of(network, "norm").num_features == 3


@pytest.mark.parametrize(
    ("bias", "norm", "left"), [(False, False, set()), (True, False, {"_level_branch"}), (False, True, {"_level_norm"})]
)
def test_a_layer_without_input_is_its_constant(bias: bool, norm: bool, left: set[str]) -> None:
    """Zero disappears from the addition; a bias, or what statistics make of zeros, stays as a parameter."""
    network = removed(Residual(bias=bias, norm=norm), IMAGES, branch=[0, 1, 2, 3])
    names = {name for name, _ in network.named_parameters()}
    assert names == {"stem.weight", "stem.bias", "last.weight", "last.bias"} | left
    assert network.training


@pytest.mark.parametrize(
    "activation", [torch.relu_, F.relu_, lambda y: y.relu_(), lambda y: F.relu(y, inplace=True), lambda y: y.mul_(2)]
)
def test_a_change_in_place_does_not_reach_what_is_left_of_an_addition(activation: Callable[[Tensor], Tensor]) -> None:
    """Without the branch the sum is the stem itself, which is read once more afterwards."""
    removed(Residual(activation=activation), IMAGES, branch=[0, 1, 2, 3])


@pytest.mark.parametrize(
    "between", [nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.Softplus(), nn.BatchNorm2d(4), nn.AvgPool2d(2)]
)
def test_what_a_layer_does_not_read_because_it_is_constant(between: nn.Module) -> None:
    """Two channels of a pooling are dropped: zeros or constants on the way to the next layer, whose bias adds them."""
    model = nn.Sequential(nn.Conv2d(2, 4, 1), nn.MaxPool2d(2), between, nn.Conv2d(4, 3, 1))
    network = removed(model, IMAGES, **{"1": [0, 3]})
    assert layer_of(network, "0").weight.shape == (2, 2, 1, 1)
    assert layer_of(network, "3").weight.shape == (3, 2, 1, 1)


def test_a_flattened_channel_goes_with_the_last_of_its_features() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Flatten(), nn.Linear(108, 2))
    network = removed(model, IMAGES, **{"2": [*range(36, 72), 0, 107]})
    assert layer_of(network, "0").weight.shape == (2, 2, 3, 3)
    assert layer_of(network, "2").weight.shape == (2, 70)


@pytest.mark.parametrize("concatenate", [torch.cat, torch.concat])
def test_a_branch_of_a_concatenation_disappears(concatenate: Callable[..., Tensor]) -> None:
    class Concatenated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Conv2d(2, 3, 1), nn.Conv2d(2, 2, 3, padding=1)
            self.last = nn.Conv2d(5, 2, 1)

        def forward(self, x: Tensor) -> Any:
            return self.last(concatenate([self.left(x), self.right(x)], dim=-3))

    network = removed(Concatenated(), IMAGES, last=[1, 3, 4])
    assert {name for name, _ in network.named_children()} == {"left", "last"}
    assert layer_of(network, "left").weight.shape == (2, 2, 1, 1)


class Called(nn.Module):
    """Three layers, and some code between them."""

    def __init__(self, code: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(2, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1)
        self.scale = nn.Parameter(torch.ones(1, 4, 1, 1))
        self.shift = nn.Parameter(torch.rand(4, generator=generator_at(0, "shift")))
        self.code = code

    def forward(self, x: Tensor) -> Any:
        return self.last(self.code(self, self.first(x)))


@pytest.mark.parametrize(
    "code",
    [
        lambda net, x: net.second(net.second(x)),
        lambda net, x: net.second(x) * net.scale,
        lambda net, x: net.second(x) * torch.sigmoid(F.adaptive_avg_pool2d(x, 1)),
        lambda net, x: F.relu_(net.second(F.relu(x, inplace=True))) + x,
        lambda net, x: F.conv2d(x, net.second.weight) + net.second(x),
        lambda net, x: sum([net.second(x), x, x]),
        lambda net, x: torch.stack([net.second(x), x]).sum(0),
        lambda net, x: net.second(x.roll(1, dims=1)) / 2 - x,
        lambda net, x: net.second(x).mean((2, 3), keepdim=True) + x,
        lambda net, x: net.second(x).mean(1, keepdim=True) + x,
        lambda net, x: torch.cat([net.second(x), x], 3),
        lambda net, x: F.dropout(net.second(x), 0.5, training=False),
        lambda net, x: net.second(x) + net.shift.view(1, -1, 1, 1),
        lambda net, x: torch.add(net.second(x), torch.sigmoid(net.scale)),
        lambda net, x: net.second(x) - net.second.weight.sum((2, 3)).mean() * (1 + net.scale),
        lambda net, x: net.second(x) + torch.arange(4.0).view(1, 4, 1, 1),
        lambda net, x: net.second(x) * len(net.shift) / net.shift.numel() ** net.shift.dim(),
        lambda net, x: torch.cat(tensors=[net.second(x), x], dim=1)[:, 2:6],
        lambda net, x: net.second(x) * ((x > 0) & (x < 1)),
        lambda net, x: net.second(x.flatten(0, 1).view(x.shape)) + F.max_pool2d(x.flatten(2), 3, 1, 1).view(x.shape),
        lambda net, x: net.second(x) / np.sqrt(4) * np.float32(3),
        lambda net, x: net.second(x).mean([2, x.ndim - 1], keepdim=True) + x,
        lambda net, x: net.second(x) * net.second(x).squeeze(),
        lambda net, x: net.second(x) * x.flatten(2).sum(-1, keepdim=True).unsqueeze(-1),
        lambda net, x: net.second(x) - x.mean((2, 3), keepdim=True),
        lambda net, x: torch.sub(net.second(x), x, alpha=2),
        lambda net, x: x * x - net.second(x),
    ],
)
def test_code_between_layers(code: Callable[[Any, Tensor], Tensor]) -> None:
    """Layers called twice, weights used by hand, changes in place, and operations that mix channels."""
    model = Called(code)
    removed(model, IMAGES, second=[0], last=[1, 3])
    assert model.first.weight.shape == (4, 2, 1, 1)


def test_what_is_made_of_weights_is_made_of_those_that_are_trained() -> None:
    """The graph is written down before the training, and used after it."""
    model = Called(lambda net, x: net.second(x) + net.shift.view(1, -1, 1, 1)).double()
    gate(model, IMAGES, groups={"all": ["second"]})
    graph, keep = ChannelGraph(model, IMAGES), {"second": torch.tensor([True, False, True, True])}
    graph.cost(keep)
    with torch.no_grad():
        model.shift.add_(3.0)
        torch.testing.assert_close(graph.removed(keep)(IMAGES), run_gated(model, IMAGES, keep))


class Excited(nn.Module):
    """Squeeze and excitation between two convolutions, and a head on the largest pixels."""

    def __init__(self, head: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 6, 3), nn.Conv2d(6, 4, 1)
        self.squeeze, self.excite = nn.Conv2d(6, 3, 1), nn.Conv2d(3, 6, 1)
        self.linear = nn.Linear(4, 2)
        self.head = head

    def forward(self, x: Tensor) -> Any:
        x = F.relu(self.first(x))
        scale = self.excite(F.relu(self.squeeze(x.mean((2, 3), keepdim=True))))
        return self.linear(self.head(self.last(x * scale.sigmoid())))


@pytest.mark.parametrize(
    "head",
    [
        lambda x: x.amax((2, 3)),
        lambda x: x.sum(-1).sum(2),
        lambda x: x.flatten(2).mean(-1),
        lambda x: F.adaptive_avg_pool2d(x, 1).squeeze(-1).squeeze(-1),
        lambda x: F.max_pool1d(x.flatten(2), 16).flatten(1),
    ],
)
def test_channels_go_through_products_and_pooled_heads(head: Callable[[Tensor], Tensor]) -> None:
    network = removed(Excited(head), IMAGES, squeeze=[0, 1, 5], last=[0, 1, 5], linear=[3])
    assert layer_of(network, "first").weight.shape == (3, 2, 3, 3)
    assert layer_of(network, "excite").weight.shape == (3, 3, 1, 1)
    assert layer_of(network, "squeeze").weight.shape == (3, 3, 1, 1)
    assert layer_of(network, "last").weight.shape == (3, 3, 1, 1)


@pytest.mark.parametrize(
    "between", [nn.PReLU(), nn.PReLU(4), nn.SELU(), nn.CELU(), nn.Mish(), nn.Softsign(), nn.Upsample(scale_factor=2)]
)
def test_channels_go_through_activations(between: nn.Module) -> None:
    model = nn.Sequential(nn.Conv2d(2, 4, 1), nn.MaxPool2d(2), between, nn.Conv2d(4, 3, 1))
    network = removed(model, IMAGES, **{"1": [0, 3]})
    assert layer_of(network, "0").weight.shape == (2, 2, 1, 1) and layer_of(network, "3").weight.shape == (3, 2, 1, 1)
    keep = {"1": torch.tensor([False, True, True, False])}
    assert ChannelGraph(model, IMAGES).cost(keep).parameters == count(network)


def test_what_is_as_long_as_the_batch_is_not_a_batch() -> None:
    """Frames first, as many as the example has rows; and a table of weights with as many rows."""

    class Frames(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(6, 5), nn.Linear(5, 4), nn.Linear(4, 2)
            self.places = nn.Parameter(torch.randn(9, 1, 5, generator=generator_at(0, "places")))
            self.table = nn.Parameter(torch.randn(2, 5, generator=generator_at(0, "table")))

        def forward(self, x: Tensor) -> Any:
            frames = self.first(x).transpose(0, 1)
            frames = frames + self.places[: frames.size(0)]
            return self.last(torch.relu(self.second(frames)).mean(0)) + self.second(self.table).sum()

    model, x = Frames(), torch.randn(2, 2, 6, dtype=torch.float64, generator=generator_at(0, "frames"))
    network = removed(model, x, second=[0, 3], last=[1])
    other = torch.randn(5, 2, 6, dtype=torch.float64, generator=generator_at(0, "other"))
    keep = {"second": torch.tensor([0, 1, 1, 0, 1]).bool(), "last": torch.tensor([1, 0, 1, 1]).bool()}
    torch.testing.assert_close(network(other), run_gated(model, other, keep), rtol=1e-10, atol=1e-10)
    assert ChannelGraph(model, x).cost(keep).macs == multiply_accumulates(network, (2, 6))


@pytest.mark.parametrize("rows", [1, 3])
def test_a_dimension_that_one_row_does_not_have(rows: int) -> None:
    """Without a dimension to squeeze, one row loses that of the batch: in the smaller network, too."""

    class Squeezed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(2, 4, 1), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Any:
            return self.last(F.adaptive_avg_pool2d(self.first(x), 1).squeeze())

    model = Squeezed()
    network = removed(model, IMAGES, last=[0, 2])
    keep = {"last": torch.tensor([False, True, False, True])}
    torch.testing.assert_close(network(IMAGES[:rows]), run_gated(model, IMAGES[:rows], keep), rtol=1e-10, atol=1e-10)


def test_an_identity_is_the_value_itself() -> None:
    """Changed in place afterwards, as in residual networks that activate first."""

    class Activated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(2, 4, 1), nn.Conv2d(4, 4, 1)
            self.shortcut, self.activation = nn.Identity(), nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Any:
            x = self.first(x)
            shortcut = self.shortcut(x)
            return self.last(self.activation(x)) + shortcut

    removed(Activated(), IMAGES, last=[1, 2])


def test_a_constant_goes_to_another_precision_with_its_network() -> None:
    model = nn.Sequential(nn.Conv2d(2, 4, 1), nn.Conv2d(4, 3, 1, bias=False), nn.BatchNorm2d(3), nn.Conv2d(3, 2, 1))
    network = removed(model, IMAGES, **{"1": [0, 1, 2, 3]})
    expected = network.eval()(IMAGES)
    torch.testing.assert_close(network.float()(IMAGES.float()), expected.float())


def test_a_gated_layer_may_take_more_than_one_argument() -> None:
    class Scaled(nn.Linear):
        def forward(self, input: Tensor, scale: float = 1.0) -> Tensor:
            return scale * super().forward(input)

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(6, 4), Scaled(4, 3)

        def forward(self, x: Tensor) -> Any:
            return self.last(self.first(x), 0.5) + self.last(scale=2.0, input=self.first(x).relu())

    removed(Twice(), IMAGES[:, 0, 0], last=[1])


def test_what_cannot_be_copied_is_refused() -> None:
    with pytest.warns(FutureWarning, match="weight_norm"):
        normalised = nn.utils.weight_norm(nn.Linear(4, 4))
    model = nn.Sequential(nn.Linear(6, 4), normalised, nn.Linear(4, 2))
    net = gate(model, IMAGES[:, 0, 0].float(), groups={"all": ["2"]})
    net.extract(net.whole())
    net(IMAGES[:, 0, 0].float(), net.whole()).sum().backward()
    with pytest.raises(InvalidInput, match=r"Expected '1' to be copyable\. Got Linear: .*\.$"):
        net.extract(net.whole())


def test_a_gate_on_frames_in_the_batch() -> None:
    """Channels are second of four, though the first dimension is not the batch: they stay, as zeros."""

    class Frames(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 6, 1), nn.Conv2d(6, 3, 1)

        def forward(self, x: Tensor) -> Any:
            frames = self.second(self.first(x.flatten(0, 1).unsqueeze(1)))
            return frames.unflatten(0, x.shape[:2]).mean((1, 3, 4))

    removed(Frames(), IMAGES, second=[0, 4])  # as wide as there are channels


def test_a_gate_inside_of_a_layer_of_torch() -> None:
    """It is in the graph, where the layer can be written down."""

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(2, 4, 1)
            self.parallel = nn.DataParallel(nn.Conv2d(4, 3, 1), device_ids=[])

        def forward(self, x: Tensor) -> Any:
            return self.parallel(self.first(x))

    network = removed(Inside(), IMAGES, parallel_module=[0, 2])
    assert layer_of(network, "first").weight.shape == (2, 2, 1, 1)
    sequences = nn.Sequential(nn.Linear(6, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 2))
    with pytest.raises(InvalidInput, match=r"that torch\.fx can trace"):
        removed(sequences, IMAGES[:, :, 0], **{"1_linear1": [0]})


def test_a_layer_on_sequences_loses_rows_and_columns() -> None:
    """Its channels are last of three."""
    model = nn.Sequential(nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 3))
    network = removed(model, IMAGES[:, :, 0], **{"2": [0, 2]})
    assert layer_of(network, "0").weight.shape == (2, 6) and layer_of(network, "2").weight.shape == (3, 2)


def test_code_that_cannot_be_written_down_is_refused() -> None:
    model = Called(lambda net, x: net.second(x) if x.sum() > -1e9 else x)
    with pytest.raises(InvalidInput, match=r"that torch\.fx can trace"):
        removed(model, IMAGES, second=[0])
    model = Called(lambda net, x: net.second(x.clone().copy_(x)))
    with pytest.raises(InvalidInput, match=r"that torch\.fx can trace.* 'copy'\.$"):
        removed(model, IMAGES, second=[0])


def test_a_network_that_gives_several_values_is_refused() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(2, 4, 1), nn.Conv2d(4, 2, 1)

        def forward(self, x: Tensor) -> Any:
            return self.second(self.first(x)), x

    gate(model := Two(), IMAGES.float())
    with pytest.raises(InvalidInput, match=r"to return one tensor\. Got tuple"):
        ChannelGraph(model, IMAGES.float()).removed({"second": torch.ones(4)})
