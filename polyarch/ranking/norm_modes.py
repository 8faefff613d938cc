"""Whether architectures keep their order when batch normalisation goes over from batch to running statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyarch.data import BatchSource
from polyarch.estimators import ValAcc
from polyarch.nn import BatchStatistics, NormPolicy, RunningStatistics
from polyarch.ranking.correlations import correlation, paired
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


@dataclass(frozen=True)
class NormModes:
    """Accuracies of n architectures with the weights of a supernet, under both modes of normalisation.

    Args:
        batch: (n,) with the statistics of every batch itself, as in training.
        running: (n,) with the running averages, as in evaluation.
        spearman: the rank correlation of the two; None where one of them does not vary.
    """

    batch: tuple[float, ...]
    running: tuple[float, ...]
    spearman: float | None


def norm_modes(net: Supernet, architectures: Sequence[Architecture], valid: BatchSource) -> NormModes:
    """Every architecture on the same validation batches, twice; the supernet stays as it is.

    Args:
        architectures: 3 or more.
        valid: with batches of the size of training, which the batch statistics depend on.
    """

    def accuracies(policy: NormPolicy) -> tuple[float, ...]:
        judge = ValAcc(valid, valid, policy=policy)  # neither policy looks at training data
        return tuple(judge.score(net, architecture) for architecture in architectures)

    batch, running = accuracies(BatchStatistics()), accuracies(RunningStatistics())
    return NormModes(batch, running, correlation("spearman", *paired(batch, running, least=3)))
