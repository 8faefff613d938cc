"""What a differentiable search weighs, and the way from weights to architectures."""

from __future__ import annotations

import math
from itertools import combinations, product

import pytest
import torch
from torch import Tensor

from polyarch.nn import ChoiceBlock, skipping_zeros
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import (
    DARTS_CELLS,
    DARTS_EDGES,
    NB101_OPERATIONS,
    NB101_PARENTS,
    S2_OPERATIONS,
    Architecture,
    darts_edges,
    edge_name,
)
from polyarch.supernets import (
    DartsRelaxation,
    DartsSupernet,
    MacroSupernet,
    NB101Relaxation,
    NB101Supernet,
    NB201Supernet,
    Relaxation,
    Supernet,
    relaxation_of,
    without_option,
)
from polyarch.supernets.darts import DartsCell, EdgeOperations
from polyarch.supernets.nb101 import GraphCell


def darts() -> DartsSupernet:
    with global_seed(0, "relaxation"):
        return DartsSupernet(layers=3, channels=2, classes=3, operations=("skip_connect", "max_pool_3x3")).eval()


def one_hot_edges(net: DartsSupernet, architecture: Architecture) -> dict[str, Tensor]:
    """Weights of all 28 edges that have the chosen operations, and ``none`` elsewhere."""
    weights = {}
    for cell in DARTS_CELLS:
        chosen = darts_edges(architecture, cell)
        for edge in DARTS_EDGES:
            weight = torch.zeros(3)
            weight[["skip_connect", "max_pool_3x3"].index(chosen[edge]) if edge in chosen else 2] = 1.0
            weights[f"{cell} {edge_name(*edge)}"] = weight
    return weights


@pytest.mark.parametrize("position", range(4))
def test_edges_of_darts_that_are_decided_are_the_architecture(position: int) -> None:
    net = darts()
    relaxation = DartsRelaxation(net)
    architecture = net.space.sample(generator_at(0, "darts", position))
    weights = one_hot_edges(net, architecture)
    assert relaxation.architecture(weights) == architecture
    x = torch.randn(2, 3, 8, 8, generator=generator_at(0, "images"))
    torch.testing.assert_close(relaxation(x, weights), net(x, architecture))


@pytest.mark.parametrize(("none", "options"), [(None, 2), (False, 2), (True, 3)])
def test_s2_weighs_its_two_operations_and_s3_none_as_well(none: bool | None, options: int) -> None:
    net = DartsSupernet(layers=3, channels=2, classes=3, operations=S2_OPERATIONS, none=none)
    relaxation = DartsRelaxation(net)
    names = (*S2_OPERATIONS, "none")[:options]
    expected = [(f"{cell} {edge_name(*edge)}", names) for cell in DARTS_CELLS for edge in DARTS_EDGES]
    assert [(choice.name, choice.options) for choice in relaxation.space.choices] == expected


@pytest.mark.parametrize("none", [False, True])
def test_node_values_of_mixed_cells_are_sums_over_edges_of_weighted_operations(none: bool) -> None:
    """x_j = sum_{i<j} sum_o softmax(alpha_ij)_o o(x_i), for every edge; ``none`` only takes weight from the others."""
    net = DartsSupernet(layers=3, channels=2, classes=3, operations=S2_OPERATIONS, none=none).double().eval()
    relaxation = DartsRelaxation(net)
    generator = generator_at(0, "logits")
    logits = {c.name: torch.randn(len(c), dtype=torch.float64, generator=generator) for c in relaxation.space.choices}
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64, generator=generator)
    earlier = previous = net.stem(x)
    for cell in net.cells:
        assert isinstance(cell, DartsCell)
        nodes = [cell.earlier(earlier), cell.previous(previous)]
        for target in range(2, 6):
            value: Tensor | float = 0.0
            for source in range(target):
                edge = edge_name(source, target)
                powers = [math.exp(logit) for logit in logits[f"{cell.kind} {edge}"].tolist()]
                block = cell.edges[edge]
                assert isinstance(block, EdgeOperations)
                for power, operation in zip(powers, block.operations, strict=False):
                    value = value + power / sum(powers) * operation(nodes[source])
            assert isinstance(value, Tensor)
            nodes.append(value)
        earlier, previous = previous, torch.cat(nodes[2:], dim=1)
    weights = {name: values.softmax(0) for name, values in logits.items()}
    torch.testing.assert_close(relaxation(x, weights), net.head(previous))


def test_the_edges_kept_in_s2_are_the_best_of_all_pairs() -> None:
    """Against enumeration: per node, of all pairs of edges and all operations, those with the largest weights."""
    net = DartsSupernet(layers=3, channels=2, classes=3, operations=S2_OPERATIONS)
    relaxation = DartsRelaxation(net)
    for seed in range(5):
        generator = generator_at(seed, "weights")
        weights = {c.name: torch.randn(len(c), generator=generator).softmax(0) for c in relaxation.space.choices}
        found = relaxation.architecture(weights)
        for cell in DARTS_CELLS:
            kept = darts_edges(found, cell)
            for node in (2, 3, 4, 5):
                ways = [
                    {(source, node): name for source, name in zip(pair, names, strict=True)}
                    for pair in combinations(range(node), 2)
                    for names in product(S2_OPERATIONS, repeat=2)
                ]

                strengths = [
                    sum(
                        float(weights[f"{cell} {edge_name(*edge)}"][S2_OPERATIONS.index(name)])
                        for edge, name in way.items()
                    )
                    for way in ways
                ]
                best = ways[strengths.index(max(strengths))]
                assert {edge: name for edge, name in kept.items() if edge[1] == node} == best


def test_the_two_strongest_edges_stay_whatever_the_weight_of_none() -> None:
    net = darts()
    relaxation = DartsRelaxation(net)
    weights = {choice.name: torch.tensor([0.05, 0.05, 0.9]) for choice in relaxation.space.choices}
    weights["normal 0->4"] = torch.tensor([0.1, 0.3, 0.6])
    weights["normal 3->4"] = torch.tensor([0.2, 0.0, 0.8])
    architecture = relaxation.architecture(weights)
    assert darts_edges(architecture, "normal")[0, 4] == "max_pool_3x3"
    assert darts_edges(architecture, "normal")[3, 4] == "skip_connect"
    chosen = dict(relaxation.chosen(weights))
    assert len(chosen) == 16 and chosen["normal 0->4"] == 1 and "normal 1->4" not in chosen


def test_weights_of_edges_scale_their_operations() -> None:
    net = darts()
    plain, weighed = DartsRelaxation(net), DartsRelaxation(net, weigh_edges=True)
    generator = generator_at(0, "weights")
    weights = {c.name: torch.rand(len(c), generator=generator).softmax(0) for c in weighed.space.choices}
    scaled = {
        f"{cell} {edge_name(source, target)}": weights[f"{cell} {edge_name(source, target)}"]
        * weights[f"{cell} {target}"][source]
        for cell in DARTS_CELLS
        for source, target in DARTS_EDGES
    }
    x = torch.randn(2, 3, 8, 8, generator=generator)
    torch.testing.assert_close(weighed(x, weights), plain(x, scaled))
    assert weighed.architecture(weights) == plain.architecture(scaled)


EDGES = {
    1: {"node3_edges": (3, 2), "node4_edges": (4, 2), "output_edges": (5, 2)},
    2: {"node2_edges": (2, 1), "node3_edges": (3, 2), "node4_edges": (4, 2), "output_edges": (5, 3)},
    3: {
        "node2_edges": (2, 1),
        "node3_edges": (3, 1),
        "node4_edges": (4, 2),
        "node5_edges": (5, 2),
        "output_edges": (6, 2),
    },
}
"""1shot1 space -> the weighed edges into every node, and how many of them stay, as NAS-Bench-1Shot1's code has them."""


def graph(space: int) -> NB101Relaxation:
    with global_seed(0, "relaxation"):
        return NB101Relaxation(NB101Supernet(space, channels=2, cells=1, classes=3).double().eval())


def random_weights(relaxation: Relaxation, seed: int) -> dict[str, Tensor]:
    generator = generator_at(seed, "weights")
    choices = relaxation.space.choices
    return {c.name: torch.randn(len(c), dtype=torch.float64, generator=generator).softmax(0) for c in choices}


@pytest.mark.parametrize("space", EDGES)
def test_1shot1_weighs_edges_and_operations_of_choice_blocks(space: int) -> None:
    relaxation = relaxation_of(NB101Supernet(space, channels=2, cells=1))
    assert isinstance(relaxation, NB101Relaxation)
    wiring = {choice.name: choice.options for choice in relaxation.space.choices if choice.kind == "wiring"}
    assert wiring == {name: tuple(map(str, range(size))) for name, (size, _) in EDGES[space].items()}
    assert relaxation.edges_kept == {name: kept for name, (_, kept) in EDGES[space].items()}
    operations = [choice for choice in relaxation.space.choices if choice.kind != "wiring"]
    assert operations == [choice for choice in relaxation.net.space.choices if choice.kind != "wiring"]
    assert all(choice.options == NB101_OPERATIONS for choice in operations)


@pytest.mark.parametrize("space", EDGES)
def test_mixed_1shot1_cells_weigh_the_inputs_of_choice_blocks(space: int) -> None:
    """x_j = sum_o w_jo o(sum_i e_ij x_i) and a weighted concatenation, written out cell by cell."""
    relaxation = graph(space)
    weights = random_weights(relaxation, 0)
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64, generator=generator_at(0, "images"))
    value = relaxation.net.stem(x)
    for layer in relaxation.net.layers:
        if not isinstance(layer, GraphCell):
            value = layer(value)
            continue
        states: list[Tensor] = []
        for node, block in enumerate(layer.blocks, start=1):
            assert isinstance(block, ChoiceBlock)
            inputs = [layer.projections[node - 1](value), *states]
            edges = weights[f"node{node}_edges"].tolist() if f"node{node}_edges" in weights else [1.0] * node
            total = torch.stack([edge * part for edge, part in zip(edges, inputs, strict=True)]).sum(0)
            mixture = weights[f"node{node}_operation"].tolist()
            terms = [weight * block.operation(option)(total) for option, weight in enumerate(mixture)]
            states.append(torch.stack(terms).sum(0))
        parts = [layer.projections[-1](value), *states]
        edges = weights["output_edges"].tolist()
        value = torch.cat([edge * part for edge, part in zip(edges, parts, strict=True)], dim=1)
    expected = relaxation.net.head(value)
    torch.testing.assert_close(relaxation(x, weights), expected)
    each = {name: weight.expand(2, -1) for name, weight in weights.items()}
    torch.testing.assert_close(relaxation(x, each), expected)
    with skipping_zeros():
        torch.testing.assert_close(relaxation(x, weights), expected)


@pytest.mark.parametrize("space", EDGES)
def test_the_parents_kept_in_1shot1_are_the_heaviest_of_all_sets(space: int) -> None:
    relaxation = graph(space)
    for seed in range(5):
        weights = random_weights(relaxation, seed)
        architecture = relaxation.architecture(weights)
        for name, (size, kept) in EDGES[space].items():
            sets = list(combinations(range(size), kept))
            totals = [float(weights[name][list(parents)].sum()) for parents in sets]
            best = ",".join(map(str, sets[totals.index(max(totals))]))
            assert architecture.option(name.replace("edges", "parents")) == best
        for node in range(1, len(NB101_PARENTS[space]) - 1):
            best = NB101_OPERATIONS[int(weights[f"node{node}_operation"].argmax())]
            assert architecture.option(f"node{node}_operation") == best


@pytest.mark.parametrize("space", EDGES)
def test_edges_of_1shot1_that_are_decided_are_the_architecture(space: int) -> None:
    relaxation = graph(space)
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64, generator=generator_at(0, "images"))
    for position in range(4):
        architecture = relaxation.net.space.sample(generator_at(0, "graph", position))
        weights = {name: gate for name, gate in architecture.one_hot().items() if name.endswith("operation")}
        for name, (size, _) in EDGES[space].items():
            parents = map(int, architecture.option(name.replace("edges", "parents")).split(","))
            weights[name] = torch.zeros(size).index_fill(0, torch.tensor(list(parents)), 1.0)
        weights = {name: weight.double() for name, weight in weights.items()}
        assert relaxation.architecture(weights) == architecture
        torch.testing.assert_close(relaxation(x, weights), relaxation.net(x, architecture))


@pytest.mark.parametrize("net", [NB201Supernet(channels=2, cells=1), MacroSupernet(channels=2)])
def test_other_spaces_are_weighed_as_they_are(net: Supernet) -> None:
    relaxation = relaxation_of(net)
    assert type(relaxation) is Relaxation and relaxation.space == net.space
    for position in range(5):
        architecture = net.space.sample(generator_at(0, "member", position))
        assert relaxation.architecture(architecture.one_hot()) == architecture


def test_what_is_taken_out_leaves_its_weight_to_the_others() -> None:
    weights = {"a": torch.tensor([0.5, 0.3, 0.2]), "b": torch.tensor([0.0, 1.0])}
    left = without_option(weights, "a", 0)
    torch.testing.assert_close(left["a"], torch.tensor([0.0, 0.6, 0.4]))
    assert left["b"] is weights["b"]
    assert without_option(weights, "b", 1)["b"].tolist() == [0.0, 0.0]
