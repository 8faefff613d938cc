"""Every space keeps the contract: published ones, constrained ones, and random products."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyarch.errors import ImpossibleSpace, InvalidInput, UnknownName
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Choice, Constraint, Space, mutate, nb201_space
from polyarch.supernets import ChainSupernet
from polyarch.supernets.depth import depth_space
from polyarch.testing import SpaceContract


def few_skips(architecture: Architecture) -> bool:
    return architecture.names.count("skip_connect") <= 2


def even_sum(architecture: Architecture) -> bool:
    return sum(architecture.indices) % 2 == 0


def never(architecture: Architecture) -> bool:
    return False


class TestCellSpace(SpaceContract):
    def make_space(self) -> Space:
        return nb201_space(("none", "skip_connect", "nor_conv_3x3"))


class TestConstrainedCellSpace(SpaceContract):
    def make_space(self) -> Space:
        return nb201_space(("skip_connect", "nor_conv_3x3")).constrained(
            Constraint("at most two skip connections", few_skips)
        )


class TestSpaceWithoutNeighbours(SpaceContract):
    """All members are two moves apart, so nothing can be mutated."""

    def make_space(self) -> Space:
        choices = tuple(Choice(name, ("a", "b")) for name in "xyz")
        return Space("even", choices, (Constraint("an even sum", even_sum),))

    def test_mutation_says_that_it_is_impossible(self) -> None:
        space = self.make_space()
        with pytest.raises(ImpossibleSpace, match="acceptable mutation"):
            mutate(space.sample(generator_at(0, "space")), generator_at(0, "mutate"))


class TestDepthSpace(SpaceContract):
    def make_space(self) -> Space:
        return depth_space(7)


class TestChainSpace(SpaceContract):
    def make_space(self) -> Space:
        return ChainSupernet(channels=(4, 4, 8), kernels=(3, 5), expansions=(1, 2), stem_channels=4).space


class GivenSpace(SpaceContract):
    def __init__(self, space: Space) -> None:
        self.space = space

    def make_space(self) -> Space:
        return self.space


names = st.text(st.characters(codec="utf-8", exclude_characters="|"), max_size=6)


@st.composite
def products(draw: st.DrawFn) -> Space:
    """One to four choices of one to four options, under any names."""
    choice_names = draw(st.lists(names.filter(bool), min_size=1, max_size=4, unique=True))
    options = st.lists(names, min_size=1, max_size=4, unique=True)
    return Space(draw(names), tuple(Choice(name, tuple(draw(options))) for name in choice_names))


@given(space=products())
@pytest.mark.parametrize("rule", [name for name in vars(SpaceContract) if name.startswith("test_")])
def test_any_product_keeps_the_contract(rule: str, space: Space) -> None:
    getattr(GivenSpace(space), rule)()


@given(space=products(), seed=st.integers(0, 2**32))
def test_views_of_an_architecture_agree(space: Space, seed: int) -> None:
    architecture = space.sample(generator_at(seed, "space"))
    assert space.architecture(architecture.names) == space.architecture(architecture.to_dict()) == architecture
    for position, choice in enumerate(space.choices):
        assert space[choice.name] is choice
        assert architecture[choice.name] == architecture.indices[position] == choice.index(architecture.names[position])
        assert architecture.option(choice.name) == architecture.names[position]
        gate = architecture.one_hot()[choice.name]
        assert gate.tolist() == [float(index == architecture[choice.name]) for index in range(len(choice))]
        other = choice.options[(architecture[choice.name] + 1) % len(choice)]
        assert architecture.replace(**{choice.name: other}).to_dict() == {**architecture.to_dict(), choice.name: other}


@given(space=products())
def test_a_constraint_keeps_a_part_of_the_space(space: Space) -> None:
    part = space.constrained(Constraint("an even sum", even_sum))
    kept = [member for member in space.enumerate() if even_sum(member)]
    assert list(part.enumerate()) == kept
    assert part.count() == len(kept)
    for member in space.enumerate():
        assert (member in part) == (member in kept)


@given(space=products())
def test_members_are_walked_once(space: Space) -> None:
    part = space.constrained(Constraint("an even sum", even_sum))
    for one in (space, part):
        assert one.members == tuple(one.enumerate())
        assert one.members is one.members
    assert set(part.members) <= set(space.members)  # those of a part are its own


def test_members_of_a_space_that_was_sent_elsewhere() -> None:
    space = depth_space(3)
    before = space.members
    there: Space = pickle.loads(pickle.dumps(space))
    assert there == space and hash(there) == hash(space)
    assert there.members == before and there.members is there.members


def test_equal_spaces_have_equal_members_across_processes() -> None:
    first, second = nb201_space(), nb201_space()
    assert first == second and hash(first) == hash(second)
    assert Architecture(first, (0,) * 6) == Architecture(second, (0,) * 6)
    assert Architecture(first, (0,) * 6) != Architecture(nb201_space(first.choices[0].options[::-1]), (0,) * 6)
    assert Architecture(first, (0,) * 6) != "none|none|none|none|none|none"


def test_an_empty_space_says_which_constraint_cannot_be_met() -> None:
    space = depth_space(3).constrained(Constraint("a depth that does not exist", never))
    assert space.count() == 0
    with pytest.raises(ImpossibleSpace, match="a depth that does not exist"):
        space.sample(generator_at(0, "space"))


SMALL = Space("small", (Choice("x", ("a", "b")), Choice("y", ("c",))))
ONE = Space("one", (Choice("x", ("a",)),))
HUGE = Space("huge", tuple(Choice(str(position), ("a", "b")) for position in range(21)))
A_C = Architecture(SMALL, (0, 0))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Choice("", ("a",)), InvalidInput, "name"),
        (lambda: Choice("x", ()), InvalidInput, "one or more distinct options"),
        (lambda: Choice("x", ("a", "a")), InvalidInput, "distinct options"),
        (lambda: Choice("x", ("a|b",)), InvalidInput, r"without '\|'"),
        (lambda: Choice("x", ("skip", "conv")).index("skpi"), UnknownName, "Did you mean 'skip'"),
        (lambda: Space("empty", ()), InvalidInput, "at least one choice"),
        (lambda: Space("twice", (Choice("x", ("a",)), Choice("x", ("b",)))), InvalidInput, "distinct names"),
        (lambda: next(HUGE.enumerate()), InvalidInput, "at most 2,000,000"),
        (lambda: HUGE.members, InvalidInput, "at most 2,000,000"),
        (lambda: Architecture(SMALL, (0,)), InvalidInput, "Expected 2 option indices"),
        (lambda: Architecture(SMALL, (0, 1)), InvalidInput, "index in 0..0. Got 1"),
        (lambda: Architecture(SMALL, (-1, 0)), InvalidInput, "Got -1"),
        (lambda: A_C["z"], UnknownName, "choice of space 'small'"),
        (lambda: SMALL.architecture({"x": "a"}), InvalidInput, r"Missing: \['y'\]"),
        (lambda: SMALL.architecture({"x": "a", "y": "c", "z": "d"}), UnknownName, "z"),
        (lambda: SMALL.architecture(["a"]), InvalidInput, "Expected 2 option names"),
        (lambda: SMALL.architecture("ac"), InvalidInput, "Expected 2 option names"),
        (lambda: SMALL.architecture(["a", "b"]), UnknownName, "option of choice 'y'"),
        (lambda: SMALL.validate(Architecture(depth_space(1), (0,))), InvalidInput, "Got one of 'depth1'"),
        (lambda: mutate(Architecture(ONE, (0,)), generator_at(0, "")), ImpossibleSpace, "two options"),
    ],
)
def test_mistakes_are_explained(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_huge_space_is_counted_and_sampled_but_not_walked() -> None:
    assert HUGE.count() == 2**21
    assert HUGE.sample(generator_at(0, "space")) in HUGE


def test_constraints_are_named_when_they_are_broken() -> None:
    space = TestConstrainedCellSpace().make_space()
    with pytest.raises(InvalidInput, match="at most two skip connections"):
        space.architecture(["skip_connect"] * 6)
    assert space.count() == 1 + 6 + 15
