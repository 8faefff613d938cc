"""Every estimator keeps the contract."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from polyarch.data import Batches
from polyarch.estimators import (
    NASWOT,
    Estimator,
    ExponentialAverage,
    LastPart,
    Latency,
    MACs,
    Parameters,
    ShortRun,
    SoG,
    SoGN,
    SoTL,
    SoVL,
    SynFlow,
    TLMini,
    ValAcc,
    ValAccAfter,
    ValAccMini,
)
from polyarch.nn import AdaptedStatistics, BatchStatistics, ReestimatedStatistics, RunningStatistics
from polyarch.randomness import global_seed
from polyarch.spaces import Architecture
from polyarch.supernets import ChainSupernet, FullyConnectedDepth, NB201Supernet, Supernet
from polyarch.testing import EstimatorContract, random_data

SHAPE = (3, 8, 8)
TRAIN = Batches(random_data(SHAPE, examples=24), 8)
VALID = Batches(random_data(SHAPE, examples=20, seed=1), 8, shuffle=False)


def fresh_cell(architecture: Architecture) -> nn.Module:
    with global_seed(1, "fresh"):
        return NB201Supernet(channels=2, cells=1, classes=3).extract(architecture)


class CellContract(EstimatorContract):
    policy: str | None = None

    def make_supernet(self) -> Supernet:
        return NB201Supernet(channels=2, cells=1, classes=3)

    def test_the_policy_in_words(self) -> None:
        assert self.make_estimator().policy == self.policy


class TestValAcc(CellContract):
    policy = "adapt(2)"

    def make_estimator(self) -> Estimator:
        return ValAcc(VALID, TRAIN, policy=AdaptedStatistics(2))


class TestValAccWithRunningStatistics(CellContract):
    policy = "running"

    def make_estimator(self) -> Estimator:
        return ValAcc(VALID, TRAIN, policy=RunningStatistics())


class TestValAccWithBatchStatistics(CellContract):
    policy = "batch"

    def make_estimator(self) -> Estimator:
        return ValAcc(VALID, TRAIN, policy=BatchStatistics())


class TestValAccMini(CellContract):
    policy = "reestimate(5)"

    def make_estimator(self) -> Estimator:
        return ValAccMini(VALID, TRAIN, policy=ReestimatedStatistics(5))


class TraceContract(CellContract):
    policy = "batch"
    run = ShortRun(TRAIN, steps=4, weight_decay=1e-3, valid=VALID, gradients=True)

    def make_supernet(self) -> Supernet:
        """What a trace is summed to does not depend on the network: a small one."""
        return ChainSupernet(
            channels=(4, 4), kernels=(3,), expansions=(1, 2), stem_channels=4, head_channels=4, classes=3
        )


class TestSoTL(CellContract):
    policy = "batch"

    def make_estimator(self) -> Estimator:
        return SoTL(ShortRun(TRAIN, steps=4, weight_decay=1e-3))


class TestSoTLOfTheLastPart(TraceContract):
    def make_estimator(self) -> Estimator:
        return SoTL(self.run, LastPart(share=0.5))


class TestSoTLAverage(TraceContract):
    def make_estimator(self) -> Estimator:
        return SoTL(self.run, ExponentialAverage(decay=0.8))


class TestSoVL(TraceContract):
    def make_estimator(self) -> Estimator:
        return SoVL(self.run)


class TestTLMini(TraceContract):
    def make_estimator(self) -> Estimator:
        return TLMini(self.run)


class TestSoG(TraceContract):
    def make_estimator(self) -> Estimator:
        return SoG(self.run)


class TestSoGN(TraceContract):
    def make_estimator(self) -> Estimator:
        return SoGN(self.run)


class TestValAccAfter(TraceContract):
    policy = "adapt(2)"

    def make_estimator(self) -> Estimator:
        return ValAccAfter(replace(self.run, judge=ValAcc(VALID, TRAIN, policy=AdaptedStatistics(2))))


class TestParameters(CellContract):
    def make_estimator(self) -> Estimator:
        return Parameters()


class TestMACs(CellContract):
    def make_estimator(self) -> Estimator:
        return MACs(SHAPE)


class TestLatency(CellContract):
    deterministic = False

    def make_estimator(self) -> Estimator:
        return Latency(SHAPE, batch_size=2, rounds=3)


class TestSynFlow(CellContract):
    def make_estimator(self) -> Estimator:
        return SynFlow(SHAPE)


class TestNASWOT(CellContract):
    policy = "batch"

    def make_estimator(self) -> Estimator:
        return NASWOT(TRAIN)


class TestSynFlowOfFreshNetworks(CellContract):
    """Whatever the supernet: a network that is made anew for every score."""

    def make_estimator(self) -> Estimator:
        return SynFlow(SHAPE, fresh=fresh_cell)


class TestSoTLOfDepths(EstimatorContract):
    def make_supernet(self) -> Supernet:
        return FullyConnectedDepth(features=3 * 8 * 8, classes=3, max_depth=4, width=5)

    def make_estimator(self) -> Estimator:
        return SoTL(ShortRun(TRAIN, steps=7))
