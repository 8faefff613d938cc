"""The E step: in float64 the bound it reaches is the log evidence; nothing but q moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyarch import Repeat
from polyarch.data import Batches
from polyarch.distributions import Categorical, geometric_prior
from polyarch.errors import Interrupted, InvalidInput
from polyarch.methods.depth.search import DepthSearch
from polyarch.objectives import ExactExpectation, categorical_log_likelihood, elbo
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import Variational
from polyarch.supernets import ConvolutionalDepth, FullyConnectedDepth, Supernet, from_module
from polyarch.testing import StopAt, random_data, same_bits
from polyarch.training import Callback, CheckpointStore, ExpectationStep, FitState, fit

EXAMPLES = 24


def fully_connected(seed: int = 0) -> Supernet:
    with global_seed(seed, "net"):
        return FullyConnectedDepth(features=64, classes=3, max_depth=3, width=5).double()


def convolutional(seed: int = 0) -> Supernet:
    with global_seed(seed, "net"):
        return ConvolutionalDepth(classes=3, max_depth=2, channels=4, inner_channels=2).double()


def own(seed: int = 0, *, dropout: float = 0.0) -> Supernet:
    with global_seed(seed, "net"):
        blocks = [nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Dropout(dropout)) for _ in range(3)]
        body = Repeat("depth", blocks)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), body, nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
    return from_module(model, torch.zeros(2, 1, 8, 8, dtype=torch.float64))


def source(batch_size: int = EXAMPLES, *, examples: int = EXAMPLES) -> Batches:
    data = random_data((1, 8, 8), examples=examples)
    return Batches(data, batch_size, shuffle=False, preprocessing=Tensor.double)


def distributions(net: Supernet) -> tuple[Categorical, Categorical]:
    q = Categorical(net.space, learnable=False).double()
    return q, geometric_prior(net.space, 0.85).double()


def log_likelihoods(net: Supernet, batches: Batches) -> Tensor:
    """log p(D | a) of every architecture, in training mode as the E step takes it."""
    net.train()
    with torch.no_grad():
        values = [
            categorical_log_likelihood(net.forward_many(inputs, net.space.members), targets).sum(-1)
            for inputs, targets in batches.epoch(0)
        ]
    return torch.stack(values).sum(0)


every_network = pytest.mark.parametrize("make", [fully_connected, convolutional, own])


@every_network
def test_the_bound_is_the_log_evidence(make: Callable[..., Supernet]) -> None:
    """With frozen weights, and higher than at any other q."""
    net = make()
    q, prior = distributions(net)
    (batch,) = source().epoch(0)
    totals = log_likelihoods(net, source())

    def bound(q: Categorical) -> float:
        expected = ExactExpectation()(net.train(), q, batch, generator=generator_at(0, "unused"))
        return elbo(expected, q.kl(prior), EXAMPLES).item()

    evidence = torch.logsumexp(totals + prior.log_probabilities(), 0).item()
    assert bound(q) < evidence - 1e-3
    ExpectationStep(net, q, prior, source(), after=0).apply()
    assert bound(q) == pytest.approx(evidence, rel=1e-12)
    expected = torch.softmax(totals + prior.log_probabilities(), 0)
    torch.testing.assert_close(q.log_probabilities().exp(), expected, rtol=1e-10, atol=1e-12)
    moved = q.logits + 0.1 * torch.randn(len(q.logits), dtype=torch.float64, generator=generator_at(0, "move"))
    assert bound(Categorical(net.space, moved)) < evidence


@every_network
def test_weights_and_running_averages_stay(make: Callable[..., Supernet]) -> None:
    net = make()
    q, prior = distributions(net)
    net.train()
    net.forward_many(next(iter(source().epoch(0))).inputs, net.space.members)  # averages unlike the first ones
    before = {name: value.clone() for name, value in net.state_dict().items()}
    ExpectationStep(net, q, prior, source(8), after=0).apply()
    assert same_bits(net.state_dict(), before)


def test_minibatches_add_up() -> None:
    """Exactly, where nothing is normalised; with batch statistics, to the sum over these very batches."""
    with global_seed(0, "net"):
        body = Repeat("depth", [nn.Sequential(nn.Linear(5, 5), nn.ReLU()) for _ in range(3)], minimum=0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), body, nn.Linear(5, 3)).double()
    plain = from_module(model, torch.zeros(2, 1, 8, 8, dtype=torch.float64))
    found = []
    for batch_size in (24, 10, 1):
        q, prior = distributions(plain)
        ExpectationStep(plain, q, prior, source(batch_size), after=0).apply()
        found.append(q.logits)
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[2], found[0], rtol=1e-10, atol=1e-12)
    net = fully_connected()
    q, prior = distributions(net)
    totals = log_likelihoods(net, source(10))
    ExpectationStep(net, q, prior, source(10), after=0).apply()
    expected = torch.log_softmax(totals + prior.log_probabilities(), 0)
    torch.testing.assert_close(q.logits, expected, rtol=1e-10, atol=1e-12)


class Notes(Callback):
    """Notes q before every step; hung after the E step."""

    def __init__(self, q: Categorical) -> None:
        self.q = q
        self.seen: list[Tensor] = []

    def on_step_start(self, state: FitState) -> None:
        self.seen.append(self.q.logits.clone())


@pytest.mark.parametrize(("after", "first"), [(0.0, 0), (0.2, 1), (0.5, 3), (1.0, 5)])
def test_q_is_the_prior_before_the_first_e_step_and_changes_once_an_epoch(after: float, first: int) -> None:
    net = fully_connected()
    q, prior = distributions(net)
    q.logits.copy_(torch.arange(4.0))  # whatever it was before
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    strategy = Variational(net, q, prior, optimizer, num_data=EXAMPLES)
    step, notes = ExpectationStep(net, q, prior, source(), after=after), Notes(q)
    fit(strategy, source(8), epochs=5, seed=0, callbacks=[step, notes])
    epochs = [notes.seen[3 * epoch : 3 * epoch + 3] for epoch in range(5)]
    for epoch, (start, *rest) in enumerate(epochs):
        assert all(one.equal(start) for one in rest)
        if epoch < first:
            torch.testing.assert_close(start, prior.log_probabilities(), rtol=1e-12, atol=1e-12)
        else:
            assert not start.equal(epochs[epoch - 1][0]) or epoch == 0
            assert (start - prior.log_probabilities()).abs().max() > 1e-3


@pytest.mark.parametrize("make", [fully_connected, own, lambda seed: own(seed, dropout=0.5)])
def test_resumed_after_any_step_with_the_same_bits(make: Callable[..., Supernet], tmp_path: Path) -> None:
    """Also where layers draw random numbers in training mode."""
    search = DepthSearch(updates="em", learning_rate=0.05)

    def run(seed: int, folder: Path | None, stop: StopAt | None = None) -> dict[str, Any]:
        strategy = search.strategy(make(seed), num_data=EXAMPLES)
        history = fit(
            strategy,
            Batches(random_data((1, 8, 8), examples=EXAMPLES), 12, seed=1, preprocessing=Tensor.double),
            epochs=4,
            seed=3,
            callbacks=[*search.expectation_steps(strategy, source(10)), stop or Callback()],
            checkpoints=CheckpointStore(folder) if folder else None,
            stop=stop.request if stop else None,
        )
        torch.rand(seed)  # processes differ in what they draw
        return {"rows": history.rows, **{name: dict(part.state_dict()) for name, part in strategy.parts().items()}}

    expected = run(0, None)
    for step in range(1, 9):
        stop = StopAt(step)
        with pytest.raises(Interrupted):
            run(0, tmp_path / str(step), stop)
        assert same_bits(run(99, tmp_path / str(step)), expected), step


@pytest.mark.parametrize("after", [-0.1, 1.1])
def test_shares_outside_of_the_epochs_are_refused(after: float) -> None:
    net = fully_connected()
    with pytest.raises(InvalidInput, match=rf"share of the epochs in 0\.\.1. Got {after}"):
        ExpectationStep(net, *distributions(net), source(), after=after)
