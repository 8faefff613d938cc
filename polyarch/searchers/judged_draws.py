"""Networks drawn from a posterior and judged with the weights they inherit from the supernet.

Zhou, Sun, Luo, Zha and Zeng (2020), "Posterior-Guided Neural Architecture Search", arXiv:1906.09557.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from polyarch.data import BatchSource
from polyarch.spaces import Architecture
from polyarch.strategies import measure
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import GatedSupernet
from polyarch.tasks import Task

Draws = Callable[[int], Architecture]
"""The draw at position 0, 1, ..."""


@dataclass(frozen=True)
class JudgedDraw:
    """A drawn network with its held-out score (higher is better), loss in nats, cost and `GatedSupernet.notation`."""

    position: int
    notation: str
    score: float
    loss: float
    parameters: int
    macs: float


@dataclass(frozen=True)
class DrawScoring:
    """Judges one draw at a time; a task for executors.

    Each network is extracted, so that a small one is cheap to judge, and normalises with the running averages of the
    training. Worker processes receive only positions and repeat the draws themselves. ``draws`` has the kinds of draws
    by name, ``batches`` the held-out examples.
    """

    net: GatedSupernet
    draws: Mapping[str, Draws]
    batches: BatchSource
    task: Task = CLASSES

    def __call__(self, draw: tuple[str, int]) -> JudgedDraw:
        """Judges the draw (kind, position)."""
        kind, position = draw
        architecture = self.draws[kind](position)
        network = self.net.extract(architecture).eval()
        metric = self.task.selection
        found = measure(self.task, network, self.batches.epoch(0))
        cost, notation = self.net.cost(architecture), self.net.notation(architecture)
        return JudgedDraw(
            position, notation, metric.gain(found[metric.name]), found["loss"], cost.parameters, cost.macs
        )


def best_draw(draws: Iterable[JudgedDraw]) -> JudgedDraw:
    """The draw with the highest score; the lowest loss breaks ties."""
    return max(draws, key=lambda draw: (draw.score, -draw.loss))
