"""The DARTS space and its genotypes."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyarch.errors import InvalidInput, UnknownName
from polyarch.randomness import generator_at
from polyarch.spaces import (
    DARTS_CELLS,
    DARTS_EDGES,
    DARTS_NODES,
    DARTS_OPERATIONS,
    S2_OPERATIONS,
    Constraint,
    Space,
    darts_edges,
    darts_space,
    darts_string,
    parse_darts,
)
from polyarch.testing import SpaceContract

SPACE = darts_space()
PAIRS = "[('skip_connect', 0), ('sep_conv_3x3', 1)" + ", ('skip_connect', 0), ('sep_conv_3x3', 2)" * 3 + "]"
GENOTYPE = f"Genotype(normal={PAIRS}, normal_concat=range(2, 6), reduce={PAIRS}, reduce_concat=range(2, 6))"


class TestThreeNodesOfDarts(SpaceContract):
    """The whole space cannot be walked."""

    def make_space(self) -> Space:
        return Space("three nodes", darts_space(S2_OPERATIONS).choices[:9])


def test_published_sizes() -> None:
    assert SPACE.size == (180 * 7**8) ** 2  # the 10^18 of the paper
    assert darts_space(S2_OPERATIONS).size == (180 * 2**8) ** 2
    assert len(DARTS_EDGES) == 14
    assert {choice.kind for choice in SPACE.choices if choice.name.endswith("inputs")} == {"wiring"}
    assert {choice.kind for choice in SPACE.choices if not choice.name.endswith("inputs")} == {"operation"}


def test_all_spaces_but_s2_weigh_none() -> None:
    subsets = [chosen for count in range(1, 8) for chosen in combinations(DARTS_OPERATIONS, count)]
    assert len(subsets) == 2**7 - 1
    assert [chosen for chosen in subsets if not darts_space(chosen).weighs_none] == [S2_OPERATIONS]
    assert not darts_space(S2_OPERATIONS[::-1]).weighs_none
    assert darts_space(S2_OPERATIONS, none=True).weighs_none  # S3
    assert not darts_space(none=False).weighs_none


def test_s2_and_s3_have_the_same_architectures_and_limits_change_nothing_of_what_is_weighed() -> None:
    s2, s3 = darts_space(S2_OPERATIONS), darts_space(S2_OPERATIONS, none=True)
    assert s2 == s3
    assert [space.constrained(Constraint("anything", lambda _: True)).weighs_none for space in (s2, s3)] == [
        False,
        True,
    ]


@given(seed=st.integers(0, 2**32), data=st.data())
def test_genotypes_survive_writing_and_any_order_of_inputs(seed: int, data: st.DataObject) -> None:
    architecture = SPACE.sample(generator_at(seed, "space"))
    text = darts_string(architecture)
    assert parse_darts(text) == architecture
    pieces = re.split(r"(\('\w+', \d\), \('\w+', \d\))", text)
    assert len(pieces) == 17  # eight nodes, and what stands around them
    for position in range(1, 17, 2):
        if data.draw(st.booleans()):
            first, second = re.findall(r"\(.*?\)", pieces[position])
            pieces[position] = f"{second}, {first}"
    mixed = "".join(pieces)
    assert parse_darts(mixed) == architecture
    assert darts_string(parse_darts(mixed)) == text


@given(seed=st.integers(0, 2**32))
def test_every_node_has_two_inputs_in_ascending_order(seed: int) -> None:
    architecture = SPACE.sample(generator_at(seed, "space"))
    for cell in DARTS_CELLS:
        edges = darts_edges(architecture, cell)
        assert [target for _, target in edges] == [node for node in DARTS_NODES for _ in range(2)]
        assert list(edges) == sorted(edges, key=lambda edge: (edge[1], edge[0]))
        assert set(edges) <= set(DARTS_EDGES) and set(edges.values()) <= set(DARTS_OPERATIONS)


def test_a_genotype_says_which_edge_has_which_operation() -> None:
    architecture = parse_darts(GENOTYPE.replace("range(2, 6)", "[2, 3, 4, 5]", 1))
    assert darts_edges(architecture, "normal") == {
        (0, 2): "skip_connect",
        (1, 2): "sep_conv_3x3",
        **dict.fromkeys([(0, 3), (0, 4), (0, 5)], "skip_connect"),
        **dict.fromkeys([(2, 3), (2, 4), (2, 5)], "sep_conv_3x3"),
    }
    assert architecture.option("normal2_inputs") == "0,1" and architecture.option("reduce5_inputs") == "0,2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Genotype()",
        "Genotype",
        "(" * 5000,
        "\0",
        GENOTYPE[:-1],
        GENOTYPE.replace("Genotype", "eval"),
        GENOTYPE.replace("Genotype(", "Genotype(1, "),
        GENOTYPE.replace("Genotype(", "Genotype(**{}, "),
        GENOTYPE.replace("normal=", "usual="),
        GENOTYPE.replace("reduce=", "normal="),
        GENOTYPE.replace(PAIRS, "[]", 1),
        GENOTYPE.replace(PAIRS, "8 * [('skip_connect', 0)]", 1),
        GENOTYPE.replace(PAIRS, "__import__('os').listdir()", 1),
        GENOTYPE.replace("('skip_connect', 0)", "('skip_connect', 2)", 1),
        GENOTYPE.replace("('skip_connect', 0)", "('skip_connect', -1)", 1),
        GENOTYPE.replace("('skip_connect', 0)", "('skip_connect', True)", 1),
        GENOTYPE.replace("('skip_connect', 0)", "('skip_connect',)", 1),
        GENOTYPE.replace("'skip_connect'", "3", 1),
        GENOTYPE.replace("range(2, 6)", "range()", 1),
        GENOTYPE.replace("range(2, 6)", "list(range(2, 6))", 1),
        GENOTYPE.replace("range(2, 6)", "2", 1),
    ],
)
def test_malformed_genotypes_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="Expected a genotype like"):
        parse_darts(text)


def test_genotypes_of_other_spaces_are_explained() -> None:
    with pytest.raises(InvalidInput, match=r"concatenate their nodes .* Got \(3, 4, 5\)"):
        parse_darts(GENOTYPE.replace("range(2, 6)", "range(3, 6)", 1))
    with pytest.raises(InvalidInput, match=r"different inputs of normal node 2\. Got 1 twice"):
        parse_darts(GENOTYPE.replace("('skip_connect', 0)", "('skip_connect', 1)", 1))
    with pytest.raises(UnknownName, match="none"):
        parse_darts(GENOTYPE.replace("skip_connect", "none", 1))
    with pytest.raises(InvalidInput, match="sep_conv_7x7"):
        darts_space(("skip_connect", "sep_conv_7x7"))
