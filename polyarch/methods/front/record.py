"""The section of a front in ``results.json``."""

from polyarch.results import Record, SizeRecord


class FrontRecord(Record):
    """All sizes, from few multiply-accumulates to many; ``best`` is the index of the one that is delivered."""

    sizes: list[SizeRecord]
    best: int
    steps: int
