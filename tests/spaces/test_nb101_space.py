"""The NAS-Bench-1shot1 spaces: published counts, and cells, hashes and isomorphism as in NAS-Bench-101."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nb101_examples import INCEPTION, make_cell

from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import (
    NB101_OPERATIONS,
    NB101_PARENTS,
    Architecture,
    NB101Cell,
    Space,
    nb101_cell,
    nb101_parents,
    nb101_space,
)
from polyarch.testing import SpaceContract

CONV1, CONV3, POOL = NB101_OPERATIONS
SPACES = {number: nb101_space(number) for number in NB101_PARENTS}


class TestFirstSpace(SpaceContract):
    def make_space(self) -> Space:
        return nb101_space(1)


def wirings(number: int) -> Space:
    """The wirings of a space, without operations."""
    return Space("wirings", tuple(choice for choice in SPACES[number].choices if choice.kind == "wiring"))


@pytest.mark.parametrize(
    ("number", "all_combinations", "operations_of_feeding_nodes"),
    [(1, 14_580, 6_240), (2, 29_160, 16_632), (3, 1_312_200, 363_648)],
)
def test_published_counts(number: int, all_combinations: int, operations_of_feeding_nodes: int) -> None:
    """6,240, 29,160 and 363,648 are published: the second is the number of all combinations.

    The others count three operations only for nodes that feed another one, over all wirings.
    """
    assert SPACES[number].count() == all_combinations
    count = 0
    for wiring in wirings(number).enumerate():
        parents = nb101_parents(wiring)
        count += 3 ** sum(any(node in sources for sources in parents) for node in range(1, len(parents) - 1))
    assert count == operations_of_feeding_nodes


def test_networks_of_the_first_space() -> None:
    """Up to loose ends and isomorphism. The operations of loose ends make no difference, so one of them is enough."""
    hashes = set()
    for wiring in wirings(1).enumerate():
        used = {0, 5}
        for node in (5, 4, 3, 2, 1):
            used.update(nb101_parents(wiring)[node] if node in used else ())
        for operations in product(*(NB101_OPERATIONS if node in used else (CONV1,) for node in (1, 2, 3, 4))):
            named = {f"node{node}_operation": operation for node, operation in enumerate(operations, start=1)}
            hashes.add(SPACES[1].architecture({**wiring.to_dict(), **named}).canonical())
    assert len(hashes) == 2_685


def test_hashes_are_those_of_the_benchmark() -> None:
    assert INCEPTION.hash() == "28cfc7874f6d200472e1a9dcd8650aa0"


@given(number=st.sampled_from(list(SPACES)), seed=st.integers(0, 2**32))
def test_cells_survive_both_ways(number: int, seed: int) -> None:
    architecture = SPACES[number].sample(generator_at(seed, "space"))
    cell = nb101_cell(architecture)
    assert cell.edges == sum(NB101_PARENTS[number]) == 9
    assert [len(cell.parents(node)) for node in range(len(cell.matrix))] == list(NB101_PARENTS[number])


@given(number=st.sampled_from(list(SPACES)), seed=st.integers(0, 2**32))
def test_pruned_cells_have_no_loose_ends_and_the_same_hash(number: int, seed: int) -> None:
    architecture = SPACES[number].sample(generator_at(seed, "space"))
    cell = nb101_cell(architecture).pruned()
    assert cell.pruned() == cell
    assert all(map(any, cell.matrix[:-1]))
    assert all(cell.parents(node) for node in range(1, len(cell.matrix)))
    assert architecture.canonical() == cell.hash() == nb101_cell(architecture).hash()
    loose = [
        node for node in range(1, len(NB101_PARENTS[number]) - 1) if not any(nb101_cell(architecture).matrix[node])
    ]
    for node in loose:
        name = f"node{node}_operation"
        assert all(architecture.replace(**{name: op}).canonical() == cell.hash() for op in NB101_OPERATIONS)


def isomorphic(first: NB101Cell, second: NB101Cell) -> bool:
    """By trying every order of the nodes between input and output."""
    last = len(first.matrix) - 1
    if len(second.matrix) != last + 1:
        return False
    nodes = range(last + 1)
    for inner in permutations(range(1, last)):
        order = (0, *inner, last)
        if all(second.operations[node] == first.operations[order[node]] for node in nodes) and all(
            second.matrix[i][j] == first.matrix[order[i]][order[j]] for i in nodes for j in nodes
        ):
            return True
    return False


@given(data=st.data())
def test_hashes_are_equal_exactly_for_isomorphic_cells(data: st.DataObject) -> None:
    """Among architectures that are likely to be the same: few operations, one choice apart."""
    number = data.draw(st.sampled_from(list(SPACES)))
    space, generator = SPACES[number], generator_at(data.draw(st.integers(0, 2**16)), "space")
    architecture = space.sample(generator)
    one = {c.name: CONV3 if c.kind == "node_operation" else architecture.option(c.name) for c in space.choices}
    first = space.architecture(one)
    choice = data.draw(st.sampled_from(space.choices))
    second = first.replace(**{choice.name: data.draw(st.sampled_from(choice.options))})
    cells = [nb101_cell(a).pruned() for a in (first, second)]
    assert (first.canonical() == second.canonical()) == isomorphic(*cells)


def diamond(first: str, second: str) -> NB101Cell:
    return make_cell([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0] * 4], ["input", first, second, "output"])


def test_the_order_of_parallel_nodes_makes_no_difference_and_that_of_a_row_does() -> None:
    assert diamond(CONV1, CONV3) != diamond(CONV3, CONV1)
    assert diamond(CONV1, CONV3).hash() == diamond(CONV3, CONV1).hash() != diamond(CONV1, CONV1).hash()
    matrix = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0] * 4]
    rows = [make_cell(matrix, ["input", *two, "output"]).hash() for two in ((CONV1, CONV3), (CONV3, CONV1))]
    assert rows[0] != rows[1]


@pytest.mark.parametrize(
    ("matrix", "operations", "message"),
    [
        ([[0]], ["input"], "2 or more nodes"),
        ([[0, 1]], ["input", "output"], "square matrix"),
        ([[0, 1], [0, 0]], ["input", CONV1, "output"], "3 operations"),
        ([[0, 1], [1, 0]], ["input", "output"], "upper-triangular"),
        ([[0, 2], [0, 0]], ["input", "output"], "zeros and ones"),
        ([[0, 1], [0, 0]], ["input", "input"], "'output'"),
        ([[0, 1, 0], [0, 0, 1], [0] * 3], ["input", "conv5x5", "output"], "conv5x5"),
    ],
)
def test_malformed_cells_are_refused(matrix: list[list[int]], operations: list[str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_cell(matrix, operations)


def test_cells_outside_of_the_benchmark_are_refused() -> None:
    with pytest.raises(InvalidInput, match="path from the input to the output"):
        make_cell([[0, 1, 0], [0] * 3, [0] * 3], ["input", CONV1, "output"]).pruned()
    full = [[int(j > i) for j in range(5)] for i in range(5)]
    with pytest.raises(InvalidInput, match=r"9 edges\. Got 5 nodes, 10 edges"):
        make_cell(full, ["input", CONV1, CONV1, CONV1, "output"]).hash()
    with pytest.raises(InvalidInput, match="space 1, 2 or 3"):
        nb101_space(4)


def test_kinds_of_choices() -> None:
    for number, counts in NB101_PARENTS.items():
        kinds = [choice.kind for choice in SPACES[number].choices]
        assert kinds == ["wiring", "node_operation"] * (len(counts) - 2) + ["wiring"]
        assert isinstance(SPACES[number].sample(generator_at(0, "space")), Architecture)
