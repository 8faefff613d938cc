"""The contract of spaces."""

import pickle
from functools import partial
from operator import eq

from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Choice, Space, mutate

DRAWS = 10


class SpaceContract:
    """Inherit, and return a space that can be enumerated quickly, with thousands of members at most."""

    def make_space(self) -> Space:
        """The space under test."""
        raise NotImplementedError

    def test_enumeration_gives_every_member_once(self) -> None:
        """As many as ``count`` says, in order, with different keys, and none left out."""
        space = self.make_space()
        members = list(space.enumerate())
        assert len(members) == space.count() <= space.size
        assert len(set(members)) == len(members)
        assert len({member.key for member in members}) == len(members)
        assert all(member in space for member in members)
        assert [member.indices for member in members] == sorted(member.indices for member in members)
        assert space.constraints or len(members) == space.size

    def test_members_survive_dictionaries_and_pickle(self) -> None:
        """The copies are equal and have equal hashes."""
        space = self.make_space()
        for member in space.enumerate():
            again = space.architecture(member.to_dict())
            assert again == member
            assert hash(again) == hash(member)
            assert again.names == member.names
        for member in self._draws(space):
            assert pickle.loads(pickle.dumps(member)) == member

    def test_dictionaries_hold_option_names(self) -> None:
        """A space with reordered options reads the same architecture."""
        space = self.make_space()
        reordered = Space(space.name, tuple(Choice(c.name, c.options[::-1]) for c in space.choices))
        for member in self._draws(space):
            assert reordered.architecture(member.to_dict()).to_dict() == member.to_dict()

    def test_samples_are_members_and_repeat_with_the_seed(self) -> None:
        """The same generator draws the same members."""
        space = self.make_space()
        draws = self._draws(space)
        assert all(draw in space for draw in draws)
        assert draws == self._draws(self.make_space())

    def test_mutation_changes_one_choice(self) -> None:
        """Also under a further restriction."""
        space = self.make_space()
        members = list(space.enumerate())
        for position, draw in enumerate(self._draws(space)):
            around = {member for member in members if _distance(draw, member) == 1}
            if not around:
                continue
            assert mutate(draw, generator_at(0, "mutate", position)) in around
            target = min(around, key=lambda neighbour: neighbour.indices)
            assert mutate(draw, generator_at(0, "mutate", position), accept=partial(eq, target)) == target

    def test_canonical_key_is_a_function_of_the_architecture(self) -> None:
        """Equal architectures have equal keys, and the key is a string."""
        space = self.make_space()
        for draw in self._draws(space):
            again = Architecture(self.make_space(), draw.indices)
            assert isinstance(draw.canonical(), str)
            assert again.canonical() == draw.canonical() == space.canonical_key(draw)

    def _draws(self, space: Space) -> list[Architecture]:
        generator = generator_at(0, "space")
        return [space.sample(generator) for _ in range(DRAWS)]


def _distance(first: Architecture, second: Architecture) -> int:
    return sum(a != b for a, b in zip(first.indices, second.indices, strict=True))
