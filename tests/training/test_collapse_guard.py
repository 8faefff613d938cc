"""The guard of a search: what counts as a collapse, what is done about it, and resuming in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, nn

from polyarch.data import Batch, Batches, TensorData
from polyarch.errors import Interrupted, InvalidInput, UnknownName
from polyarch.strategies import Stateful, Strategy
from polyarch.testing import StopAt, same_bits
from polyarch.training import Callback, CheckpointStore, CollapseGuard, CollapseLimits, FitState, History, Row, fit

STEPS_PER_EPOCH = 2
LIMITS = CollapseLimits(window=2, patience=2, after=0.0)


class Counting(Strategy):
    """Its weight and the momentum of its optimiser count the steps."""

    def __init__(self) -> None:
        self.module = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.module.weight)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=1.0, momentum=1.0)

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        self.module.weight.grad = torch.ones(1, 1)
        self.optimizer.step()
        return {"loss": 1.0}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        raise NotImplementedError

    def parts(self) -> Mapping[str, Stateful]:
        return {"module": self.module, "optimizer": self.optimizer}

    def state(self) -> dict[str, Any]:
        return {name: dict(part.state_dict()) for name, part in self.parts().items()}


class Script(Callback):
    """Writes values into the rows, as diagnostics would."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        row.update(self.rows[int(row["epoch"])])


def rows(
    skips: Sequence[float] = (), entropies: Sequence[float] = (), eigenvalues: Sequence[float | None] = ()
) -> list[Row]:
    """What is not given is harmless."""
    count = max(len(skips), len(entropies), len(eigenvalues))
    found = []
    for epoch in range(count):
        row = {"skip_share": skips[epoch] if skips else 0.0, "entropy_share": entropies[epoch] if entropies else 0.5}
        value = eigenvalues[epoch] if eigenvalues else None
        found.append(row if value is None else {**row, "eigenvalue": value})
    return found


def train(
    guard: CollapseGuard, script: list[Row], folder: Path | None = None, stop: int = 0
) -> tuple[Counting, History]:
    strategy, stopping = Counting(), StopAt(stop)
    data = TensorData(torch.zeros(4, 1), torch.zeros(4, dtype=torch.int64), 2)
    history = fit(
        strategy, Batches(data, 2), epochs=len(script), seed=0, callbacks=[Script(script), guard, stopping],
        checkpoints=CheckpointStore(folder) if folder else None, stop=stopping.request,
    )  # fmt: skip
    return strategy, history


def state_after(epoch: int) -> dict[str, Any]:
    strategy = Counting()
    for _ in range((epoch + 1) * STEPS_PER_EPOCH):
        strategy.step([], generator=torch.Generator())
    return strategy.state()


SKIPS = rows(skips=[0.0, 0.5, 0.6, 0.4, 0.6, 1.0, 1.0, 0.2])
GROWTH = rows(eigenvalues=[1.0, 1.2, 1.0, 1.4, None, 1.6, 1.8, 2.0])
SURE = rows(entropies=[0.9, 0.2, 0.05, 0.09, 0.01, 0.01, 0.01, 0.01])


@pytest.mark.parametrize(
    ("script", "began", "last", "words"),
    [
        (SKIPS, 4, 5, "Epoch 5: expected at most 50% of the operations to be skips. Got 100% (epochs in a row: 2)."),
        # (1.4 + 1.6) / 2 after (1.2 + 1.0) / 2: the state before the two later values is that of epoch 2
        (GROWTH, 3, 5, "Epoch 5: expected the dominant eigenvalue to grow by a factor below 1.3 (window: 2). "
         "Got 1.36, from 1.1 to 1.5."),
        (SURE, 2, 3, "Epoch 3: expected an entropy of q of at least 10% of its maximum in the first half of the "
         "epochs. Got 9.0%"),
    ],
)  # fmt: skip
class TestTroubles:
    def test_only_said(self, script: list[Row], began: int, last: int, words: str) -> None:
        heard: list[str] = []
        guard = CollapseGuard(limits=LIMITS, say=heard.append)
        strategy, history = train(guard, script)
        assert len(history.rows) == 8 and same_bits(strategy.state(), state_after(7))
        assert len(guard.findings) == 1 and words in guard.findings[0]
        assert heard == guard.findings

    def test_stopped(self, script: list[Row], began: int, last: int, words: str) -> None:
        guard = CollapseGuard("stop", LIMITS)
        strategy, history = train(guard, script)
        assert len(history.rows) == last + 1 and same_bits(strategy.state(), state_after(last))
        assert words in guard.findings[0] and guard.findings[1:] == ["The search was stopped."]

    def test_rolled_back(self, script: list[Row], began: int, last: int, words: str) -> None:
        guard = CollapseGuard("roll_back", LIMITS)
        strategy, history = train(guard, script)
        assert len(history.rows) == last + 1 and same_bits(strategy.state(), state_after(began - 1))
        assert guard.back_to == began - 1
        assert f"rolled back to epoch {began - 1}, the last before" in guard.findings[1]

    @pytest.mark.parametrize("action", ["warn", "roll_back"])
    @pytest.mark.parametrize("step", [3, 7, 8])  # the last one: after the epoch that ends the last of these searches
    def test_resumed(
        self, tmp_path: Path, script: list[Row], began: int, last: int, words: str, action: Any, step: int
    ) -> None:
        whole = CollapseGuard(action, LIMITS)
        strategy, history = train(whole, script)
        with pytest.raises(Interrupted):
            train(CollapseGuard(action, LIMITS), script, tmp_path, step)
        resumed = CollapseGuard(action, LIMITS)
        again, rows_again = train(resumed, script, tmp_path)
        assert same_bits(again.state(), strategy.state())
        assert same_bits(rows_again.rows, history.rows)
        assert same_bits(resumed.state_dict(), whole.state_dict())


@pytest.mark.parametrize(
    "script",
    [
        rows(skips=[0.6, 0.5, 0.6, 0.5, 0.6, 0.5]),  # never two epochs in a row
        rows(eigenvalues=[1.0, 1.2, 1.4, 1.6, 1.8, 2.0][::-1]),
        rows(eigenvalues=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5]),
        rows(eigenvalues=[-1.0, -1.0, 1.0, 9.0, 9.0, 9.0])[:4],  # no ratio to something negative
        rows(eigenvalues=[1.0, 9.0, 90.0]),  # fewer than two windows
        rows(entropies=[0.9, 0.9, 0.09, 0.01, 0.01, 0.01]),  # one epoch too late
    ],
)
def test_what_is_no_collapse(script: list[Row]) -> None:
    guard = CollapseGuard("stop", LIMITS)
    _, history = train(guard, script)
    assert guard.findings == [] and len(history.rows) == len(script)


def test_said_again_when_it_comes_back() -> None:
    guard = CollapseGuard(limits=LIMITS)
    train(guard, rows(skips=[1.0, 1.0, 1.0, 0.0, 1.0, 1.0]))
    assert [finding[:8] for finding in guard.findings] == ["Epoch 1:", "Epoch 5:"]


def test_the_first_epochs_are_not_judged_by_skips_and_eigenvalues() -> None:
    guard = CollapseGuard("stop", CollapseLimits(window=1, patience=1, after=0.5))
    train(guard, rows(skips=[1.0] * 3 + [0.0] * 3, eigenvalues=[1.0, 2.0, 4.0, 4.0, 4.0, 4.0]))
    assert guard.findings == []


def test_an_undecided_end_is_said_but_there_is_nothing_to_stop() -> None:
    guard = CollapseGuard("roll_back", LIMITS)
    strategy, _ = train(guard, rows(entropies=[1.0, 0.99, 0.98, 0.953]))
    assert len(guard.findings) == 1 and guard.back_to is None
    assert "Epoch 3: expected an entropy of q of at most 90% of its maximum at the end. Got 95.3%" in guard.findings[0]
    assert same_bits(strategy.state(), state_after(3))


def test_trouble_from_the_start_has_no_state_before_it() -> None:
    guard = CollapseGuard("roll_back", LIMITS)
    strategy, history = train(guard, rows(skips=[1.0] * 4))
    assert guard.findings[1] == "The search was stopped; there is no epoch before the trouble to roll back to."
    assert len(history.rows) == 2 and same_bits(strategy.state(), state_after(1))


def test_two_troubles_at_once_go_back_to_before_both() -> None:
    limits = CollapseLimits(window=1, patience=3, after=0.0)
    guard = CollapseGuard("roll_back", limits)
    train(guard, rows(skips=[0.0, 0.0, 1.0, 1.0, 1.0, 1.0], eigenvalues=[1.0, 1.0, 1.0, 1.0, 2.0, 2.0]))
    assert (len(guard.findings), guard.back_to) == (3, 1)


def test_only_states_that_may_be_needed_are_kept() -> None:
    guard = CollapseGuard("roll_back", LIMITS)
    train(guard, rows(eigenvalues=[1.0, None, None, 1.0, None, None, None, None]))
    assert sorted(guard.state_dict()["states"]) == [0, 3, 6, 7]
    warning = CollapseGuard(limits=LIMITS)
    train(warning, SKIPS)
    assert warning.state_dict()["states"] == {}


def test_what_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"skip_share"):
        train(CollapseGuard(), [{}])
    with pytest.raises(UnknownName, match=r"kind of action out of warn, stop, roll_back. Got 'halt'"):
        CollapseGuard("halt")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"shares in 0..1. Got .*skips=1.5"):
        CollapseLimits(skips=1.5)
    for wrong in ({"window": 0}, {"patience": 0}, {"growth": 1.0}):
        with pytest.raises(InvalidInput, match=r"growth above 1"):
            CollapseLimits(**wrong)
