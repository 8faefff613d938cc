"""The wired space: its edges, its notation, and the wirings that are drawn before training."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyarch.errors import ImpossibleSpace, InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import (
    Architecture,
    Space,
    erdos_renyi,
    module_sources,
    nb201_space,
    parse_wiring,
    per_example_gates,
    residual_wiring,
    wired_shape,
    wired_space,
    wiring_string,
)
from polyarch.testing import SpaceContract


class TestWiredSpace(SpaceContract):
    def make_space(self) -> Space:
        return wired_space(2, 3)


def test_every_skip_edge_is_a_choice() -> None:
    space = wired_space()
    assert len(space.choices) == 3 * 9 * 8 // 2 == 3 * 36
    assert len(wired_space(aggregated=False).choices) == 3 * 8 * 7 // 2 == 3 * 28
    assert {choice.kind for choice in space.choices} == {"wiring"}
    assert wired_space(2, 2).choice_names == (
        "stage0_0->2", "stage0_0->out", "stage0_1->out", "stage1_0->2", "stage1_0->out", "stage1_1->out",
    )  # fmt: skip
    assert wired_space(2, 3, aggregated=False).choice_names == (
        "stage0_0->2", "stage0_0->3", "stage0_1->3", "stage1_0->2", "stage1_0->3", "stage1_1->3",
    )  # fmt: skip
    assert wired_shape(space) == (3, 8, True) and wired_shape(wired_space(2, 3, aggregated=False)) == (2, 3, False)


def test_modules_read_the_chain_and_the_edges_that_are_on() -> None:
    expected = (((0,), (1,), (2,)), ((0,), (0, 1), (1, 2)))  # the last of a stage is a module or its output
    for space in (wired_space(2, 3, aggregated=False), wired_space(2, 2)):
        assert module_sources(parse_wiring("000-101", space)) == expected


def test_residual_wiring_is_the_unrolled_sum_of_blocks() -> None:
    """A residual stage z <- z + second(first(z)), linear, is the wiring with sums in place of means."""
    space = wired_space(1, 6)
    ((*sources, output),) = module_sources(residual_wiring(space))
    assert sources == [(0,), (1,), (0, 2), (3,), (0, 2, 4), (5,)] and output == (0, 2, 4, 6)
    assert module_sources(residual_wiring(wired_space(1, 3))) == (((0,), (1,), (0, 2), (0, 2, 3)),)
    factors = torch.rand(6, generator=generator_at(0, "factors"), dtype=torch.float64)
    nodes = [torch.ones((), dtype=torch.float64)]
    for factor, read in zip(factors, sources, strict=True):
        nodes.append(factor * sum(nodes[source] for source in read))
    z = nodes[0]
    for first, second in factors.reshape(3, 2):
        z = z + second * first * z
    torch.testing.assert_close(sum(nodes[source] for source in output), z)


@given(st.integers(1, 4), st.integers(2, 6), st.data())
def test_notation_survives_writing_and_reading(stages: int, modules: int, data: st.DataObject) -> None:
    space = wired_space(stages, modules)
    size = len(space.choices)
    indices = data.draw(st.tuples(*[st.integers(0, 1)] * size))
    wiring = Architecture(space, indices)
    text = wiring_string(wiring)
    assert text.replace("-", "") == "".join(map(str, indices))
    assert text.count("-") == stages - 1
    assert parse_wiring(text, space) == wiring


@pytest.mark.parametrize("text", ["", "000", "000-000-000", "000-00", "000-0000", "000-002", "000 000", "００0-000"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="Expected 2 groups of 3 bits"):
        parse_wiring(text, wired_space(2, 2))


@pytest.mark.parametrize("space", [nb201_space(), Space("wired2x3", nb201_space().choices)])
def test_other_spaces_are_refused(space: Space) -> None:
    with pytest.raises(InvalidInput, match="Expected a wired space"):
        wired_shape(space)


def test_impossible_shapes_are_refused() -> None:
    for stages, modules in ((0, 8), (3, 1)):
        with pytest.raises(InvalidInput, match="2 or more modules"):
            wired_space(stages, modules)


def test_random_wirings_are_distinct_with_edges_of_the_probability() -> None:
    space = wired_space()
    wirings = erdos_renyi(space, 300, generator=generator_at(0, "wirings"))
    assert len(set(wirings)) == 300
    on = torch.tensor([wiring.indices for wiring in wirings]).double()
    # 32,400 draws: the standard error of the share is 0.0025, that of one edge 0.026
    assert abs(float(on.mean()) - 0.3) < 0.012
    assert float((on.mean(0) - 0.3).abs().max()) < 0.11


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    few, many = (erdos_renyi(wired_space(), count, generator=generator_at(0, "wirings")) for count in (5, 50))
    assert many[:5] == few


def test_all_wirings_of_a_small_space_can_be_drawn() -> None:
    space = wired_space(1, 2)
    assert set(erdos_renyi(space, 8, generator=generator_at(0, "wirings"))) == set(space.enumerate())


def test_more_wirings_than_there_are_cannot_be_drawn() -> None:
    with pytest.raises(ImpossibleSpace, match="Expected 9 different wirings"):
        erdos_renyi(wired_space(1, 2), 9, generator=generator_at(0, "wirings"))
    for count, probability in ((0, 0.3), (1, 1.5)):
        with pytest.raises(InvalidInput, match=r"probability in 0\.\.1"):
            erdos_renyi(wired_space(1, 2), count, probability, generator=generator_at(0, "wirings"))


def test_gates_of_several_architectures_are_their_one_hots() -> None:
    """Also where choices have different numbers of options."""
    space = nb201_space()
    drawn = [space.sample(generator_at(0, "draw", position)) for position in range(4)]
    gates = per_example_gates(drawn)
    for name, gate in gates.items():
        assert torch.equal(gate, torch.stack([architecture.one_hot()[name] for architecture in drawn]))
    assert tuple(gates) == space.choice_names
    with pytest.raises(InvalidInput, match="Got one of 'nb201'"):
        per_example_gates([wired_space(1, 2).sample(generator_at(0, "other")), drawn[0]])
    with pytest.raises(InvalidInput, match="Got none"):
        per_example_gates([])
