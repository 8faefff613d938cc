"""What is added to the rows of a search: by hand, and without leaving a trace in the network."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from polyarch.data import Batch, Batches, load, resident
from polyarch.distributions import FactorisedCategorical
from polyarch.errors import Interrupted, InvalidInput
from polyarch.objectives.curvature import hessian_vector_product
from polyarch.randomness import global_seed
from polyarch.spaces import Architecture, darts_space
from polyarch.strategies import Stateful, Strategy, Supervised
from polyarch.supernets import NB201Supernet, Supernet
from polyarch.testing import StopAt, same_bits
from polyarch.testing.tools import state_of
from polyarch.training import CheckpointStore, FitState, History, SearchDiagnostics, fit

DATA = resident(load("digits").train.subset(range(24)))
EPOCHS = 3


class Relaxed(Strategy):
    """Weights and q go down the same loss, with the mean gates of q."""

    def __init__(self, net: Supernet) -> None:
        self.net, self.q = net, FactorisedCategorical(net.space)
        self.optimizer = torch.optim.SGD([*net.parameters(), *self.q.parameters()], lr=0.5)

    def architecture(self) -> Architecture:
        return self.q.mode()

    def relaxed_loss(self, batch: Batch) -> Tensor:
        return F.cross_entropy(self.net(batch.inputs, self.q.mean()), batch.targets)

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        self.net.train()
        loss = self.relaxed_loss(train[0])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.item()}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        raise NotImplementedError

    def parts(self) -> Mapping[str, Stateful]:
        return {"net": self.net, "q": self.q, "optimizer": self.optimizer}


def make() -> Relaxed:
    with global_seed(0, "weights"):
        return Relaxed(NB201Supernet(channels=2, cells=1, in_channels=1))


def held_out() -> list[Batch]:
    return list(Batches(DATA, 10, shuffle=False).epoch(0))  # 10, 10 and 4 examples


def train(diagnostics: SearchDiagnostics, folder: Path | None = None, stop: int = 0) -> tuple[Relaxed, History]:
    strategy, stopping = make(), StopAt(stop)
    history = fit(
        strategy, Batches(DATA, 8, seed=1), epochs=EPOCHS, seed=0, callbacks=[diagnostics, stopping],
        checkpoints=CheckpointStore(folder) if folder else None, stop=stopping.request,
    )  # fmt: skip
    return strategy, history


def after(strategy: Strategy, diagnostics: SearchDiagnostics, epoch: int = 0) -> dict[str, float]:
    """The row of an epoch of which nothing else is known."""
    row = {"epoch": float(epoch)}
    diagnostics.on_epoch_end(FitState(strategy, epochs=10, steps_per_epoch=1), row)
    return row


def test_rows_of_a_uniform_q_and_of_a_sharp_one() -> None:
    strategy = make()
    diagnostics = SearchDiagnostics(truth=lambda architecture: 90.0 if "conv" in architecture.key else None)
    row = after(strategy, diagnostics)
    assert row == {
        "epoch": 0, "skips": 0, "skip_share": 0, "cell_depth": 0,  # the first option of all is none
        "entropy": pytest.approx(6 * math.log(5)), "entropy_share": pytest.approx(1.0),
    }  # fmt: skip
    with torch.no_grad():
        for logits, option in zip(strategy.q.logits, (1, 1, 0, 0, 3, 1), strict=True):
            logits[option] = 20.0
    row = after(strategy, diagnostics)
    assert (row["skips"], row["skip_share"], row["cell_depth"], row["true_accuracy"]) == (3, 0.5, 2, 90)
    assert 0 < row["entropy_share"] < 1e-5
    assert diagnostics.architectures == [
        "none|none|none|none|none|none",
        "skip_connect|skip_connect|none|none|nor_conv_3x3|skip_connect",
    ]
    first, second = diagnostics.marginals
    assert first["0->1"] == pytest.approx([0.2] * 5)
    assert second["1->3"] == pytest.approx([0, 0, 0, 1, 0], abs=1e-6)


def test_cells_of_darts_are_told_apart() -> None:
    strategy = make()
    space = darts_space()
    strategy.architecture = lambda: Architecture(space, (0,) * 24)  # type: ignore[method-assign]
    row = after(strategy, SearchDiagnostics())
    assert (row["cell_depth_normal"], row["cell_depth_reduce"], row["skips"], row["skip_share"]) == (2, 2, 16, 1)
    assert "cell_depth" not in row


def test_the_eigenvalue_is_that_of_the_dense_hessian() -> None:
    strategy = make()
    strategy.net.double()
    strategy.q.double()
    batches = [Batch(inputs.double(), targets) for inputs, targets in held_out()]
    found = after(strategy, SearchDiagnostics(batches, steps=30))["eigenvalue"]
    parameters = list(strategy.q.parameters())

    def loss() -> Tensor:
        return torch.stack([strategy.relaxed_loss(one) * len(one.targets) for one in batches]).sum() / 24

    strategy.net.train()
    dense = torch.stack([hessian_vector_product(loss(), parameters, unit) for unit in torch.eye(30).double()])
    torch.testing.assert_close(dense, dense.T, rtol=1e-6, atol=1e-10)
    assert found == pytest.approx(float(torch.linalg.eigvalsh(dense)[-1]), rel=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_the_network_is_left_as_it_was(training: bool) -> None:
    strategy = make()
    strategy.step(held_out()[:1], generator=torch.Generator())
    strategy.net.train(training)
    frozen = next(module for module in strategy.net.modules() if isinstance(module, nn.BatchNorm2d))
    frozen.eval()
    before = state_of(strategy.net)
    gradients = [copy.deepcopy(parameter.grad) for parameter in strategy.net.parameters()]
    random = torch.get_rng_state()
    first, second = (after(strategy, SearchDiagnostics(held_out()[:2], steps=2))["eigenvalue"] for _ in range(2))
    assert first == second != 0
    assert same_bits(state_of(strategy.net), before)
    assert same_bits([parameter.grad for parameter in strategy.net.parameters()], gradients)
    assert torch.equal(torch.get_rng_state(), random)


def test_also_when_the_loss_fails() -> None:
    strategy = make()
    before = state_of(strategy.net)
    spoiled = [*held_out()[:1], Batch(torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.int64))]
    with pytest.raises(RuntimeError, match="channels"):
        after(strategy, SearchDiagnostics(spoiled))
    assert same_bits(state_of(strategy.net), before)


def test_an_eigenvalue_every_second_epoch() -> None:
    diagnostics = SearchDiagnostics(held_out()[:1], every=2, steps=1)
    strategy = make()
    assert ["eigenvalue" in after(strategy, diagnostics, epoch) for epoch in range(4)] == [False, True, False, True]


def test_training_goes_the_same_way_with_and_without() -> None:
    alone = make()
    fit(alone, Batches(DATA, 8, seed=1), epochs=EPOCHS, seed=0)
    watched, history = train(SearchDiagnostics(held_out()[:2], steps=2))
    assert same_bits(watched.net.state_dict(), alone.net.state_dict())
    assert len({row["eigenvalue"] for row in history.rows}) == EPOCHS  # the values are in the history


@pytest.mark.parametrize("step", [3, 4, 8])
def test_a_resumed_search_has_the_same_diagnostics(tmp_path: Path, step: int) -> None:
    whole = SearchDiagnostics(held_out()[:1], every=2, steps=2)
    _, expected = train(whole)
    with pytest.raises(Interrupted):
        train(SearchDiagnostics(held_out()[:1], every=2, steps=2), tmp_path, step)
    resumed = SearchDiagnostics(held_out()[:1], every=2, steps=2)
    _, history = train(resumed, tmp_path)
    assert same_bits(history.rows, expected.rows)
    assert same_bits(resumed.state_dict(), whole.state_dict())
    assert len(resumed.architectures) == len(resumed.marginals) == EPOCHS


def test_what_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"every 1 or more epochs. Got every 0"):
        SearchDiagnostics(every=0)
    module = nn.Linear(1, 1)
    supervised = Supervised(module, torch.optim.SGD(module.parameters(), lr=0.1))
    with pytest.raises(InvalidInput, match=r"searches while it trains. Got Supervised"):
        after(supervised, SearchDiagnostics())
