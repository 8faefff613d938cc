"""Trainings by the clock: laps, budgets, falling learning rates, and averages of weights."""

from __future__ import annotations

import copy
from itertools import islice
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from polyarch.data import Batches, TensorData, endless
from polyarch.errors import Interrupted, InvalidInput
from polyarch.randomness import global_seed
from polyarch.strategies import Supervised
from polyarch.testing import StopAt, same_bits
from polyarch.training import (
    BestAverage,
    CheckpointStore,
    FitState,
    History,
    Laps,
    TimeBudget,
    Trapezoid,
    WeightAverage,
    fit,
)
from polyarch.training.weight_average import EVERY, SHARPNESS


def data() -> TensorData:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(40, 3, generator=generator)
    return TensorData(inputs, (inputs[:, 0] > 0).long(), 2)


def network() -> nn.Module:
    with global_seed(0, "net"):
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


class TestLaps:
    @given(st.integers(1, 7), st.integers(0, 5), st.data())
    def test_are_the_batches_of_the_source_in_order(self, steps: int, lap: int, drawn: st.DataObject) -> None:
        start = drawn.draw(st.integers(0, steps))
        source = Batches(data(), 8, seed=1)
        found = list(Laps(source, steps).epoch(lap, start=start))
        expected = list(islice(endless(source), lap * steps + start, (lap + 1) * steps))
        assert len(found) == len(expected) == steps - start
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one.inputs, other.inputs) and torch.equal(one.targets, other.targets)

    def test_need_a_batch(self) -> None:
        with pytest.raises(InvalidInput, match=r"laps of 1 or more batches\. Got 0\."):
            Laps(Batches(data(), 8), 0)


def train(
    seconds: float,
    folder: Path | None = None,
    *,
    falls_after: float | None = None,
    step_seconds: float | None = 0.5,
    stop_at: int = -1,
) -> tuple[nn.Module, WeightAverage, History, list[float]]:
    """The network, its average, what was measured, and the learning rate of every step."""
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9)
    budget = TimeBudget(seconds, step_seconds)
    rates: list[float] = []

    class Rates(Trapezoid):
        def on_step_start(self, state: FitState) -> None:
            super().on_step_start(state)
            rates.append(self.optimizer.param_groups[0]["lr"])

    average, stop = WeightAverage(net), StopAt(stop_at)
    hung = [budget, Rates(optimizer, budget, peak=0.1, warmup=4, falls_after=falls_after), average, stop]
    history = fit(
        Supervised(net, optimizer),
        Laps(Batches(data(), 8, seed=1), 4),
        epochs=10**6,
        seed=0,
        callbacks=hung,
        checkpoints=None if folder is None else CheckpointStore(folder),
        stop=stop.request,
        further=True,
    )
    return net, average, history, rates


class TestBudget:
    def test_ends_with_the_lap_in_which_the_time_is_over(self) -> None:
        _, _, history, _ = train(9.0)
        assert history.last["step"] == 20  # 18 steps of half a second each, in laps of 4
        assert history["seconds"] == [2.0, 4.0, 6.0, 8.0, 10.0]

    def test_real_seconds_pass(self) -> None:
        _, _, history, _ = train(0.2, step_seconds=None)
        assert history.last["seconds"] >= 0.2
        assert all(row["seconds"] < 0.2 for row in history.rows[:-1])

    def test_a_larger_budget_goes_on_as_if_it_had_been_given_at_first(self, tmp_path: Path) -> None:
        train(6.0, tmp_path / "parts")
        parts, average, history, _ = train(14.0, tmp_path / "parts", falls_after=8.0)
        whole, whole_average, whole_history, _ = train(14.0, falls_after=8.0)
        assert same_bits(parts.state_dict(), whole.state_dict())
        assert same_bits(average.average.state_dict(), whole_average.average.state_dict())
        assert history.rows == whole_history.rows

    def test_the_same_budget_again_changes_nothing(self, tmp_path: Path) -> None:
        before, _, history, _ = train(6.0, tmp_path / "run")
        after, _, again, rates = train(6.0, tmp_path / "run")
        assert rates == [] and again.rows == history.rows
        assert same_bits(before.state_dict(), after.state_dict())

    @pytest.mark.parametrize("at", [1, 5, 12, 18, 19])
    def test_stopped_anywhere_it_ends_with_the_same_bits(self, at: int, tmp_path: Path) -> None:
        """Also in the lap in which the time is over, and if a smaller budget is asked for in between."""
        with pytest.raises(Interrupted):
            train(9.0, tmp_path / "run", falls_after=4.0, stop_at=at)
        if at > 8:
            assert train(4.0, tmp_path / "run")[3] == []
        resumed, average, _, _ = train(9.0, tmp_path / "run", falls_after=4.0)
        whole, whole_average, _, _ = train(9.0, falls_after=4.0)
        assert same_bits(resumed.state_dict(), whole.state_dict())
        assert same_bits(average.state_dict(), whole_average.state_dict())

    def test_needs_time(self) -> None:
        with pytest.raises(InvalidInput, match=r"more than 0 seconds\. Got 0"):
            TimeBudget(0.0)


def test_the_rate_rises_stays_and_falls() -> None:
    _, _, _, rates = train(10.0, falls_after=5.0)
    expected = [0.025, 0.05, 0.075, *[0.1] * 8, *(0.1 * (1 - share / 10) for share in range(1, 10))]
    assert rates == pytest.approx(expected)


def test_a_rate_without_an_end_stays() -> None:
    _, _, _, rates = train(10.0)
    assert rates[3:] == [0.1] * 17


class TestWeightAverage:
    def test_is_the_recursion_of_the_docstring(self) -> None:
        net = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)).double()
        average, state = (
            WeightAverage(net),
            FitState(Supervised(net, torch.optim.SGD(net.parameters())), epochs=9, steps_per_epoch=9),
        )
        expected = [tensor.clone() for tensor in (*net.parameters(), *net.buffers())]
        updates = 0
        for step in range(1, 30):
            with torch.no_grad():
                for tensor in (*net.parameters(), *net.buffers()):
                    tensor.add_(step)
            state.step = step
            average.on_step_end(state, {})
            if step % EVERY == 0:
                updates += 1
                share = (SHARPNESS + 1) / (updates + SHARPNESS)
                now = (*net.parameters(), *net.buffers())
                expected = [(1 - share) * old + share * new for old, new in zip(expected, now, strict=True)]
        found = (*average.average.parameters(), *average.average.buffers())
        for one, other in zip(found, expected, strict=True):
            if one.is_floating_point():
                torch.testing.assert_close(one, other)

    def test_the_first_update_is_the_network_itself(self) -> None:
        net = network()
        average = WeightAverage(copy.deepcopy(net))
        state = FitState(Supervised(net, torch.optim.SGD(net.parameters())), epochs=1, steps_per_epoch=9)
        state.step = EVERY
        with torch.no_grad():
            for parameter in average.network.parameters():
                parameter.add_(1)
        average.on_step_end(state, {})
        for one, other in zip(average.average.parameters(), average.network.parameters(), strict=True):
            assert torch.equal(one, other)


class TestBestAverage:
    def measured(self, values: list[float], every: int = 1) -> tuple[BestAverage, list[nn.Module]]:
        """After one epoch per value, in each of which the network moves."""
        net = network()
        average = WeightAverage(net)
        given = iter(values)
        best = BestAverage(average, lambda module: next(given), every=every)
        state = FitState(Supervised(net, torch.optim.SGD(net.parameters())), epochs=9, steps_per_epoch=EVERY)
        courses = []
        for epoch in range(len(values) * every):
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter.add_(1)
            state.step += EVERY
            average.on_step_end(state, {})
            best.on_epoch_end(state, {"epoch": epoch})
            courses.append(copy.deepcopy(average.average))
        return best, courses

    def test_the_lowest_is_kept(self) -> None:
        best, courses = self.measured([3.0, 1.0, 2.0])
        assert best.lowest == 1.0 and same_bits(best.best().state_dict(), courses[1].state_dict())
        assert not best.best().training

    def test_is_measured_now_and_then(self) -> None:
        best, courses = self.measured([2.0, 1.0], every=2)
        assert same_bits(best.best().state_dict(), courses[3].state_dict())

    def test_survives_a_checkpoint(self) -> None:
        best, courses = self.measured([1.0, 2.0])
        again, _ = self.measured([5.0])
        again.load_state_dict(best.state_dict())
        assert again.lowest == 1.0 and same_bits(again.best().state_dict(), courses[0].state_dict())

    def test_without_a_measurement_it_is_the_average(self) -> None:
        best, courses = self.measured([])
        assert courses == [] and same_bits(best.best().state_dict(), best.average.average.state_dict())
