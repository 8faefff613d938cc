"""Elastic layers and tied choices in a network of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from module_examples import normal
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from polyarch.errors import InvalidInput
from polyarch.nn import (
    ElasticBatchNorm2d,
    ElasticConv2d,
    ElasticLayerNorm,
    ElasticLinear,
    Maybe,
    OneOf,
    Repeat,
    Sizes,
    block_selection,
)
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, Space
from polyarch.supernets import ModuleSupernet, Supernet, from_module
from polyarch.testing import SpaceContract, SupernetContract


class Block(nn.Module):
    def __init__(self, name: str, width: Sizes) -> None:
        super().__init__()
        self.norm = ElasticBatchNorm2d(width)
        self.conv = ElasticConv2d(width, width, Sizes(f"{name}.kernel", 1, 3), padding=1, groups=width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(torch.relu(self.norm(x)))  # type: ignore[no-any-return]


class Images(nn.Module):
    """Elastic layers of every kind, inside and beside blocks."""

    def __init__(self, remember: bool = False) -> None:
        super().__init__()
        width, features = Sizes("width", 2, 3, 5), Sizes("features", 4, 6)
        self.remember = remember
        self.stem = ElasticConv2d(3, width, 3, stride=2, padding=1)
        self.body = Repeat("depth", [Block("first", width), Block("second", width)])
        self.middle = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), ElasticLinear(width * 4, features))
        norm = nn.Sequential(ElasticLayerNorm(features), nn.ReLU())
        twice = nn.Sequential(nn.ReLU(), ElasticLinear(features, features))
        self.end = OneOf("end", relu=nn.ReLU(), norm=norm, twice=twice)
        self.head = ElasticLinear(features, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = checkpoint(self.body, x, use_reentrant=False) if self.remember else self.body(x)
        return self.head(self.end(self.middle(x)))  # type: ignore[no-any-return]


class TestImages(SupernetContract):
    def make_supernet(self) -> Supernet:
        return from_module(Images().double(), self.make_inputs())

    def make_inputs(self) -> Tensor:
        return normal(5, 3, 7, 6)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return list(space.enumerate())[::47]


class TestCheckpointed(TestImages):
    def make_supernet(self) -> Supernet:
        return from_module(Images(remember=True).double(), self.make_inputs())

    def make_architectures(self, space: Space) -> list[Architecture]:
        return list(space.enumerate())[3::47]


class TestSpaceOfImages(SpaceContract):
    def make_space(self) -> Space:
        return from_module(Images()).space


class Tied(nn.Module):
    """One choice of depth, one of an activation and one of a width in several places, with weights of their own."""

    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        self.parts = nn.ModuleList()
        for part in range(2):
            width = Sizes("width", 3, 4, tied=tied)
            inner = Maybe("inner", nn.Tanh(), tied=tied)
            layers = [
                ElasticLinear(5, width),
                OneOf("act", tied=tied, relu=nn.ReLU(), maybe=inner),
                ElasticLinear(width, 5),
            ]
            depth = Repeat("depth", [nn.Linear(5, 5), nn.Linear(5, 5)], tied=tied)
            own = OneOf(f"own{part}", linear=nn.Linear(5, 5), norm=nn.BatchNorm1d(5))
            self.parts.append(nn.Sequential(*layers, depth, own))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = x + part(x)
        return x


class TestTied(SupernetContract):
    def make_supernet(self) -> Supernet:
        return from_module(Tied().double(), self.make_inputs())

    def make_inputs(self) -> Tensor:
        return normal(6, 5)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return list(space.enumerate())[::21]


def made(make: Callable[[], nn.Module]) -> ModuleSupernet:
    with global_seed(0, "net"):
        return from_module(make().double().eval())


def test_the_space_has_every_choice_once() -> None:
    assert {choice.name: choice.options for choice in made(Images).space.choices} == {
        "width": ("2", "3", "5"),
        "depth": ("1", "2"),
        "first.kernel": ("1", "3"),
        "second.kernel": ("1", "3"),
        "features": ("4", "6"),
        "end": ("relu", "norm", "twice"),
    }
    assert made(Tied).space.choice_names == ("width", "act", "inner", "depth", "own0", "own1")


@pytest.mark.parametrize("make", [Images, Tied])
def test_counts_are_those_of_the_extracted_network(make: Callable[[], nn.Module]) -> None:
    net = made(make)
    shape = (3, 7, 6) if make is Images else (5,)
    counts = set()
    for architecture in list(net.space.enumerate())[::5]:
        network = net.extract(architecture)
        assert type(network) is make
        assert net.parameter_count(architecture) == sum(parameter.numel() for parameter in network.parameters())
        counts.add((net.parameter_count(architecture), net.mac_count(architecture, shape)))
    assert len(counts) > 4


def test_widths_have_different_counts() -> None:
    """The extracted network is what one would write by hand: h (5 + 1) + 3 (h + 1) weights for a width of h."""
    width = Sizes("width", 16, 32)
    net = from_module(nn.Sequential(ElasticLinear(5, width), nn.ReLU(), ElasticLinear(width, 3)))
    counts = [net.parameter_count(architecture) for architecture in net.space.enumerate()]
    assert counts == [h * 6 + 3 * (h + 1) for h in (16, 32)]
    macs = [net.mac_count(architecture, (5,)) for architecture in net.space.enumerate()]
    assert macs == [h * 8 for h in (16, 32)]


def test_tied_blocks_have_their_own_weights_and_the_same_option() -> None:
    net = made(Tied)
    options = {"width": "3", "act": "relu", "inner": "on", "depth": "1", "own0": "norm", "own1": "linear"}
    network: Any = net.extract(net.space.architecture(options))
    first, second = network.parts
    assert [len(part[3]) for part in network.parts] == [1, 1]
    assert first[0].weight.shape == (3, 5) and not first[0].weight.equal(second[0].weight)
    assert isinstance(first[4], nn.BatchNorm1d) and isinstance(second[4], nn.Linear)


def test_a_tied_choice_matters_where_one_of_its_blocks_runs() -> None:
    space = made(Tied).space
    options = {"width": "3", "act": "relu", "inner": "on", "depth": "1", "own0": "norm", "own1": "linear"}
    relu = space.architecture(options)
    assert relu.canonical() == relu.replace(inner="off").canonical()
    assert relu.replace(act="maybe").canonical() != relu.replace(act="maybe", inner="off").canonical()
    inside = [Maybe("shared", nn.Tanh(), tied=True) for _ in range(2)]
    parts = [OneOf(f"part{i}", block=block, none=nn.Identity()) for i, block in enumerate(inside)]
    space = from_module(nn.Sequential(*parts)).space
    for first in ("block", "none"):
        for second in ("block", "none"):
            off, on = (space.architecture({"part0": first, "part1": second, "shared": s}) for s in ("off", "on"))
            assert (off.canonical() == on.canonical()) == (first == second == "none")


def test_kernels_of_blocks_that_do_not_run_do_not_distinguish() -> None:
    space = made(Images).space
    options = {"width": "2", "depth": "1", "first.kernel": "3", "second.kernel": "3", "features": "4", "end": "relu"}
    shallow = space.architecture(options)
    assert shallow.canonical() == "2|1|3|-|4|relu" == shallow.replace(**{"second.kernel": "1"}).canonical()


def test_checkpointing_recomputes_the_same_slices() -> None:
    """Also when other architectures ran in between."""
    found = []
    for remember in (False, True):
        with global_seed(0, "net"):
            net = from_module(Images(remember=remember).double())
        architectures = [net.space.sample(generator_at(0, "architecture", position)) for position in range(3)]
        gates = {c.name: torch.full((len(c),), 1 / len(c), dtype=torch.float64) for c in net.space.choices}
        outputs = [net(normal(4, 3, 7, 6), selection) for selection in (*architectures, gates)]
        torch.stack(outputs).square().sum().backward()
        found.append({name: parameter.grad for name, parameter in net.named_parameters()})
    assert not block_selection._notes
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-10, atol=1e-12, msg=name)


def test_gradients_per_example() -> None:
    """`torch.func` sees through slices of kernels."""
    net = made(Images)
    architecture = net.space.sample(generator_at(0, "architecture", 1))
    weights, x = {name: value.detach() for name, value in net.named_parameters()}, normal(3, 3, 7, 6)

    def loss(weights: dict[str, Tensor], example: Tensor) -> Tensor:
        output: Tensor = torch.func.functional_call(net, weights, (example[None], architecture))
        return output.square().sum()

    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x)
    net.zero_grad(set_to_none=True)
    net(x, architecture).square().sum().backward()
    for name, parameter in net.named_parameters():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(found[name].sum(0), expected, rtol=1e-10, atol=1e-12)


X = torch.ones(2, 5)
WIDTH = Sizes("width", 3, 4)


class Added(nn.Module):
    """Two widths that must be the same, and are not tied."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = ElasticLinear(5, WIDTH), ElasticLinear(5, Sizes("other", 3, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) + self.second(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            nn.Sequential(ElasticLinear(5, WIDTH), nn.Linear(4, 2)),
            "Expected the network to run with size 3 of 'width'; what reads elastic channels must be elastic, too. "
            "Got RuntimeError: mat1",
        ),
        (Added(), "Expected the network to run with size 3 of 'width'"),
        (
            nn.Sequential(ElasticLinear(5, WIDTH), ElasticLinear(4, 2)),
            "Expected the network to run with size 3 of 'width'",
        ),
        (nn.Sequential(ElasticLinear(6, WIDTH), ElasticLinear(WIDTH, 2)), "Expected 6 input channels of ElasticLinear"),
    ],
)
def test_an_example_shows_sizes_that_do_not_fit(model: nn.Module, message: str) -> None:
    from_module(model)  # cannot know
    with pytest.raises(InvalidInput) as caught:
        from_module(model, X)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tied(tied=False), "every block to have its own name. Got 'width' at 'parts.0.0' and 'parts.1.0'."),
        (
            lambda: nn.Sequential(Maybe("a", nn.Tanh(), tied=True), Maybe("a", nn.Tanh())),
            "every block to have its own name. Got 'a' at '0' and '1'.",
        ),
        (
            lambda: nn.Sequential(ElasticLinear(5, Sizes("width", 3, 4)), ElasticLinear(WIDTH, 2)),
            "every block to have its own name. Got 'width' at '0' and '1'.",
        ),
        (
            lambda: nn.Sequential(
                Repeat("depth", [nn.Tanh()] * 2, tied=True), Repeat("depth", [nn.Tanh()] * 3, tied=True)
            ),
            "tied choices to have the same options. Got 'depth' at '0' and '1': ['1', '2'] and ['1', '2', '3'].",
        ),
        (lambda: nn.Sequential(ElasticLinear(5, 4)), "an elastic layer with Sizes, among the submodules of Sequential"),
    ],
)
def test_impossible_choices(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_module(make())
    assert message in str(caught.value)


def test_an_option_cannot_be_called_tied() -> None:
    with pytest.raises(InvalidInput, match=r"Expected tied=True or tied=False for 'a'\. Got Tanh\."):
        OneOf("a", tied=nn.Tanh(), b=nn.ReLU())


def test_a_depth_with_elastic_layers_beside_it_is_no_chain_of_exits() -> None:
    model = nn.Sequential(
        Repeat("depth", [nn.Linear(5, 5), nn.Linear(5, 5)]), ElasticLinear(5, WIDTH), ElasticLinear(WIDTH, 2)
    )
    assert type(from_module(model, X)) is ModuleSupernet
