from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import pytest
import torch
from torch import Generator, nn

from polyarch.data import Batch, Batches, TensorData, spirals
from polyarch.distributions import Categorical
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.randomness import derive_seed, generator_at, global_seed
from polyarch.strategies import OneShot, Stateful, Strategy, Supervised, Variational
from polyarch.supernets import FullyConnectedDepth, NB201Supernet
from polyarch.training import Callback, EpochLog, FitState, Row, StepProgress, fit


def supervised(*, dropout: float = 0.0) -> Supervised:
    with global_seed(0, "weights"):
        network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2))
    return Supervised(network, torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9))


class Recording(Strategy):
    """Notes the batches it is given."""

    def __init__(self, batches_per_step: int = 1, held_out_per_step: int = 0) -> None:
        self.batches_per_step = batches_per_step
        self.held_out_per_step = held_out_per_step
        self.seen: list[list[float]] = []
        self.aside: list[list[float]] = []

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        self.seen.append([value for batch in train for value in batch.inputs.flatten().tolist()])
        self.aside.append([value for batch in held_out for value in batch.inputs.flatten().tolist()])
        return {"loss": float(len(self.seen)), "draw": torch.rand((), generator=generator).item()}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        return {"count": float(sum(len(batch.targets) for batch in batches))}

    def parts(self) -> Mapping[str, Stateful]:
        return {}


class Calls(Callback):
    """Notes what it is called for, with the step."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []

    def on_start(self, state: FitState) -> None:
        self.made.append(("start", state.step))

    def on_step_start(self, state: FitState) -> None:
        self.made.append(("step start", state.step))

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        self.made.append(("step end", state.step))

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        self.made.append(("epoch end", state.step))

    def on_end(self, state: FitState) -> None:
        self.made.append(("end", state.step))


def numbered(count: int) -> Batches:
    return Batches(TensorData(torch.arange(float(count)).unsqueeze(1), torch.zeros(count, dtype=torch.int64), 2), 2)


class TestLoop:
    def test_history_has_one_row_per_epoch_with_means(self) -> None:
        strategy = Recording()
        history = fit(strategy, numbered(8), numbered(6), epochs=3, seed=7)
        assert history["epoch"] == [0, 1, 2]
        assert history["step"] == [4, 8, 12]
        assert history["loss"] == [2.5, 6.5, 10.5]  # the means of 1..4, 5..8, 9..12
        draws = [torch.rand((), generator=generator_at(7, "step", step)).item() for step in range(12)]
        assert history.last["draw"] == pytest.approx(sum(draws[8:]) / 4)
        assert history["valid_count"] == [6, 6, 6]

    def test_held_out_batches_go_on_from_step_to_step(self) -> None:
        strategy, aside = Recording(held_out_per_step=2), numbered(6)
        fit(strategy, numbered(8), epochs=1, seed=0, held_out=aside)
        row = [batch.inputs.flatten().tolist() for epoch in range(3) for batch in aside.epoch(epoch)]
        assert strategy.aside == [row[2 * step] + row[2 * step + 1] for step in range(4)]

    def test_batches_come_in_the_order_of_their_epochs(self) -> None:
        strategy, batches = Recording(), numbered(8)
        fit(strategy, batches, epochs=2, seed=0)
        expected = [batch.inputs.flatten().tolist() for epoch in (0, 1) for batch in batches.epoch(epoch)]
        assert strategy.seen == expected

    def test_several_batches_per_step(self) -> None:
        strategy, batches = Recording(batches_per_step=3), numbered(14)
        history = fit(strategy, batches, epochs=2, seed=0)
        first = [batch.inputs.flatten().tolist() for batch in batches.epoch(0)]
        assert strategy.seen[:3] == [list(chain(*first[:3])), list(chain(*first[3:6])), first[6]]
        assert history["step"] == [3, 6]
        # Steps measure 1, 2, 3 on 3, 3, 1 batches, then 4, 5, 6.
        assert history["loss"] == pytest.approx([(3 * 1 + 3 * 2 + 3) / 7, (3 * 4 + 3 * 5 + 6) / 7])

    @pytest.mark.parametrize("steps", range(1, 10))
    def test_every_batch_is_used_once_per_epoch_whatever_the_size_of_blocks(self, steps: int) -> None:
        strategy, batches = Recording(batches_per_step=steps), numbered(14)
        history = fit(strategy, batches, epochs=2, seed=0)
        for epoch in (0, 1):
            seen = strategy.seen[epoch * len(strategy.seen) // 2 :][: len(strategy.seen) // 2]
            expected = [batch.inputs.flatten().tolist() for batch in batches.epoch(epoch)]
            assert list(chain(*seen)) == list(chain(*expected))
        assert history["step"] == [math.ceil(7 / steps), 2 * math.ceil(7 / steps)]

    def test_callbacks_are_called_in_order(self) -> None:
        calls = Calls()
        fit(Recording(), numbered(4), epochs=2, seed=0, callbacks=[calls])
        assert calls.made == [
            ("start", 0),
            ("step start", 0), ("step end", 1), ("step start", 1), ("step end", 2), ("epoch end", 2),
            ("step start", 2), ("step end", 3), ("step start", 3), ("step end", 4), ("epoch end", 4),
            ("end", 4),
        ]  # fmt: skip

    @pytest.mark.parametrize("epochs", [0, -1])
    def test_nothing_to_do(self, epochs: int) -> None:
        with pytest.raises(InvalidInput, match=f"Got epochs={epochs} and 4 batches"):
            fit(Recording(), numbered(8), epochs=epochs, seed=0)

    def test_reports(self) -> None:
        rows: list[Row] = []
        steps: list[tuple[int, int, dict[str, float]]] = []
        progress = StepProgress(lambda done, total, metrics: steps.append((done, total, dict(metrics))))
        history = fit(Recording(), numbered(4), epochs=2, seed=0, callbacks=[EpochLog(rows.append), progress])
        assert rows == history.rows
        assert [(done, total) for done, total, _ in steps] == [(step, 4) for step in range(5)]
        assert [metrics.get("loss") for _, _, metrics in steps] == [None, 1, 2, 3, 4]


class TestLearning:
    def test_loss_falls_and_validation_is_that_of_the_strategy(self) -> None:
        train, test = spirals(200, seed=0, rotation=90), spirals(200, seed=0, stream="test", rotation=90)
        strategy, valid = supervised(), Batches(test, 64, shuffle=False)
        history = fit(strategy, Batches(train, 20), valid, epochs=15, seed=0)
        assert history["loss"][-1] < history["loss"][0] / 3
        assert history.last["valid_accuracy"] > 0.95
        measured = strategy.evaluate(valid.epoch(0), generator=generator_at(0, "unused"))
        assert history.last["valid_loss"] == measured["loss"]
        correct = (strategy.network(test.inputs).argmax(1) == test.targets).double().mean()
        assert history.last["valid_accuracy"] == pytest.approx(float(correct))

    def test_randomness_is_the_seed_and_nothing_else(self) -> None:
        """Dropout draws from torch's global generator; its state before must not matter, nor may it change."""
        losses = []
        for outside, seed in ((1, 0), (2, 0), (2, 1)):
            torch.manual_seed(outside)
            before = torch.get_rng_state()
            losses.append(fit(supervised(dropout=0.5), Batches(spirals(40, seed=0), 8), epochs=1, seed=seed)["loss"])
            assert torch.equal(torch.get_rng_state(), before)
        assert losses[0] == losses[1] != losses[2]

    def test_global_generator_is_seeded_by_the_step(self) -> None:
        seen: list[float] = []

        class Drawing(Recording):
            def step(self, *_: object, generator: Generator) -> dict[str, float]:
                seen.append(torch.rand(()).item())
                return {}

        fit(Drawing(), numbered(6), epochs=1, seed=5)
        expected = []
        for step in range(3):
            with torch.random.fork_rng():
                torch.manual_seed(derive_seed(5, "global", step))
                expected.append(torch.rand(()).item())
        assert seen == expected


def strategies_with_output() -> Iterator[tuple[Strategy, nn.Module, TensorData]]:
    """Every strategy, the module its logits come from, and data for it."""
    points = spirals(16, seed=0)
    plain = supervised()
    yield plain, plain.network, points
    depth = FullyConnectedDepth(features=2, classes=2, max_depth=2, width=4)
    q = Categorical(depth.space)
    adam = torch.optim.Adam([*depth.parameters(), *q.parameters()])
    yield Variational(depth, q, Categorical(depth.space, learnable=False), adam, num_data=16), depth.head, points
    cell = NB201Supernet(channels=2, cells=1, in_channels=1, classes=2)
    images = TensorData(torch.randn(16, 1, 8, 8, generator=generator_at(0, "images")), torch.arange(16) % 2, 2)
    yield OneShot(cell, torch.optim.SGD(cell.parameters(), lr=0.1, momentum=0.9)), cell.head, images


@pytest.mark.parametrize("case", range(3), ids=["supervised", "variational", "single path"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_loss_that_is_not_finite_changes_no_weight(case: int, bad: float) -> None:
    strategy, output, data = list(strategies_with_output())[case]
    batches = Batches(data, 8)
    fit(strategy, batches, epochs=1, seed=0)  # so that the optimiser has a state
    modules = [part for part in strategy.parts().values() if isinstance(part, nn.Module)]
    weights = [parameter.detach().clone() for module in modules for parameter in module.parameters()]
    output.register_forward_hook(lambda module, inputs, result: result * bad)
    with pytest.raises(NotFiniteError, match=r"finite training loss. Got (nan|inf|-inf)"):
        fit(strategy, batches, epochs=1, seed=0)
    after = [parameter for module in modules for parameter in module.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(weights, after, strict=True))
