"""Networks drawn from a posterior, judged with the weights that they come with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch

from polyarch.data import BatchSource
from polyarch.spaces import Architecture
from polyarch.strategies import Tally
from polyarch.supernets import GatedSupernet

Draws = Callable[[int], Architecture]
"""The draw at a position, 0, 1, ..."""


@dataclass(frozen=True)
class Candidate:
    """A draw and what it is worth on held-out data: share correct, mean negative log-likelihood; and what it costs.

    ``notation`` is that of the network, see `GatedSupernet.notation`. Under limits that are timed a position alone does
    not tell which network was drawn.
    """

    position: int
    notation: str
    accuracy: float
    loss: float
    parameters: int
    macs: float


@dataclass(frozen=True)
class CandidateScoring:
    """Judges draws one by one, as a task for executors: each is extracted, so that a small network costs little.

    Statistics of normalisation layers are the running averages of the training. A worker process makes its draws
    itself: nothing but their positions goes to it.

    Args:
        draws: kinds of draws by name.
        batches: held-out examples.
    """

    net: GatedSupernet
    draws: Mapping[str, Draws]
    batches: BatchSource

    def __call__(self, item: tuple[str, int]) -> Candidate:
        """The draw of a kind at a position."""
        kind, position = item
        architecture = self.draws[kind](position)
        network = self.net.extract(architecture).eval()
        tally = Tally()
        with torch.no_grad():
            for inputs, targets in self.batches.epoch(0):
                tally.add(network(inputs), targets)
        found, cost, notation = tally.means(), self.net.cost(architecture), self.net.notation(architecture)
        return Candidate(position, notation, found["accuracy"], found["loss"], cost.parameters, cost.macs)


def best_candidate(candidates: Iterable[Candidate]) -> Candidate:
    """The most accurate one; among equals the one with the lowest loss."""
    return max(candidates, key=lambda candidate: (candidate.accuracy, -candidate.loss))
