"""Equal canonical keys mean one network: cells and chains against the functions that they compute."""

from __future__ import annotations

import copy
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from polyarch.randomness import generator_at
from polyarch.spaces import (
    DARTS_NODES,
    NB201_EDGES,
    Architecture,
    Computation,
    darts_edges,
    darts_space,
    edge_name,
    nb201_space,
)
from polyarch.supernets import ChainSupernet, NB201Supernet
from polyarch.supernets.nb201 import Cell, live_edges

CONVOLUTIONS = ("nor_conv_1x1", "nor_conv_3x3")

Numbers = NDArray[np.float64]


def weights_of(operation: str, count: int) -> Numbers:
    """Scale and shift of ``count`` operations of one name: (count, 2)."""
    names = ("nor_conv_1x1", "nor_conv_3x3", "sep_conv_3x3", "skip_connect", "max_pool_3x3")
    return np.random.default_rng(names.index(operation)).uniform(0.5, 1.5, (count, 2))


def assignments(operations: Mapping[int, str]) -> dict[int, Numbers]:
    """Every way to give the operations their weights, by name: edge -> (ways, 2)."""
    groups: dict[str, list[int]] = defaultdict(list)
    for edge, operation in operations.items():
        groups[operation].append(edge)
    orders = itertools.product(*(itertools.permutations(range(len(group))) for group in groups.values()))
    ways = list(orders)
    found = {}
    for column, (operation, group) in enumerate(groups.items()):
        table = weights_of(operation, len(group))
        for place, edge in enumerate(group):
            found[edge] = table[[way[column][place] for way in ways]]
    return found


def applied(weights: Numbers, value: Numbers) -> Numbers:
    """A non-linear function of a number, in the place of a convolution."""
    return np.tanh(weights[:, 0] * value + weights[:, 1])


def cell_function(cell: Architecture) -> float:
    """The smallest output of a cell of numbers over all ways to name its weights; the pooling is a factor."""
    operations = [cell.option(edge_name(*edge)) for edge in NB201_EDGES]
    live = live_edges([operation != "none" for operation in operations], True, False, to_output=True)
    ways = assignments({e: o for e, o in enumerate(operations) if live[e] and o in CONVOLUTIONS})
    nodes: list[Numbers] = [np.full(1, 0.37), np.zeros(1), np.zeros(1), np.zeros(1)]
    for edge, (source, target) in enumerate(NB201_EDGES):
        value = nodes[source]
        if edge in ways:
            value = applied(ways[edge], value)
        elif operations[edge] == "avg_pool_3x3":
            value = 0.611 * value
        if live[edge]:
            nodes[target] = nodes[target] + value
    return round(float(nodes[3].min()), 9)


def test_keys_of_nas_bench_201_are_its_functions() -> None:
    """All 15,625 cells, computed with numbers: the same 5,044 classes."""
    pairs = {(cell.canonical(), cell_function(cell)) for cell in nb201_space().enumerate()}
    keys, functions = zip(*pairs, strict=True)
    assert len(pairs) == len(set(keys)) == len(set(functions)) == 5_044


def test_a_pooling_with_weights_is_an_operation_like_others() -> None:
    plain, weighted = nb201_space(), nb201_space(pool_weights=True)
    once = ["avg_pool_3x3", "skip_connect", "none", "none", "skip_connect", "none"]  # pool(x), read once
    sums = [
        ["skip_connect", "avg_pool_3x3", "avg_pool_3x3", "none", "none", "skip_connect"],  # pool(x) + pool(x)
        ["skip_connect", "skip_connect", "skip_connect", "none", "none", "avg_pool_3x3"],  # pool(x + x)
    ]
    assert len({plain.architecture(names).canonical() for names in (once, *sums)}) == 2
    assert len({weighted.architecture(names).canonical() for names in (once, *sums)}) == 3
    assert len({cell.canonical() for cell in weighted.enumerate()}) == 5_425
    assert NB201Supernet(channels=2, cells=1, pool_convolution=True).space.architecture(once).canonical() == (
        weighted.architecture(once).canonical()
    )


CELLS = NB201Supernet(
    channels=2, cells=1, classes=3, operations=("none", "skip_connect", "nor_conv_1x1", "avg_pool_3x3"), affine=True
).double()
IMAGES = torch.randn(3, 3, 4, 4, generator=generator_at(0, "images"), dtype=torch.float64)


def randomised(module: nn.Module) -> None:
    """Other weights and statistics everywhere, so that no two operations agree by chance."""
    for name, value in module.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=generator_at(0, "weights", name)) + 0.1)


def renamed(first: Architecture, second: Architecture) -> Iterator[NB201Supernet]:
    """Supernets in which the second cell has the weights of the first, in every order."""
    before, after = (
        [edge for edge, live in enumerate(_live(cell)) if live and cell.indices[edge] == 2] for cell in (first, second)
    )
    if len(before) != len(after):
        return
    for order in itertools.permutations(before):
        net = copy.deepcopy(CELLS)
        for old, new in zip(CELLS.layers, net.layers, strict=True):
            if isinstance(old, Cell) and isinstance(new, Cell):
                for source, target in zip(order, after, strict=True):
                    new.edges[target].load_state_dict(old.edges[source].state_dict())
        yield net


def _live(cell: Architecture) -> list[bool]:
    passing = [cell.option(edge_name(*edge)) != "none" for edge in NB201_EDGES]
    return live_edges(passing, True, False, to_output=True)


def same_function(first: Architecture, second: Architecture) -> bool:
    expected = CELLS.extract(first).eval()(IMAGES)
    outputs: Iterable[Tensor] = (net.extract(second).eval()(IMAGES) for net in renamed(first, second))
    return any(torch.allclose(output, expected, rtol=1e-9) for output in outputs)


randomised(CELLS)
CLASSES: dict[str, list[Architecture]] = defaultdict(list)
for member in CELLS.space.enumerate():
    CLASSES[member.canonical()].append(member)


@given(data=st.data())
def test_extracted_cells_of_one_key_are_one_function_of_their_weights(data: st.DataObject) -> None:
    members = data.draw(st.sampled_from([group for group in CLASSES.values() if len(group) > 1]))
    first, second = data.draw(st.sampled_from(members)), data.draw(st.sampled_from(members))
    assert same_function(first, second)
    assert CELLS.parameter_count(first) == CELLS.parameter_count(second)


@given(data=st.data())
def test_extracted_cells_of_other_keys_are_other_functions(data: st.DataObject) -> None:
    first, second = (data.draw(st.sampled_from([group[0] for group in CLASSES.values()])) for _ in range(2))
    assert same_function(first, second) == (first == second)


def node_values(architecture: Architecture, cell: str) -> tuple[float, ...]:
    """The smallest sorted nodes of a DARTS cell of numbers over all ways to name its weights."""
    edges = darts_edges(architecture, cell)
    plain = {number for number, ((source, _), operation) in enumerate(edges.items())
             if operation == "skip_connect" and not (cell == "reduce" and source < 2)}  # fmt: skip
    ways = assignments({n: o for n, o in enumerate(edges.values()) if n not in plain})
    nodes: dict[int, Numbers] = {0: np.full(1, 0.37), 1: np.full(1, -0.53)}
    for number, (source, target) in enumerate(edges):
        value = nodes[source] if number in plain else applied(ways[number], nodes[source])
        nodes[target] = nodes.get(target, np.zeros(1)) + value
    rows = np.stack(np.broadcast_arrays(*(nodes[node] for node in DARTS_NODES)), axis=-1)  # (ways, 4)
    return min(tuple(row) for row in np.sort(rows, axis=-1).round(9).tolist())


@pytest.mark.parametrize("cell", ["normal", "reduce"])
def test_keys_of_darts_cells_are_their_functions(cell: str) -> None:
    """Cells of skips and few separable convolutions, among which many are the same network."""
    space = darts_space(("skip_connect", "sep_conv_3x3"))
    fixed = dict.fromkeys(space.choice_names, "sep_conv_3x3") | {
        f"{kind}{node}_inputs": "0,1" for kind in ("normal", "reduce") for node in DARTS_NODES
    }
    generator = np.random.default_rng(0)
    pairs = set()
    for _ in range(1200):
        wiring = {f"{cell}{node}_inputs": str(generator.choice(["0,1", "0,2", "1,2"][: 1 + 2 * (node > 2)]))
                  for node in DARTS_NODES}  # fmt: skip
        chosen = generator.permutation(8)[: 4 if cell == "normal" else 5]
        places = [f"{cell}{node}_{which}" for node in DARTS_NODES for which in ("first", "second")]
        skips = {place: "skip_connect" for number, place in enumerate(places) if number in chosen}
        architecture = space.architecture({**fixed, **wiring, **skips})
        pairs.add((architecture.canonical(), node_values(architecture, cell)))
    keys, functions = zip(*pairs, strict=True)
    assert len(pairs) == len(set(keys)) == len(set(functions)) < 1000


def test_both_darts_cells_count() -> None:
    space = darts_space()
    first = space.sample(generator_at(0, "darts"))
    others = [first.replace(**{name: next(o for o in space[name].options if o != first.option(name))})
              for name in ("normal2_first", "reduce2_first")]  # fmt: skip
    assert len({architecture.canonical() for architecture in (first, *others)}) == 3


CHAIN = ChainSupernet(
    channels=(4, 4, 4, 8, 8), strides=(1, 1, 1, 2, 1), kernels=(3, 5), expansions=(1,), stem_channels=4, classes=3
).double()


def test_skips_between_equal_layers_may_stand_anywhere() -> None:
    randomised(CHAIN)
    first = CHAIN.space.architecture(["k3e1", "k5e1", "skip", "k3e1", "skip"])
    second = CHAIN.space.architecture(["k3e1", "skip", "k5e1", "k3e1", "skip"])
    assert first.canonical() == second.canonical()
    moved = copy.deepcopy(CHAIN)
    moved.layers[2].load_state_dict(CHAIN.layers[1].state_dict())
    torch.testing.assert_close(moved.extract(second).eval()(IMAGES), CHAIN.extract(first).eval()(IMAGES))


def test_chains_differ_in_order_and_in_the_stage_of_their_layers() -> None:
    different = [
        ["k3e1", "k5e1", "skip", "k3e1", "skip"],
        ["k5e1", "k3e1", "skip", "k3e1", "skip"],
        ["k3e1", "k5e1", "k3e1", "k3e1", "skip"],
        ["k3e1", "skip", "skip", "k5e1", "skip"],
        ["k3e1", "skip", "skip", "k3e1", "k5e1"],
    ]
    assert len({CHAIN.space.architecture(names).canonical() for names in different}) == len(different)
    # 1 + 2 + 4 + 8 texts of up to three layers, two for the layer that halves the resolution, 1 + 2 after it
    assert len({member.canonical() for member in CHAIN.space.enumerate()}) == 15 * 2 * 3


def test_operations_without_an_output_do_not_count() -> None:
    cell = Computation()
    x = cell.input("x")
    cell.operation("conv", x)
    assert cell.key([()]) == "nothing"
    assert cell.key([x]) == "x"
