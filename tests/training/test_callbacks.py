from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scripted_strategy import Scripted, two_batches
from torch import nn

from polyarch.errors import InvalidInput, UnknownName
from polyarch.training import Callback, EarlyStopping, FitState, Schedule, cosine, fit, piecewise


class TestEarlyStopping:
    @pytest.mark.parametrize(
        ("script", "settings", "epochs_run", "best_epoch"),
        [
            ([0.1, 0.5, 0.4, 0.5, 0.9], {"maximise": True, "patience": 2}, 4, 1),  # equal is not better
            ([0.1, 0.5, 0.4, 0.6, 0.5, 0.5], {"maximise": True, "patience": 2}, 6, 3),
            ([0.9, 0.5, 0.6, 0.1], {"maximise": False, "patience": 1}, 3, 1),
            ([0.1, 0.2, 0.3, 0.4], {"maximise": True, "patience": 1}, 4, 3),
        ],
    )
    def test_stops_and_puts_the_best_back(
        self, script: list[float], settings: dict[str, float], epochs_run: int, best_epoch: int
    ) -> None:
        strategy = Scripted(script)
        stopping = EarlyStopping("valid_accuracy", **settings)  # type: ignore[arg-type]
        history = fit(strategy, two_batches(), two_batches(), epochs=len(script), seed=0, callbacks=[stopping])
        assert len(history.rows) == epochs_run
        assert stopping.best_epoch == best_epoch
        assert strategy.module.weight.item() == 2 * (best_epoch + 1)  # two steps per epoch

    def test_learning_rate_of_the_best_epoch_comes_back_too(self) -> None:
        strategy = Scripted([0.9, 0.1])
        decay = Schedule(strategy.optimizer, piecewise({0: 0.5, 2: 0.25}))
        stopping = EarlyStopping("valid_accuracy", maximise=True, patience=1)
        fit(strategy, two_batches(), two_batches(), epochs=2, seed=0, callbacks=[decay, stopping])
        assert strategy.optimizer.param_groups[0]["lr"] == 0.5

    def test_unknown_value_lists_what_there_is(self) -> None:
        stopping = EarlyStopping("valid_acuracy", maximise=True, patience=1)
        with pytest.raises(UnknownName, match=r"epoch, step, loss, valid_accuracy.*Did you mean 'valid_accuracy'\?"):
            fit(Scripted(), two_batches(), two_batches(), epochs=1, seed=0, callbacks=[stopping])

    def test_patience_below_one(self) -> None:
        with pytest.raises(InvalidInput, match=r"patience of 1 epoch or more. Got 0"):
            EarlyStopping("loss", maximise=False, patience=0)


class Rates(Callback):
    """Notes the learning rate that a step is taken with."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.seen: list[float] = []

    def on_step_start(self, state: FitState) -> None:
        self.seen.append(self.optimizer.param_groups[0]["lr"])


class TestSchedules:
    def rates(self, rate: Callable[[int, int], float], epochs: int) -> list[float]:
        strategy = Scripted()
        seen = Rates(strategy.optimizer)
        fit(strategy, two_batches(), epochs=epochs, seed=0, callbacks=[Schedule(strategy.optimizer, rate), seen])
        return seen.seen

    def test_cosine_equals_torch(self) -> None:
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
        theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10, eta_min=0.05)
        expected = []
        for _ in range(10):
            expected.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            theirs.step()
        assert self.rates(cosine(0.3, 0.05), 5) == pytest.approx(expected, rel=1e-9)

    def test_warmup_rises_in_a_line_and_then_falls(self) -> None:
        rates = self.rates(cosine(0.4, warmup=4), 5)
        assert rates[:4] == pytest.approx([0.1, 0.2, 0.3, 0.4])
        assert rates[4:] == pytest.approx([0.2 * (1 + math.cos(math.pi * step / 6)) for step in range(6)])

    def test_piecewise(self) -> None:
        assert self.rates(piecewise({3: 0.01, 0: 0.1, 5: 0.001}), 3) == [0.1, 0.1, 0.1, 0.01, 0.01, 0.001]

    def test_groups_with_a_rate_of_their_own_keep_their_factor(self) -> None:
        """At every step, and not one on top of the other."""
        groups = [{"params": [nn.Parameter(torch.zeros(1))], **more} for more in ({}, {"rate_factor": 5.0})]
        optimizer = torch.optim.SGD(groups, lr=1.0)
        schedule, run = Schedule(optimizer, cosine(0.4)), FitState(Scripted(), epochs=4, steps_per_epoch=1)
        for run.step in range(4):
            schedule.on_step_start(run)
            expected = 0.2 * (1 + math.cos(math.pi * run.step / 4))
            assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([expected, 5 * expected])

    def test_piecewise_needs_a_start(self) -> None:
        with pytest.raises(InvalidInput, match=r"rate for step 0. Got rates for steps \[3, 5\]"):
            piecewise({5: 0.1, 3: 0.2})


def test_no_state_of_a_warm_up_is_kept() -> None:
    stopping = EarlyStopping("loss", maximise=False, patience=2, after=2)
    run = FitState(Scripted(), epochs=9, steps_per_epoch=1)
    for epoch, loss in enumerate([0.1, 0.2, 3.0, 2.0, 2.5]):
        stopping.on_epoch_end(run, {"epoch": epoch, "loss": loss})
    assert (stopping.best, stopping.best_epoch, run.should_stop) == (2.0, 3, False)
    stopping.on_epoch_end(run, {"epoch": 5, "loss": 2.0})
    assert run.should_stop
