"""Random nested networks, with parts used in several places, against a description that is walked by hand."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from polyarch.nn import Maybe, OneOf, Repeat
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, Gates
from polyarch.supernets import ModuleSupernet, from_module

WIDTH = 3
KINDS = ("row", "one of", "repeat", "maybe")


@dataclass(eq=False)
class Part:
    """A layer without children, a row of parts, or a block; the same object in two places is the same module."""

    kind: str
    children: list[Part] = field(default_factory=list)
    minimum: int = 0
    name: str = ""
    module: nn.Module = field(default_factory=nn.Identity)

    @property
    def options(self) -> tuple[str, ...]:
        if self.kind == "one of":
            return tuple(f"option {position}" for position in range(len(self.children)))
        if self.kind == "repeat":
            return tuple(str(depth) for depth in range(self.minimum, len(self.children) + 1))
        return ("off", "on")

    def chosen(self, index: int) -> list[Part]:
        """The parts that an option runs, one after the other."""
        if self.kind == "one of":
            return [self.children[index]]
        return self.children[: self.minimum + index]  # a part that may be there is a repetition from 0 to 1

    def build(self) -> nn.Module:
        """The module of this part; children have theirs."""
        modules = [child.module for child in self.children]
        match self.kind:
            case "layer":
                return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Tanh()).double()
            case "row":
                return nn.Sequential(*modules)
            case "one of":
                return OneOf(self.name, **dict(zip(self.options, modules, strict=True)))
            case "repeat":
                return Repeat(self.name, modules, minimum=self.minimum)
        return Maybe(self.name, modules[0])


@st.composite
def networks(draw: st.DrawFn) -> Part:
    """Up to nine parts, built from the leaves up; any of them may become part of several others."""
    parts = [Part("layer") for _ in range(draw(st.integers(1, 4)))]
    for position in range(draw(st.integers(1, 5))):
        kind = "one of" if position == 0 else draw(st.sampled_from(KINDS))
        count = 1 if kind == "maybe" else draw(st.integers(1, 3))
        children = [parts[draw(st.integers(0, len(parts) - 1))] for _ in range(count)]
        parts.append(Part(kind, children, minimum=draw(st.integers(0, count)) if kind == "repeat" else 0))
    blocks = [part for part in parts if part.kind in KINDS[1:]]
    for number, block in enumerate(draw(st.permutations(blocks))):
        block.name = f"block {number}"
    network = Part("row", [parts[0], blocks[-1], *draw(st.lists(st.sampled_from(parts), max_size=2))])
    with global_seed(draw(st.integers(0, 9)), "weights"):
        for part in (*parts, network):
            part.module = part.build()
    return network


def preorder(part: Part, seen: set[Part]) -> Iterator[Part]:
    """Every part once, each before its children."""
    if part not in seen:
        seen.add(part)
        yield part
        for child in part.children:
            yield from preorder(child, seen)


def is_block(part: Part) -> bool:
    return part.kind in KINDS[1:]


def run_parts(part: Part, architecture: Architecture, seen: set[Part]) -> set[Part]:
    """All parts that a path runs."""
    if part not in seen:
        seen.add(part)
        for child in part.chosen(architecture[part.name]) if is_block(part) else part.children:
            run_parts(child, architecture, seen)
    return seen


def value(part: Part, x: Tensor, selection: Architecture | Gates) -> Tensor:
    """What the part computes; gates mix the outputs of the options."""
    if part.kind == "layer":
        return part.module(x)  # type: ignore[no-any-return]
    if not is_block(part):
        return in_a_row(part.children, x, selection)
    if isinstance(selection, Architecture):
        return in_a_row(part.chosen(selection[part.name]), x, selection)
    outputs = [in_a_row(part.chosen(index), x, selection) for index in range(len(part.options))]
    return torch.einsum("o,obw->bw", selection[part.name], torch.stack(outputs))


def in_a_row(parts: list[Part], x: Tensor, selection: Architecture | Gates) -> Tensor:
    for part in parts:
        x = value(part, x, selection)
    return x


def supernet_of(network: Part) -> tuple[ModuleSupernet, Tensor, list[Architecture]]:
    x = torch.randn(4, WIDTH, dtype=torch.float64, generator=generator_at(0, "inputs"))
    net = from_module(network.module, x).eval()
    return net, x, [net.space.sample(generator_at(0, "architecture", position)) for position in range(5)]


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@given(network=networks())
def test_the_space_is_what_was_built(network: Part) -> None:
    net, _, _ = supernet_of(network)
    blocks = [part for part in preorder(network, set()) if is_block(part)]
    assert [(choice.name, choice.options) for choice in net.space.choices] == [(b.name, b.options) for b in blocks]


@given(network=networks())
def test_path_gates_and_extracted_network_agree(network: Part) -> None:
    net, x, architectures = supernet_of(network)
    for architecture in architectures:
        expected = value(network, x, architecture)
        close(net(x, architecture), expected)
        close(net(x, architecture.one_hot(dtype=torch.float64)), expected)
        extracted = net.extract(architecture)
        close(extracted(x), expected)
        assert b"polyarch" not in pickle.dumps(extracted)


@given(network=networks(), seed=st.integers(0, 99))
def test_relaxed_gates_mix_the_options(network: Part, seed: int) -> None:
    _, x, _ = supernet_of(network)
    net = from_module(network.module).eval()  # without an example: a lone Repeat would mix logits instead
    gates = {
        choice.name: torch.rand(len(choice), dtype=torch.float64, generator=generator_at(seed, "gates", choice.name))
        for choice in net.space.choices
    }
    close(net(x, gates), value(network, x, gates))


@given(network=networks())
def test_parameters_of_what_is_run(network: Part) -> None:
    net, _, architectures = supernet_of(network)
    layer = WIDTH * WIDTH + 3 * WIDTH
    for architecture in architectures:
        layers = [part for part in run_parts(network, architecture, set()) if part.kind == "layer"]
        parameters = list(net.extract(architecture).parameters())
        assert net.parameter_count(architecture) == layer * len(layers) == sum(p.numel() for p in parameters)


@given(network=networks())
def test_canonical_keys_name_what_is_run(network: Part) -> None:
    """Architectures share a key exactly if they agree on the choices that are run."""
    net, _, architectures = supernet_of(network)
    described = []
    for architecture in architectures:
        blocks = [part.name for part in run_parts(network, architecture, set()) if is_block(part)]
        described.append({name: architecture.option(name) for name in blocks})
    for first, one in zip(architectures, described, strict=True):
        for second, other in zip(architectures, described, strict=True):
            assert (first.canonical() == second.canonical()) == (one == other)
    assert pickle.loads(pickle.dumps(net.space)).canonical_key(architectures[0]) == architectures[0].canonical()
