"""Supernets with inter-choice weights: published sizes, the right rows, rows that rest, folding."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.nn import ChoiceBlock, InterChoice, InterChoiceKind, SplitCopies
from polyarch.nn.choice_vectors import ChoiceVectors, JointBias
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import NB201_EDGES, NB201_OPERATIONS, Architecture, parse_nb201
from polyarch.supernets import ChainSupernet, NB201Supernet, Supernet
from polyarch.supernets.chain import ChainLayer
from polyarch.supernets.nb201 import Cell, live_steps, predecessors_of

KINDS: tuple[InterChoiceKind, ...] = ("bias", "shared_bias", "split", "attention", "deep_attention")
SILENT: tuple[InterChoiceKind, ...] = ("bias", "shared_bias", "split")
"""Those that change nothing at the start."""

ORDER = {1: [(), (0,), (1,), (2,), (3,), (4,)], 2: [(), (0,), (0, 1), (1, 2), (2, 3), (3, 4)]}
GRAPH = {1: [(), (), (0,), (), (0,), (2,)], 2: [(), (), (0,), (), (0,), (1, 2)]}


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def cell_net(kind: InterChoiceKind | None = None, previous: int = 1) -> NB201Supernet:
    with global_seed(0, "weights"):
        return NB201Supernet(channels=2, cells=1, interchoice=InterChoice(kind, previous) if kind else None)


def chain_net(kind: InterChoiceKind | None = None, previous: int = 1) -> ChainSupernet:
    with global_seed(0, "weights"):
        return ChainSupernet(
            channels=(4, 4, 6, 6), kernels=(3, 5), expansions=(1,), stem_channels=4, head_channels=6,
            interchoice=InterChoice(kind, previous) if kind else None,
        )  # fmt: skip


def disturbed(net: Supernet) -> Supernet:
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator_at(0, "noise", name))
            parameter.add_(0.3 * noise.to(parameter))
    return net


def split(net: Supernet) -> None:
    for block in net.modules():
        if isinstance(block, ChoiceBlock) and isinstance(block.interchoice, SplitCopies):
            block.interchoice.split(block.operations)


def layer_of(net: ChainSupernet, position: int) -> ChainLayer:
    layer = net.layers[position]
    assert isinstance(layer, ChainLayer)
    return layer


def edge_of(net: NB201Supernet, layer: int, edge: int) -> ChoiceBlock:
    cell = net.layers[layer]
    assert isinstance(cell, Cell)
    block = cell.edges[edge]
    assert isinstance(block, ChoiceBlock)
    return block


def row(block: ChoiceBlock, *combination: int) -> Tensor:
    assert isinstance(block.interchoice, JointBias)
    found: Tensor = block.interchoice.rows["-".join(map(str, combination))]
    return found


def images(count: int = 4) -> Tensor:
    return torch.randn(count, 3, 6, 6, generator=generator_at(0, "images"))


def draws(net: Supernet, number: int) -> list[Architecture]:
    return [net.space.sample(generator_at(0, "draws", index)) for index in range(number)]


def test_the_supernet_of_the_document_has_its_published_size() -> None:
    net = NB201Supernet(channels=16, cells=2, pool_convolution=True)
    assert count(net) == 782_938
    assert count(net.stem) == 464 and count(net.head) == 778
    sizes = [count(layer) for layer in net.layers]
    assert sizes == [16_896, 16_896, 14_464, 67_584, 67_584, 57_600, 270_336, 270_336]


def test_predecessors_of_the_edges() -> None:
    for previous in (1, 2):
        assert list(predecessors_of(InterChoice("bias", previous))) == ORDER[previous]
        assert list(predecessors_of(InterChoice("bias", previous, "graph"))) == GRAPH[previous]
    assert predecessors_of(InterChoice("bias", 3, "graph")) == predecessors_of(InterChoice("bias", 2, "graph"))
    assert predecessors_of(InterChoice("bias", 3))[4:] == ((1, 2, 3), (2, 3, 4))
    steps = live_steps((1, 2, 3, 4, 1, 2), (False, *[True] * 4), predecessors_of(InterChoice("bias", 2)))
    assert [step[4] for step in steps] == [(), (1,), (1, 2), (2, 3), (3, 4), (4, 1)]


@pytest.mark.parametrize("make", [cell_net, chain_net])
@pytest.mark.parametrize("kind", KINDS)
def test_extra_weights_are_not_counted(kind: InterChoiceKind, make: type) -> None:
    plain, net = make(), make(kind)
    assert count(net) > count(plain)
    own = sum(p.numel() for name, p in net.named_parameters() if ".interchoice." not in name)
    assert own == count(plain)
    assert all(net.parameter_count(a) == plain.parameter_count(a) for a in draws(plain, 5))


def test_a_bias_has_vectors_for_all_options_before_but_not_for_nothing() -> None:
    net = cell_net("bias", 2)
    passing, options = len(NB201_OPERATIONS) - 1, len(NB201_OPERATIONS)
    rows = passing * (options + 4 * options**2)
    assert count(net) - count(cell_net()) == rows * (2 + 4 + 8)


@pytest.mark.parametrize("make", [cell_net, chain_net])
@pytest.mark.parametrize("kind", SILENT)
def test_nothing_is_different_at_the_start(kind: InterChoiceKind, make: type) -> None:
    plain, net = make(), make(kind)
    shared = {name: value for name, value in net.state_dict().items() if ".interchoice." not in name}
    assert shared.keys() == plain.state_dict().keys()
    assert all(value.equal(shared[name]) for name, value in plain.state_dict().items())
    for architecture in draws(plain, 4):
        assert net(images(), architecture).equal(plain(images(), architecture))


def written_out(net: NB201Supernet, x: Tensor, options: Sequence[int], before: list[tuple[int, ...]]) -> Tensor:
    """The first cell's output as the sum over edges that the document writes."""
    nodes: list[Tensor] = [x]
    for target in (1, 2, 3):
        total = torch.zeros_like(x)
        for edge, (source, end) in enumerate(NB201_EDGES):
            if end != target:
                continue
            block, value = edge_of(net, 0, edge), nodes[source]
            if before[edge]:
                value = value + row(block, options[edge], *(options[other] for other in before[edge]))
            total = total + block.operation(options[edge])(value)
        nodes.append(total)
    return nodes[3]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("rule", ["order", "graph"])
@pytest.mark.parametrize("previous", [1, 2])
def test_a_cell_adds_the_rows_of_its_combinations(previous: int, rule: str, affine: bool, training: bool) -> None:
    """Against the sum over edges written out, on cells without dead edges: value, statistics and gradients.

    In training vectors ride on normalisation layers, and have to come to the same.
    """
    interchoice = InterChoice("bias", previous, "graph" if rule == "graph" else "order")
    before = (GRAPH if rule == "graph" else ORDER)[previous]
    net = NB201Supernet(
        channels=2, cells=1, operations=NB201_OPERATIONS[1:], affine=affine, interchoice=interchoice
    ).double()
    disturbed(net).train(training)
    expected_net = copy.deepcopy(net)
    x, shift, slope = (
        torch.randn(*shape, dtype=torch.float64, generator=generator_at(0, name))
        for name, shape in {"x": (3, 2, 5, 5), "shift": (2, 1, 1), "slope": (3, 2, 5, 5)}.items()
    )
    for architecture in draws(net, 12):
        options = architecture.indices
        expected = written_out(expected_net, x + shift, options, before)
        value, left = net.layers[0](x, live_steps(options, (True,) * 4, predecessors_of(interchoice)), shift)
        value = value if left is None else value + left
        torch.testing.assert_close(value, expected)
        (slope * value).sum().backward()
        (slope * expected).sum().backward()
    wanted = dict(expected_net.named_parameters())
    for name, parameter in net.layers[0].named_parameters(prefix="layers.0"):
        zeros = torch.zeros_like(parameter)  # rows that were not used have no gradient
        found, right = (zeros if one.grad is None else one.grad for one in (parameter, wanted[name]))
        torch.testing.assert_close(found, right)
    torch.testing.assert_close(dict(net.named_buffers()), dict(expected_net.named_buffers()))


@pytest.mark.parametrize(("training", "additions"), [(True, 0), (False, 2)])
def test_in_training_no_vector_of_a_row_of_convolutions_takes_a_pass(
    training: bool, additions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convolutions 0 to 1 to 2 to 3 and a skip from 1 to 3, whose vector the last normalisation layer adds."""
    net = cell_net("bias").train(training)
    string = "|nor_conv_1x1~0|+|none~0|nor_conv_3x3~1|+|none~0|skip_connect~1|nor_conv_1x1~2|"
    path = parse_nb201(string, net.space).indices
    steps = live_steps(path, tuple(name != "none" for name in NB201_OPERATIONS), net.layers[0].predecessors)
    added: list[Tensor | None] = []
    between = ChoiceBlock.between

    def watched(block: ChoiceBlock, x: Tensor, before: Tensor | None, *rest: Any) -> Tensor:
        added.append(before)
        return between(block, x, before, *rest)

    monkeypatch.setattr(ChoiceBlock, "between", watched)
    _, left = net.layers[0](torch.randn(4, 2, 8, 8), steps)
    assert len(added) == 4 and sum(one is not None for one in added) == additions
    assert (left is None) == training


def test_a_chain_adds_its_rows_to_blocks_and_shortcuts() -> None:
    net, x = chain_net("bias", 2).double().eval(), images().double()
    disturbed(net)
    for architecture in draws(net, 6):
        options, value = architecture.indices, net.stem(x)
        for position, option in enumerate(options):
            layer = layer_of(net, position)
            if option in layer.block.passing:
                if position:
                    value = value + row(layer.block, option, *options[max(position - 2, 0) : position])
                output = layer.block.operation(option)(value)
                value = value + output if layer.residual else output
        torch.testing.assert_close(net(x, architecture), net.head(value))


@pytest.mark.parametrize("make", [cell_net, chain_net])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_not_used_rest(kind: InterChoiceKind, make: type) -> None:
    """Momentum and decay move no row, no column and no copy that is not on the path."""
    net = disturbed(make(kind, 1))
    split(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    moved: list[set[str]] = []
    for architecture in draws(net, 3):
        before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(net(images(), architecture), torch.arange(4)).backward()
        used = {name for name, parameter in net.named_parameters() if parameter.grad is not None}
        optimizer.step()
        moved.append({name for name, p in net.named_parameters() if not p.equal(before[name])})
        assert moved[-1] == used
    extra = [{name for name in names if ".interchoice." in name} for names in moved]
    assert any(first - second for first, second in pairwise(extra))  # each path has its own


@pytest.mark.parametrize("kind", ["bias", "attention"])
def test_extraction_folds_one_vector_per_operation(kind: InterChoiceKind) -> None:
    net = cell_net(kind)
    disturbed(net)
    cell = parse_nb201("|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|nor_conv_1x1~1|avg_pool_3x3~2|", net.space)
    network = net.extract(cell)
    assert isinstance(network, fx.GraphModule)
    vectors = {name: p for name, p in network.named_parameters() if name.endswith("vector")}
    live = (2, 4, 5)  # edges with a choice before them that reach the output
    assert set(vectors) == {f"layers.{layer}.edges.{edge}.vector" for layer in (0, 2, 4) for edge in live}
    assert all(p.requires_grad and p.shape[1:] == (1, 1) for p in vectors.values())
    assert not any("interchoice" in name for name in network.state_dict())
    interchoice = edge_of(net, 0, 4).interchoice
    assert isinstance(interchoice, ChoiceVectors)
    expected = interchoice.vector(2, (0,))
    assert vectors["layers.0.edges.4.vector"].equal(expected)
    assert vectors["layers.0.edges.4.vector"] is not expected


def test_extraction_of_split_weights_has_the_names_of_a_plain_network() -> None:
    plain, net = chain_net(), chain_net("split")
    for architecture in draws(plain, 4):
        names = list(plain.extract(architecture).state_dict())
        assert list(net.extract(architecture).state_dict()) == names
    split(net)
    disturbed(net)
    architecture = net.space.architecture(("k3e1", "k5e1", "k3e1", "k5e1"))
    network, block = net.extract(architecture), layer_of(net, 2).block
    assert list(network.state_dict()) == list(plain.extract(architecture).state_dict())
    assert isinstance(block.interchoice, SplitCopies)
    weight, twin = (module.get_parameter("0.weight") for module in (block.operation(0), block.interchoice.of(0)[0]))
    assert network.get_parameter("layers.2.block.operations.0.0.weight").equal(twin) and not twin.equal(weight)
