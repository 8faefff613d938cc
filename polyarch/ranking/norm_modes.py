"""Whether architectures keep their ranking when batch normalisation switches from batch to running statistics.

Deng, Dong, Zhang and Zhu (2020), "Understanding and Exploring the Network with Stochastic Architectures", NeurIPS.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from polyarch.data import BatchSource
from polyarch.estimators import ValAcc
from polyarch.nn import BatchStatistics, NormPolicy, RunningStatistics
from polyarch.ranking.correlations import correlation, paired
from polyarch.spaces import Architecture
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import Supernet
from polyarch.tasks import Task


@dataclass(frozen=True)
class NormModes:
    """Scores of n architectures with the weights of a supernet, under both kinds of normalisation statistics.

    Higher is better.
    ``batch``, (n,), uses the statistics of each batch, as in training; ``running``, (n,), the running averages.
    ``spearman`` is their rank correlation, None if one of them is constant.
    """

    batch: tuple[float, ...]
    running: tuple[float, ...]
    spearman: float | None


def norm_modes(
    net: Supernet, architectures: Sequence[Architecture], valid: BatchSource, *, task: Task = CLASSES
) -> NormModes:
    """Evaluates 3 or more architectures twice, on batches of the same size as in training; keeps the supernet."""

    def scores(policy: NormPolicy) -> tuple[float, ...]:
        judge = ValAcc(valid, valid, policy=policy, task=task)  # neither policy uses training data
        return tuple(judge.score(net, architecture) for architecture in architectures)

    batch, running = scores(BatchStatistics()), scores(RunningStatistics())
    return NormModes(batch, running, correlation("spearman", *paired(batch, running, least=3)))
