"""The contract of searchers."""

from unittest import TestCase

from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.randomness import derive_seed
from polyarch.searchers import Searcher
from polyarch.spaces import Architecture, Space


class SearcherContract:
    """Inherit, and return a searcher and its space, of more than 12 networks; ``objectives`` counts the scores."""

    objectives: int = 1

    def make_searcher(self) -> Searcher:
        """The searcher under test; all calls return equal ones without a past."""
        raise NotImplementedError

    def make_space(self) -> Space:
        """The space that it searches."""
        raise NotImplementedError

    def test_asked_architectures_are_members(self) -> None:
        """Every batch has as many architectures as requested."""
        searcher, space = self.make_searcher(), self.make_space()
        for n in (1, 4, 3, 4):
            asked = searcher.ask(n)
            assert len(asked) == n
            assert all(architecture in space for architecture in asked)
            self._tell(searcher, asked)

    def test_no_network_comes_twice(self) -> None:
        """All proposals have different canonical forms."""
        searcher = self.make_searcher()
        networks: list[str] = []
        for _ in range(3):
            asked = searcher.ask(4)
            networks.extend(architecture.canonical() for architecture in asked)
            self._tell(searcher, asked)
        assert len(set(networks)) == len(networks) == 12

    def test_same_past_same_proposals(self) -> None:
        """Two searchers that received the same scores propose the same."""
        first, second = self.make_searcher(), self.make_searcher()
        for _ in range(3):
            asked = first.ask(4)
            assert asked == second.ask(4)
            self._tell(first, asked)
            self._tell(second, asked)

    def test_only_what_was_asked_for_can_be_told(self) -> None:
        """An architecture that was not proposed is refused, and so is a second score."""
        searcher = self.make_searcher()
        asked = searcher.ask(2)
        stranger = next(member for member in self.make_space().enumerate() if member not in asked)
        with TestCase().assertRaises(InvalidInput):
            self._tell(searcher, [stranger])
        self._tell(searcher, asked)
        with TestCase().assertRaises(InvalidInput):
            self._tell(searcher, asked)

    def test_scores_must_be_numbers(self) -> None:
        """NaN raises, and the architecture can still be scored."""
        searcher = self.make_searcher()
        asked = searcher.ask(1)
        with TestCase().assertRaises(NotFiniteError):
            searcher.tell(asked, [[float("nan")] * self.objectives])
        assert searcher.finished() == []
        self._tell(searcher, asked)
        assert len(searcher.finished()) == 1

    def test_finished_is_in_the_order_of_proposal(self) -> None:
        """Whatever the order of the scores."""
        searcher = self.make_searcher()
        proposed: list[Architecture] = []
        for _ in range(2):
            asked = searcher.ask(4)
            proposed.extend(asked)
            for architecture in reversed(asked):
                self._tell(searcher, [architecture])
        finished = searcher.finished()
        assert [found.architecture for found in finished] == proposed
        assert [found.values for found in finished] == [self.scores(architecture) for architecture in proposed]

    def scores(self, architecture: Architecture) -> tuple[float, ...]:
        """Made-up scores in 0..1 that depend only on the architecture."""
        return tuple(derive_seed(0, "score", architecture.key, goal) / 2**63 for goal in range(self.objectives))

    def _tell(self, searcher: Searcher, architectures: list[Architecture]) -> None:
        searcher.tell(architectures, [self.scores(architecture) for architecture in architectures])
