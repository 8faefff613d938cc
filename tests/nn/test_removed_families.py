"""Channels removed from whole networks, most of them dropped: equal outputs at other image sizes, and less work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.nn import ChannelGraph, multiply_accumulates, run_gated
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import gate

SIZES = (8, 11)
DRAWS = 5


def convolution(inputs: int, outputs: int, **options: Any) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False, **options), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, width: int, middle: nn.Module | None = None) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            convolution(width, width), middle or nn.Identity(), nn.Conv2d(width, width, 3, padding=1), nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Any:
        return F.relu(x + self.branch(x))


class Shuffle(nn.Module):
    """Channel shuffle by hand, after half of the channels went through a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.last = convolution(4, 4), convolution(8, 8)

    def forward(self, x: Tensor) -> Any:
        left, right = x.chunk(2, dim=1)
        x = torch.cat([left, self.one(right)], 1)
        rows, channels, height, width = x.shape
        x = x.view(rows, 2, channels // 2, height, width).transpose(1, 2).contiguous().view(rows, -1, height, width)
        return self.last(x)


class UNet(nn.Module):
    """Down and up again, with a transposed convolution and an interpolation to the size of what was skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.down, self.deeper = convolution(2, 8), convolution(8, 8, stride=2), convolution(8, 8, stride=2)
        self.up = nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1)
        self.middle, self.last = convolution(14, 8), convolution(16, 8)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, x: Tensor) -> Any:
        first = self.stem(x)
        second = self.down(first)
        third = self.up(self.deeper(second))[:, :, : second.size(2), : second.size(3)]
        second = self.middle(torch.cat([second, F.relu(third)], 1))
        back = F.interpolate(second, size=first.shape[2:])
        return self.head(self.last(torch.cat([first, back], 1)))


def body(*blocks: nn.Module) -> nn.Sequential:
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    return nn.Sequential(convolution(2, 8), *blocks, *head)


FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "residual": lambda: body(Block(8), nn.AvgPool2d(3, 2, 1), Block(8), Block(8)),
    "U-Net": UNet,
    "grouped": lambda: body(Block(8, convolution(8, 8, groups=4)), Block(8, nn.Conv2d(8, 8, 1, groups=2))),
    "group norm": lambda: body(Block(8, nn.GroupNorm(4, 8)), Block(8, nn.GroupNorm(2, 8))),
    "shuffle": lambda: body(Shuffle(), nn.MaxPool2d(2), nn.ChannelShuffle(4), convolution(8, 8), Shuffle()),
    "depthwise": lambda: body(Block(8, nn.Conv2d(8, 8, 3, padding=1, groups=8)), Block(8, nn.Dropout2d())),
}


def randomised(model: nn.Module, seed: int) -> nn.Module:
    """In float64, with statistics and biases that matter."""
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.is_floating_point():
                tensor.add_(0.3 * torch.rand(tensor.shape, generator=generator_at(seed, name)))
    return model.double().eval()


def drawn(model: nn.Module, x: Tensor, drop: float, seed: int) -> dict[str, Tensor]:
    """Gates on all layers but the first, with every channel dropped at one rate."""
    gates = gate(model, x).gates
    return {one.name: torch.rand(one.slices, generator=generator_at(seed, one.name)) >= drop for one in gates}


def images(size: int) -> Tensor:
    return torch.randn(3, 2, size, size, dtype=torch.float64, generator=generator_at(size, "images"))


@pytest.mark.parametrize("drop", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("family", FAMILIES)
def test_equal_outputs_at_two_sizes_for_less_work(family: str, drop: float) -> None:
    for seed in range(DRAWS):
        with global_seed(seed, family):
            model = randomised(FAMILIES[family](), seed)
        keep = drawn(model, images(SIZES[0]), drop, seed)
        graph = ChannelGraph(model, images(SIZES[0]))
        network = graph.removed(keep)
        for size in SIZES:
            with torch.no_grad():
                expected = run_gated(model, images(size), keep)
                torch.testing.assert_close(network(images(size)), expected, rtol=1e-9, atol=1e-9)
                torch.testing.assert_close(network(images(size)[:1]), expected[:1], rtol=1e-9, atol=1e-9)
        work = multiply_accumulates(network, (2, SIZES[0], SIZES[0]))
        assert work < multiply_accumulates(model, (2, SIZES[0], SIZES[0]))
        assert graph.cost(keep).parameters == sum(p.numel() for p in network.parameters())
        assert graph.cost(keep).macs == pytest.approx(work)


def kept(model: nn.Module, x: Tensor, **dropped: list[int]) -> tuple[nn.Module, dict[str, Tensor]]:
    """The network without some input channels of some layers, after a check that it computes the same."""
    randomised(model, 0)
    gates = gate(model, x).gates
    keep = {one.name: torch.ones(one.slices, dtype=torch.bool) for one in gates}
    for name, channels in dropped.items():
        keep[name.replace("_", ".")][channels] = False
    network = ChannelGraph(model, x).removed(keep)
    with torch.no_grad():
        torch.testing.assert_close(network(x), run_gated(model, x, keep), rtol=1e-9, atol=1e-9)
    assert ChannelGraph(model, x).cost(keep).parameters == sum(p.numel() for p in network.parameters())
    return network, keep


def test_what_follows_a_layer_without_inputs_is_folded() -> None:
    """A padded convolution of constants reads a single channel of ones; without padding it is a constant, too."""
    x = images(8)
    for padding, left in ((1, 4 * 9 * 8 * 8), (0, 0)):
        block = Block(8)
        block.branch[2] = nn.Conv2d(8, 8, 3, padding=padding) if padding else nn.Conv2d(8, 8, 1)
        model = body(block)
        network, keep = kept(model, x, **{"1_branch_0_0": list(range(8)), "4": [0, 1, 2, 3]})
        stem, head = 4 * 2 * 9 * 8 * 8, 4 * 3
        assert multiply_accumulates(network, x) == stem + left + head
        assert ChannelGraph(model, x).cost(keep).macs == stem + left + head


def test_groups_become_as_narrow_as_the_widest() -> None:
    """Of four groups of two inputs and outputs the last is not read; each other one loses an input and an output."""
    model = nn.Sequential(nn.Conv2d(2, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.Conv2d(8, 3, 1))
    network, _ = kept(model, images(6), **{"1": [0, 3, 4], "2": [1, 2, 5, 6, 7]})
    grouped: Any = network.get_submodule("1")
    assert (grouped.groups, tuple(grouped.weight.shape)) == (3, (3, 1, 3, 3))
    assert network.get_submodule("0").weight.shape == (3, 2, 1, 1)


def test_a_group_that_is_normalised_stays_while_one_channel_is_read() -> None:
    model = nn.Sequential(nn.Conv2d(2, 6, 1), nn.GroupNorm(3, 6), nn.Conv2d(6, 3, 1))
    network, _ = kept(model, images(6), **{"2": [1, 2, 3]})
    norm: Any = network.get_submodule("1")
    assert (norm.num_groups, norm.num_channels) == (2, 4)
    assert network.get_submodule("0").weight.shape == (4, 2, 1, 1)
    assert network.get_submodule("2").weight.shape == (3, 3, 1, 1)


def test_a_transposed_convolution_loses_rows_and_columns() -> None:
    model = nn.Sequential(nn.Conv2d(2, 6, 1), nn.ConvTranspose2d(6, 4, 2, stride=2), nn.Conv2d(4, 3, 1))
    network, _ = kept(model, images(6), **{"1": [0, 5], "2": [3]})
    assert network.get_submodule("1").weight.shape == (4, 3, 2, 2)
    assert network.get_submodule("0").weight.shape == (4, 2, 1, 1)


class Attention(nn.Module):
    """A transformer block that normalises first, with code of its own for the attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.second, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Any:
        rows, tokens, width = x.shape
        parts = self.qkv(self.norm(x)).view(rows, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Vision(nn.Module):
    """Patches, a position for each, blocks, and the mean of all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.places = nn.Conv2d(2, 8, 2, stride=2), nn.Parameter(torch.zeros(1, 16, 8))
        self.blocks, self.norm = nn.Sequential(Attention(8, 2), Attention(8, 2)), nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Any:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.blocks(tokens)).mean(1))


@pytest.mark.parametrize("drop", [0.2, 0.5, 0.9])
def test_attention_loses_the_channels_that_its_linear_layers_drop(drop: float) -> None:
    """Columns of all linear layers, and rows of those whose channels have one reader."""
    for seed in range(DRAWS):
        with global_seed(seed, "attention"):
            model = randomised(Vision(), seed)
        x = images(8)
        keep = drawn(model, x, drop, seed)
        graph = ChannelGraph(model, x)
        network = graph.removed(keep)
        with torch.no_grad():
            torch.testing.assert_close(network(x), run_gated(model, x, keep), rtol=1e-9, atol=1e-9)
        layers = {name: model.get_submodule(name) for name in keep}
        linear = {name: layer for name, layer in layers.items() if isinstance(layer, nn.Linear)}
        dropped = sum(int((~keep[name]).sum()) * layer.out_features for name, layer in linear.items())
        hidden = sum(int((~keep[name]).sum()) * 8 for name in linear if name.endswith("down"))  # the rows of `up`
        left, whole = (sum(p.numel() for p in one.parameters()) for one in (network, model))
        overlap = sum(
            int((~keep[name]).sum()) * int((~keep[name.replace("down", "up")]).sum())
            for name in linear if name.endswith("down")
        )  # fmt: skip
        assert left <= whole - dropped - hidden + overlap
        assert graph.cost(keep).parameters == left
