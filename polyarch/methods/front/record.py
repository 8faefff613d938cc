"""The section of a front in ``results.json``."""

from collections.abc import Sequence

from polyarch.results import MethodRecord, Record, SizeRecord


class FrontRecord(MethodRecord):
    """All sizes, from few multiply-accumulates to many; ``best`` is the index of the one that is delivered."""

    sizes: list[SizeRecord]
    best: int
    steps: int

    @property
    def studied(self) -> Sequence[Record]:
        """All sizes."""
        return self.sizes
