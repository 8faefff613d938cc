"""What a posterior-guided search learned, drew and kept."""

import re
from collections.abc import Sequence

from pydantic import Field

from polyarch.results.predictors import MethodRecord, Record

DRAWN, FURTHER = "best draw", "best draw, trained further"
"""Names of contenders; either may be the one that is exported."""
UNIFORM = "uniform width, as many operations"
"""The name of the contender that a user would try first."""


class GatedLayer(Record):
    """A layer whose input channels, or an operation whose output channels, are kept or dropped.

    ``drop`` is the learned drop probability, which layers of one ``group`` share. ``kept`` has a character for every
    channel, ``1`` where the best draw keeps it and ``0`` where not.
    """

    name: str
    group: str
    side: str
    drop: float
    kept: str

    @property
    def share(self) -> float:
        """Of the channels that the best draw keeps."""
        return self.kept.count("1") / len(self.kept)


class GuidedDraw(Record):
    """A network drawn, with the weights it came with: validation score, higher is better, and loss, and costs.

    ``position`` is its number among the draws of its kind; costs are those of the extracted network.
    """

    position: int
    score: float
    loss: float
    parameters: int
    macs: float


class GuidedRecord(MethodRecord):
    """A posterior over networks with kept and dropped channels, and the best of the draws from it.

    ``layers`` are in the order in which the network runs them. ``guided`` are the draws, ``random`` those at one rate
    for all channels with the same expected share of kept ones. ``best`` is the position of the best of ``guided``.
    ``full_parameters`` and ``full_macs`` are those of the network with all channels. ``strength`` is how much draws
    favour small networks, 0 where they are the posterior's own within the limits. ``members`` draws form the mixture.
    ``uniform_width`` is the share of channels in the network of uniform width with as many multiply-accumulates.
    ``prior_examples`` is N of the prior; records of version 0.9 and earlier lack it and had the number of examples.
    ``depths`` are the probabilities of the depths 0, 1, ... where they are learned, too; ``best_depth`` is that of the
    best draw.
    """

    length_scale: float
    prior_examples: int | None = None
    temperature: float
    initial_drop: float
    constant_decay: float | None = None
    keep_rate: float
    layers: list[GatedLayer]
    guided: list[GuidedDraw]
    random: list[GuidedDraw]
    best: int
    full_parameters: int
    full_macs: float
    strength: float = 0.0
    max_params: float | None = None
    max_macs: float | None = None
    members: int
    uniform_width: float | None = None
    depths: list[float] = Field(default_factory=list)
    best_depth: int | None = None

    @property
    def studied(self) -> Sequence[Record]:
        """The draws from the posterior, then those at one rate."""
        return [*self.guided, *self.random]

    @property
    def best_draw(self) -> GuidedDraw:
        """The best of the draws from the posterior."""
        return next(draw for draw in self.guided if draw.position == self.best)

    @property
    def limits(self) -> dict[str, float]:
        """Those on costs, by the names of their estimators."""
        known = {"params": self.max_params, "macs": self.max_macs}
        return {name: value for name, value in known.items() if value is not None}

    @property
    def used(self) -> list[GatedLayer]:
        """The layers that the best draw has."""
        return [layer for layer in self.layers if self.uses(layer)]

    @property
    def kept_channels(self) -> tuple[int, int]:
        """How many channels the best draw keeps, and how many all layers have."""
        return sum(layer.kept.count("1") for layer in self.used), sum(len(layer.kept) for layer in self.layers)

    def uses(self, layer: GatedLayer) -> bool:
        """Whether the best draw has a layer: blocks beyond its depth are left out with all of their channels."""
        block = re.search(r"(?:^|\.)blocks\.([0-9]{1,6})(?:\.|$)", layer.name)
        return block is None or self.best_depth is None or int(block[1]) < self.best_depth
