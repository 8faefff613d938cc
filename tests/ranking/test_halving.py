from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

from polyarch.data import Batches, load
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators import ShortRun
from polyarch.executors import Executor, Processes, Serial
from polyarch.randomness import generator_at, global_seed
from polyarch.ranking import (
    Elimination,
    geometric_rungs,
    halving_counts,
    halving_on_curves,
    halving_steps,
    successive_halving,
)
from polyarch.ranking.halving import Curve
from polyarch.spaces import Architecture
from polyarch.supernets import NB201Supernet
from polyarch.testing import same_bits, state_of

DATA = load("digits").train.subset(range(64))
TRAIN = Batches(DATA, 16, seed=2)
RUNGS = (1, 2, 4)
RUN = ShortRun(TRAIN, steps=4, learning_rate=0.1)


@pytest.fixture(scope="module")
def net() -> NB201Supernet:
    with global_seed(0, "weights"):
        return NB201Supernet(channels=2, cells=1, in_channels=1)


@pytest.fixture(scope="module")
def architectures(net: NB201Supernet) -> list[Architecture]:
    return [net.space.sample(generator_at(0, "architecture", index)) for index in range(5)]


def full_curves(net: NB201Supernet, architectures: Sequence[Architecture], run: ShortRun) -> list[list[float]]:
    """Every architecture run straight through, NaN from where it diverges: the losses of its longest finite run."""
    curves = []
    for architecture in architectures:
        for steps in range(run.steps, 0, -1):
            with contextlib.suppress(NotFiniteError):
                trace = replace(run, steps=steps).trace(net, architecture)
                break
        curves.append([*trace.losses, *[math.nan] * (run.steps - steps)])
    return curves


@pytest.fixture(scope="module")
def expected(net: NB201Supernet, architectures: list[Architecture]) -> Elimination:
    return halving_on_curves(full_curves(net, architectures, RUN), RUNGS)


class TestCurvesByHand:
    losses = np.array([
        [1.0, 1.0, 1.0, 1.0],
        [3.0, 0.0, 0.0, 0.0],  # catches up too late: eliminated after the first step
        [2.0, 0.1, 0.1, 0.1],
        [1.5, 2.0, 0.0, 0.0],
        [9.0, 9.0, 9.0, 9.0],
    ])  # fmt: skip

    def test_order_steps_and_cost(self) -> None:
        found = halving_on_curves(self.losses, [1, 2, 4])
        assert found.order == (2, 0, 3, 1, 4)
        assert found.steps == (4, 1, 4, 2, 1)
        assert found.values == pytest.approx((-4.0, -3.0, -2.3, -3.5, -9.0))
        assert found.spent == 12
        assert found.full_steps == 20

    def test_one_rung_is_the_full_ranking(self) -> None:
        found = halving_on_curves(self.losses, [4])
        assert found.order == (2, 1, 3, 0, 4)
        assert found.spent == found.full_steps == 20

    def test_factor(self) -> None:
        assert halving_on_curves(self.losses, [1, 4], factor=5).steps == (4, 1, 1, 1, 1)

    def test_diverged_runs_come_last(self) -> None:
        losses = self.losses.copy()
        losses[2, 1:] = np.nan
        losses[0, 3] = np.inf
        found = halving_on_curves(losses, [1, 2, 4])
        assert found.order == (3, 1, 4, 0, 2)
        assert found.steps == (4, 1, 2, 4, 1)
        assert found.values[0] == found.values[2] == -math.inf

    def test_everything_diverged(self) -> None:
        found = halving_on_curves(np.full((3, 4), np.nan), [1, 4])
        assert found.order == (0, 1, 2)
        assert found.steps == (1, 1, 1)

    @pytest.mark.parametrize("rungs", [[], [0, 2], [2, 2], [3, 1], [2, 5]])
    def test_rungs_that_cannot_be(self, rungs: list[int]) -> None:
        with pytest.raises(InvalidInput, match=r"Expected (increasing )?rungs"):
            halving_on_curves(self.losses, rungs)

    @pytest.mark.parametrize("factor", [1.0, 0.5, math.nan])
    def test_factors_that_cannot_be(self, factor: float) -> None:
        with pytest.raises(InvalidInput, match="factor above 1"):
            halving_on_curves(self.losses, [4], factor)

    def test_curves_in_a_table(self) -> None:
        with pytest.raises(InvalidInput, match=r"shape \(architectures, steps\)"):
            halving_on_curves([1.0, 2.0], [1])


@st.composite
def curves_and_rungs(draw: st.DrawFn) -> tuple[list[list[float]], list[int]]:
    steps = draw(st.integers(1, 8))
    losses = st.integers(0, 5).map(float)
    curves = draw(st.lists(st.lists(losses, min_size=steps, max_size=steps), min_size=1, max_size=12))
    rungs = draw(st.sets(st.integers(1, steps), max_size=4)) | {steps}
    return curves, sorted(rungs)


FACTORS = st.sampled_from([1.5, 2.0, 3.0, 4.0])


class TestInvariants:
    @given(curves_and_rungs(), FACTORS)
    def test_order_and_cost(self, given: tuple[list[list[float]], list[int]], factor: float) -> None:
        curves, rungs = given
        found = halving_on_curves(curves, rungs, factor)
        n = len(curves)
        assert sorted(found.order) == list(range(n))
        counts = [n]
        for _ in rungs[1:]:
            counts.append(math.ceil(counts[-1] / factor))
        lengths = np.diff([0, *rungs])
        assert found.spent == sum(count * length for count, length in zip(counts, lengths, strict=True))
        assert found.spent == halving_steps(n, rungs, factor)
        assert counts == halving_counts(n, rungs, factor)
        assert found.spent <= found.full_steps == n * rungs[-1]
        ranked = [(-found.steps[position], -found.values[position], position) for position in found.order]
        assert ranked == sorted(ranked)  # later rungs first, then the score, then the earlier architecture

    @given(curves_and_rungs(), FACTORS)
    def test_the_best_all_along_wins(self, given: tuple[list[list[float]], list[int]], factor: float) -> None:
        curves, rungs = given
        curves.append([-1.0] * rungs[-1])
        assert halving_on_curves(curves, rungs, factor).order[0] == len(curves) - 1

    @given(curves_and_rungs(), FACTORS)
    def test_survivors_rank_as_in_the_full_ranking(
        self, given: tuple[list[list[float]], list[int]], factor: float
    ) -> None:
        curves, rungs = given
        found = halving_on_curves(curves, rungs, factor)
        survivors = [position for position in found.order if found.steps[position] == rungs[-1]]
        full = halving_on_curves(curves, rungs[-1:]).order
        assert survivors == [position for position in full if position in survivors]


@pytest.mark.slow
class TestRealRuns:
    def halve(
        self,
        net: NB201Supernet,
        architectures: Sequence[Architecture],
        executor: Executor | None = None,
        *,
        run: ShortRun | None = None,
        known: dict[str, Curve] | None = None,
        note: Callable[[str, Curve], None] | None = None,
    ) -> Elimination:
        executor = executor or Serial()
        return successive_halving(net, architectures, run or RUN, executor, rungs=RUNGS, known=known, note=note)

    def test_have_the_bits_of_straight_runs(
        self, net: NB201Supernet, architectures: list[Architecture], expected: Elimination
    ) -> None:
        before = state_of(net)
        curves: dict[str, Curve] = {}

        def note(key: str, curve: Curve) -> None:
            curves[key] = curve

        assert self.halve(net, architectures, note=note) == expected
        assert same_bits(state_of(net), before)
        assert sorted(expected.steps) == [1, 1, 2, 4, 4]
        for position in expected.order[:2]:
            key = architectures[position].key
            assert curves[key] == RUN.trace(net, architectures[position]).losses

    def test_from_worker_processes(
        self, net: NB201Supernet, architectures: list[Architecture], expected: Elimination
    ) -> None:
        assert self.halve(net, architectures, Processes(2)) == expected

    def test_are_not_begun_anew_in_the_next_rung(self, net: NB201Supernet, architectures: list[Architecture]) -> None:
        drawn: list[Tensor] = []

        def counted(inputs: Tensor, generator: Generator) -> Tensor:
            drawn.append(inputs)
            return inputs

        run = replace(RUN, train=Batches(DATA, 16, seed=2, augmentations=[counted]))
        found = self.halve(net, architectures, run=run)
        assert len(drawn) == found.spent == 5 * 1 + 3 * 1 + 2 * 2

    def test_diverged_ones_are_eliminated(self, net: NB201Supernet, architectures: list[Architecture]) -> None:
        run = replace(RUN, learning_rate=1e30)
        found = self.halve(net, architectures[:3], run=run)
        assert found == halving_on_curves(full_curves(net, architectures[:3], run), RUNGS)
        assert -math.inf in found.values

    @pytest.mark.parametrize("killed_after", [3, 9])
    def test_go_on_after_a_kill(
        self, net: NB201Supernet, architectures: list[Architecture], expected: Elimination, killed_after: int
    ) -> None:
        """What was noted is not run again; what goes on further has the same bits."""

        class Killed(Exception):
            pass

        noted: list[tuple[str, Curve]] = []

        def until_killed(key: str, curve: Curve) -> None:
            noted.append((key, curve))
            if len(noted) == killed_after:
                raise Killed

        with pytest.raises(Killed):
            self.halve(net, architectures, note=until_killed)
        again: list[tuple[str, Curve]] = []
        found = self.halve(net, architectures, known=dict(noted), note=lambda key, curve: again.append((key, curve)))
        assert found == expected
        assert len(noted) + len(again) == 5 + 3 + 2

    def test_the_last_rung_is_the_end_of_the_run(self, net: NB201Supernet, architectures: list[Architecture]) -> None:
        with pytest.raises(InvalidInput, match="last rung at the end of the run, 4"):
            successive_halving(net, architectures, RUN, Serial(), rungs=[1, 3])


class TestRungs:
    @pytest.mark.parametrize(
        ("steps", "first", "factor", "expected"),
        [(100, 12, 2, (12, 24, 48, 96, 100)), (100, 25, 2, (25, 50, 100)), (5, 5, 2, (5,)), (4, 1, 1.2, (1, 2, 3, 4))],
    )
    def test_grow_geometrically(self, steps: int, first: int, factor: float, expected: tuple[int, ...]) -> None:
        assert geometric_rungs(steps, first=first, factor=factor) == expected

    @pytest.mark.parametrize(("steps", "first", "factor"), [(4, 5, 2), (4, 0, 2), (4, 1, 1)])
    def test_that_cannot_be(self, steps: int, first: int, factor: float) -> None:
        with pytest.raises(InvalidInput, match="1 <= first <= steps"):
            geometric_rungs(steps, first=first, factor=factor)
