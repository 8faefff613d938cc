"""Skips and depths of cells, by hand and against all ways through a cell."""

from __future__ import annotations

from itertools import chain, combinations, pairwise

import pytest

from polyarch.randomness import generator_at
from polyarch.spaces import (
    NB201_EDGES,
    NB201_NO_NONE,
    S2_OPERATIONS,
    Choice,
    Space,
    cell_depths,
    darts_edges,
    darts_space,
    macro_space,
    nb101_cell,
    nb101_space,
    nb201_space,
    operation_count,
    parse_nb201,
    skip_count,
)
from polyarch.spaces.architecture import Architecture


def brute_force(edges: set[tuple[int, int]], output: int, inputs: tuple[int, ...] = (0,)) -> int:
    """The longest of all ascending sequences of nodes from an input to the output that edges join."""
    between = range(max(inputs) + 1, output)
    middles = chain.from_iterable(combinations(between, length) for length in range(len(between) + 1))
    ways = [(first, *middle, output) for middle in middles for first in inputs]
    return max((len(way) - 1 for way in ways if set(pairwise(way)) <= edges), default=0)


class TestNB201:
    @pytest.mark.parametrize(
        ("cell", "depth", "skips"),
        [
            ("|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|skip_connect~2|", 3, 6),
            ("|none~0|+|none~0|none~1|+|none~0|none~1|none~2|", 0, 0),
            ("|none~0|+|none~0|none~1|+|nor_conv_3x3~0|none~1|none~2|", 1, 0),
            # What starts at a node that nothing feeds, or ends at one that feeds nothing, is no way to the output.
            ("|none~0|+|none~0|nor_conv_1x1~1|+|avg_pool_3x3~0|skip_connect~1|nor_conv_3x3~2|", 1, 1),
            ("|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|none~2|", 2, 1),
        ],
    )
    def test_by_hand(self, cell: str, depth: int, skips: int) -> None:
        architecture = parse_nb201(cell)
        assert cell_depths(architecture) == {"cell": depth}
        assert (skip_count(architecture), operation_count(architecture)) == (skips, 6)

    def test_every_cell(self) -> None:
        depths = {0: 0, 1: 0, 2: 0, 3: 0}
        for architecture in nb201_space(("none", "skip_connect", "nor_conv_3x3")).enumerate():
            live = {edge for edge, name in zip(NB201_EDGES, architecture.names, strict=True) if name != "none"}
            assert cell_depths(architecture) == {"cell": brute_force(live, 3)}
            depths[brute_force(live, 3)] += 1
        assert all(depths.values())

    def test_without_none_all_are_three_deep(self) -> None:
        space = nb201_space(NB201_NO_NONE)
        assert {cell_depths(space.sample(generator_at(seed, "cell")))["cell"] for seed in range(20)} == {3}


def darts(normal: str, reduce: str, operation: str = "sep_conv_3x3") -> Architecture:
    """Cells by the inputs of their nodes, e.g. ``01 02 03 04``."""
    options = {}
    for cell, inputs in (("normal", normal), ("reduce", reduce)):
        for node, pair in enumerate(inputs.split(), start=2):
            options[f"{cell}{node}_inputs"] = ",".join(pair)
            options[f"{cell}{node}_first"] = "skip_connect"
            options[f"{cell}{node}_second"] = operation
    return darts_space(S2_OPERATIONS).architecture(options)


class TestDarts:
    def test_the_cells_have_depths_of_their_own(self) -> None:
        architecture = darts("01 01 01 01", "01 12 23 34")
        assert cell_depths(architecture) == {"normal": 2, "reduce": 5}
        assert cell_depths(darts("01 02 02 13", "01 01 03 24")) == {"normal": 4, "reduce": 4}
        assert (skip_count(architecture), operation_count(architecture)) == (8, 16)
        assert skip_count(darts("01 02 02 13", "01 01 03 24", "skip_connect")) == 16

    def test_against_all_ways_in_the_range_of_the_document(self) -> None:
        found = set()
        for seed in range(60):
            architecture = darts_space().sample(generator_at(seed, "cell"))
            for cell, depth in cell_depths(architecture).items():
                edges = {*darts_edges(architecture, cell), *((node, 6) for node in range(2, 6))}
                assert depth == brute_force(edges, 6, inputs=(0, 1))
                found.add(depth)
        assert {3, 4, 5} <= found <= {2, 3, 4, 5}


class TestOneShotOne:
    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_edges_to_the_output(self, number: int) -> None:
        space = nb101_space(number)
        found = set()
        for seed in range(60):
            architecture = space.sample(generator_at(seed, "cell"))
            matrix = nb101_cell(architecture).matrix
            nodes = range(len(matrix))
            edges = {(source, target) for source in nodes for target in nodes if matrix[source][target]}
            depth = cell_depths(architecture)["cell"]
            assert depth == brute_force(edges, len(matrix) - 1)
            found.add(depth)
        assert {2, 3, 4} <= found

    def test_operations_stand_on_nodes(self) -> None:
        architecture = nb101_space(3).sample(generator_at(0, "cell"))
        assert (skip_count(architecture), operation_count(architecture)) == (0, 5)


def test_other_spaces_have_skips_and_no_cells() -> None:
    space = Space("own", (
        Choice("mixer", ("identity", "attention")),
        Choice("head", ("linear", "with_skip")),
        Choice("stage", ("Skip", "not an identity")),
        Choice("depth", ("skip", "2"), "wiring"),
    ))  # fmt: skip
    first = space.architecture(["identity", "with_skip", "Skip", "skip"])
    assert (skip_count(first), operation_count(first), cell_depths(first)) == (3, 3, {})
    assert skip_count(space.architecture(["attention", "linear", "not an identity", "2"])) == 0
    named_like_one = Space("darts", (Choice("layer", ("skip",)),)).architecture(["skip"])
    assert (skip_count(named_like_one), cell_depths(named_like_one)) == (1, {})
    assert skip_count(macro_space().architecture(["identity"] * 5 + ["ir_3x3_t3"] * 3)) == 5
