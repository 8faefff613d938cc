"""Networks of one's own keep the contract; what is read off them, extracted from them and counted."""

from __future__ import annotations

import doctest
import pickle
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from module_examples import Images, normal
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import polyarch.supernets.module
from polyarch.nn import Maybe, OneOf, Repeat
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, Space
from polyarch.supernets import ModuleSupernet, Supernet, from_module
from polyarch.testing import SpaceContract, SupernetContract


def layer(name: str) -> nn.Module:
    """Blocks inside a block inside a block."""
    inner = OneOf(f"{name}.act", tanh=nn.Tanh(), norm=nn.BatchNorm1d(5), linear=nn.Linear(5, 5))
    deep = nn.Sequential(nn.Linear(5, 5), Maybe(f"{name}.act?", inner), nn.Linear(5, 5))
    return OneOf(name, narrow=nn.Linear(5, 5), deep=deep, skip=nn.Identity())


class Nested(nn.Module):
    """A depth of layers with choices inside; the last block is run twice."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Repeat("depth", [layer("first"), nn.Tanh(), layer("second")])
        self.again = OneOf("again", linear=nn.Linear(5, 5), norm=nn.BatchNorm1d(5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x.flatten(1))
        return x + torch.tanh(self.again(torch.tanh(self.again(x))))


class Sharing(nn.Module):
    """A module in two options, a block in two places, and weights that belong to two modules."""

    def __init__(self) -> None:
        super().__init__()
        shared = nn.Linear(4, 4)
        both = Maybe("both", nn.Linear(4, 4))
        self.first = OneOf("first", plain=shared, more=nn.Sequential(shared, nn.Tanh(), both), other=nn.Linear(4, 4))
        self.second = OneOf("second", with_both=nn.Sequential(nn.Tanh(), both), sharing=nn.Linear(4, 4))
        self.repeated = Repeat("repeated", [nn.Sequential(shared, nn.Tanh())] * 3)
        tied, other = self.second.options[1], self.first.options[2]
        assert isinstance(tied, nn.Linear) and isinstance(other, nn.Linear)
        tied.weight = other.weight
        self.head = nn.Linear(4, 4)
        self.head.bias = shared.bias

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.repeated(torch.tanh(self.second(torch.tanh(self.first(x))))))
        return logits


class Split(nn.Module):
    """Two tensors in by name and by position, a dict with a list of two out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(2, width, 1), nn.Conv2d(2, width, 3, padding=1)
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, left: Tensor, *, right: Tensor) -> dict[str, Any]:
        left, right = self.left(left), self.right(right)
        return {"both": [self.out(left), self.out(right)], "kept": (right.mean((1, 2, 3)), None, 3)}


class Structured(nn.Module):
    """Options with several inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.split = OneOf("split", narrow=Split(2), wide=Split(3))

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.stem(x).chunk(2, 1)
        found = self.split(left, right=right)
        return (found["both"][0] * found["both"][1]).mean((2, 3)) + found["kept"][0][:, None]  # type: ignore[no-any-return]


class Checkpointed(nn.Module):
    """Everything but stem and head is computed again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(5, 5), nn.Linear(5, 2)
        self.body = nn.Sequential(layer("layer"), nn.Tanh(), Repeat("depth", [nn.Linear(5, 5), nn.Linear(5, 5)]))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(checkpoint(self.body, self.stem(x), use_reentrant=False))
        return logits


class TestImages(SupernetContract):
    def make_supernet(self) -> Supernet:
        return from_module(Images().double(), self.make_inputs())

    def make_inputs(self) -> Tensor:
        return normal(5, 3, 6, 7)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return list(space.enumerate())[::3]


class TestNested(SupernetContract):
    def make_supernet(self) -> Supernet:
        return from_module(Nested().double(), self.make_inputs())

    def make_inputs(self) -> Tensor:
        return normal(6, 5)


class TestSharing(SupernetContract):
    def make_supernet(self) -> Supernet:
        return from_module(Sharing().double(), self.make_inputs())

    def make_inputs(self) -> Tensor:
        return normal(6, 4)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return list(space.enumerate())[::2]


class TestStructuredInChannelsLast(SupernetContract):
    tolerance = 1e-5

    def make_supernet(self) -> Supernet:
        model: nn.Module = Structured().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return from_module(model, self.make_inputs())

    def make_inputs(self) -> Tensor:
        return normal(4, 3, 5, 5, dtype=torch.float32).contiguous(memory_format=torch.channels_last)


class TestCheckpointed(SupernetContract):
    def make_supernet(self) -> Supernet:
        return from_module(Checkpointed().double(), self.make_inputs())

    def make_inputs(self) -> Tensor:
        return normal(6, 5)


class TestBlockAlone(SupernetContract):
    """The module is nothing but a block, whose option is a block."""

    def make_supernet(self) -> Supernet:
        inner = Repeat("depth", [nn.Linear(4, 4), nn.Linear(4, 4)])
        return from_module(OneOf("which", inner=inner, norm=nn.BatchNorm1d(4)).double())

    def make_inputs(self) -> Tensor:
        return normal(6, 4)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return list(space.enumerate())


class TestSpaceOfNested(SpaceContract):
    def make_space(self) -> Space:
        return from_module(Nested()).space


def made(make: Callable[[], nn.Module]) -> ModuleSupernet:
    with global_seed(0, "net"):
        return from_module(make().double().eval())


def test_the_space_is_in_order_of_definition() -> None:
    space = made(Nested).space
    assert space.name == "Nested"
    assert {choice.name: choice.options for choice in space.choices} == {
        "depth": ("1", "2", "3"),
        "first": ("narrow", "deep", "skip"),
        "first.act?": ("off", "on"),
        "first.act": ("tanh", "norm", "linear"),
        "second": ("narrow", "deep", "skip"),
        "second.act?": ("off", "on"),
        "second.act": ("tanh", "norm", "linear"),
        "again": ("linear", "norm"),
    }
    assert list(space.choice_names)[:4] == ["depth", "first", "first.act?", "first.act"]
    assert from_module(Nested(), name="mine").space.name == "mine"


def test_choices_that_are_not_run_do_not_distinguish() -> None:
    space = made(Nested).space
    start = space.architecture(("1", "deep", "off", "tanh", "narrow", "off", "tanh", "norm"))
    assert start.canonical() == "1|deep|off|-|-|-|-|norm"
    for name, option in {"first.act": "norm", "second": "deep", "second.act?": "on"}.items():
        assert start.replace(**{name: option}).canonical() == start.canonical()
    for name, option in {"first": "narrow", "depth": "3", "first.act?": "on", "again": "linear"}.items():
        assert start.replace(**{name: option}).canonical() != start.canonical()
    same = pickle.loads(pickle.dumps(space))
    assert same == space and same.canonical_key(start) == start.canonical()


def test_a_block_in_two_places_matters_when_either_is_run() -> None:
    space = made(Sharing).space
    assert space.choice_names == ("first", "both", "second", "repeated")
    for first, second in product(space["first"].options, space["second"].options):
        off, on = (space.architecture((first, both, second, "1")) for both in ("off", "on"))
        assert (off.canonical() == on.canonical()) == (first != "more" and second != "with_both")


def test_without_nesting_every_architecture_is_its_own() -> None:
    assert made(Images).space.canonical is None


@pytest.mark.parametrize("make", [Images, Nested, Sharing, Structured])
def test_parameters_are_those_of_the_extracted_network(make: Callable[[], nn.Module]) -> None:
    net = made(make)
    counts = set()
    for position in range(20):
        architecture = net.space.sample(generator_at(0, "architecture", position))
        network = net.extract(architecture)
        counts.add(net.parameter_count(architecture))
        assert net.parameter_count(architecture) == sum(parameter.numel() for parameter in network.parameters())
        assert all(module.training is False for module in network.modules())
    assert len(counts) > 1


def test_what_is_shared_stays_shared_in_an_extracted_network() -> None:
    net = made(Sharing)
    plain: Any = net.extract(net.space.architecture(("more", "on", "with_both", "2")))
    kinds = [type(part) for part in (plain, plain.first, plain.second, plain.repeated)]
    assert kinds == [Sharing, nn.Sequential, nn.Sequential, nn.Sequential]
    assert plain.first[2] is plain.second[1]
    assert plain.repeated[0] is plain.repeated[1] and plain.repeated[0][0] is plain.first[0]
    assert plain.head.bias is plain.first[0].bias
    tied: Any = net.extract(net.space.architecture(("other", "on", "sharing", "1")))
    assert tied.first.weight is tied.second.weight


def test_unchosen_options_are_not_copied() -> None:
    class Counting(nn.Linear):
        copies = 0

        def __deepcopy__(self, memo: dict[int, Any]) -> nn.Module:
            Counting.copies += 1
            return nn.Linear(5, 5)

    inner = OneOf("inner", a=Counting(5, 5), b=Counting(5, 5))
    net = from_module(nn.Sequential(OneOf("outer", a=inner, b=Counting(5, 5)), Repeat("depth", [Counting(5, 5)] * 3)))
    net.extract(net.space.architecture(("b", "a", "3")))
    assert Counting.copies == 2  # the option of "outer", and the one module of "depth"
    net.extract(net.space.architecture(("a", "b", "1")))
    assert Counting.copies == 4


def test_references_beside_the_module_tree_are_followed() -> None:
    """A network may keep its parts in plain lists too, and parts may know what they belong to."""

    class Knowing(nn.Linear):
        owner: tuple[nn.Module, ...] = ()

    class Owner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            part = Knowing(2, 2)
            self.block = OneOf("block", part=part, other=OneOf("inner", a=nn.Tanh(), b=nn.ReLU()))
            self.all = [self.block, self.block.options[1]]
            part.owner = (self, self.block)

    net = from_module(Owner())
    network: Any = net.extract(net.space.architecture(("part", "b")))
    part: Any = network.block
    assert [type(part), type(network.all[1])] == [Knowing, nn.ReLU]
    assert part.owner[0] is network and part.owner[1] is part is network.all[0]


def test_the_example_in_the_documentation() -> None:
    assert doctest.testmod(polyarch.supernets.module) == (0, 9)
