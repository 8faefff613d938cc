"""Variational depth search: choosing and pruning against hand computations, learning against the closed form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from polyarch.data import Batches, Normalisation, TensorData, spirals
from polyarch.distributions import Categorical
from polyarch.errors import InvalidInput
from polyarch.methods.depth.search import (
    RULES,
    DepthSearch,
    Prior,
    Rule,
    Updates,
    choose_depth,
    depth_prior,
    expected_depth,
    prune,
)
from polyarch.objectives import categorical_log_likelihood, log_posterior, marginal_log_probabilities
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import FullyConnectedDepth
from polyarch.supernets.depth import depth_space
from polyarch.testing import random_data, same_bits
from polyarch.training import Callback, CheckpointStore, FitState

SPACE = depth_space(3)
probabilities_of_depths = st.lists(st.integers(0, 20), min_size=2, max_size=6).filter(any)


def with_probabilities(values: list[float]) -> Categorical:
    total = sum(values)
    logits = torch.tensor([value / total + 1e-12 for value in values], dtype=torch.float64).log()
    return Categorical(depth_space(len(values) - 1), logits)


class TestRules:
    @pytest.mark.parametrize(
        ("probabilities", "rule", "depth"),
        [
            ([0.1, 0.2, 0.4, 0.3], "argmax", 2),
            ([0.4, 0.1, 0.1, 0.4], "argmax", 0),  # the first of equals
            ([0.1, 0.39, 0.4, 0.11], "95%", 1),
            ([0.1, 0.37, 0.4, 0.13], "95%", 2),
            ([0.25, 0.25, 0.25, 0.25], "95%", 0),
            ([0.4, 0.1, 0.0, 0.5], "expected", 2),
            ([0.0, 0.0, 0.4, 0.6], "expected", 3),
            ([1.0, 0.0, 0.0, 0.0], "expected", 0),
        ],
    )
    def test_by_hand(self, probabilities: list[float], rule: Rule, depth: int) -> None:
        assert choose_depth(with_probabilities(probabilities), rule) == depth

    @given(probabilities_of_depths)
    def test_what_they_have_in_common(self, values: list[float]) -> None:
        q = with_probabilities(values)
        probabilities = [value / sum(values) for value in values]
        chosen = {rule: choose_depth(q, rule) for rule in RULES}
        assert all(0 <= depth < len(values) for depth in chosen.values())
        assert chosen["95%"] <= chosen["argmax"]
        assert probabilities[chosen["argmax"]] == max(probabilities)
        assert probabilities[chosen["95%"]] >= 0.95 * max(probabilities) - 1e-9
        mean = sum(depth * p for depth, p in enumerate(probabilities))
        assert expected_depth(q.log_probabilities().exp()) == pytest.approx(mean, abs=1e-9)
        assert abs(chosen["expected"] - mean) <= 0.5 + 1e-9

    def test_argmax_is_the_default(self) -> None:
        assert choose_depth(with_probabilities([0.1, 0.39, 0.4])) == 2


class TestPrior:
    @pytest.mark.parametrize(
        ("prior", "weights"),
        [
            ("geometric", [0.5 ** (1 + depth) for depth in range(4)]),
            ("uniform", [1, 1, 1, 1]),
            ((1, 2, 4, 8), [1, 2, 4, 8]),
            ([0.5, 1e-6, 3.0, 7.0], [0.5, 1e-6, 3.0, 7.0]),
        ],
    )
    def test_probabilities(self, prior: Prior, weights: list[float]) -> None:
        found = depth_prior(SPACE, prior, ratio=0.5)
        expected = torch.tensor(weights, dtype=torch.float64)
        torch.testing.assert_close(
            found.log_probabilities().double().exp(), expected / expected.sum(), rtol=1e-5, atol=1e-9
        )
        assert not list(found.parameters())

    def test_the_document(self) -> None:
        expected = torch.tensor([0.85 ** (1 + depth) for depth in range(4)])
        torch.testing.assert_close(depth_prior(SPACE).log_probabilities().exp(), expected / expected.sum())

    @pytest.mark.parametrize(
        ("prior", "words"),
        [
            ((1, 2, 4), r"4 prior weights above 0, one per depth. Got \[1, 2, 4\]"),
            ((1, 2, 4, 8, 16), "4 prior weights above 0"),
            ((1, 0, 4, 8), "4 prior weights above 0"),
            ((1, -2, 4, 8), "4 prior weights above 0"),
            ((1, float("nan"), 4, 8), "4 prior weights above 0"),
            ((1, float("inf"), 4, 8), "4 prior weights above 0"),
        ],
    )
    def test_weights_that_are_none(self, prior: Prior, words: str) -> None:
        with pytest.raises(InvalidInput, match=words):
            depth_prior(SPACE, prior)

    def test_a_geometric_one_needs_a_ratio(self) -> None:
        with pytest.raises(InvalidInput, match=r"ratio above 0. Got 1 and 0"):
            depth_prior(SPACE, ratio=0)

    def test_it_reaches_the_bound(self) -> None:
        """A prior on one depth alone, nearly: q goes there, against what the data say."""
        net = network()
        q, history = DepthSearch(epochs=40, learning_rate=1.0, prior=(1e-30, 1e-30, 1.0, 1e-30)).fit(
            net, separable(), seed=0
        )
        assert choose_depth(q) == 2
        assert history["kl"][-1] < history["kl"][0]


class TestPruning:
    def test_mass_moves_onto_the_last(self) -> None:
        q = Categorical(SPACE, torch.tensor([0.1, 0.2, 0.4, 0.3]).log())
        pruned = prune(q, 2)
        assert [a["depth"] for a in pruned.architectures] == [0, 1, 2]
        assert torch.allclose(pruned.probabilities, torch.tensor([0.1, 0.2, 0.7]))

    @given(probabilities_of_depths, st.integers(0, 5))
    def test_mass_is_kept(self, values: list[float], depth: int) -> None:
        depth = min(depth, len(values) - 1)
        q = with_probabilities(values)
        pruned = prune(q, depth)
        before, after = q.log_probabilities().detach().exp(), pruned.probabilities
        assert len(after) == depth + 1
        assert float(after.sum()) == pytest.approx(1, abs=1e-6)
        torch.testing.assert_close(after[:depth].double(), before[:depth], rtol=1e-5, atol=1e-7)
        assert float(after[depth]) == pytest.approx(float(before[depth:].sum()), abs=1e-6)

    def test_nothing_is_pruned_at_full_depth(self) -> None:
        q = with_probabilities([0.1, 0.2, 0.3, 0.4])
        torch.testing.assert_close(prune(q, 3).probabilities.double(), q.log_probabilities().exp())

    @pytest.mark.parametrize("depth", [4, -1])
    def test_depths_that_are_not_there(self, depth: int) -> None:
        with pytest.raises(InvalidInput):
            prune(with_probabilities([0.1, 0.2, 0.3, 0.4]), depth)


def network(seed: int = 0) -> FullyConnectedDepth:
    with global_seed(seed, "test"):
        return FullyConnectedDepth(features=2, classes=2, max_depth=3, width=8)


def two_groups(count: int) -> TensorData:
    """Left of a gap and right of it."""
    inputs = torch.rand(count, 2, generator=generator_at(count, "points"))
    targets = torch.arange(count) % 2
    inputs[:, 0] += 1.5 * targets - 1.25
    return TensorData(inputs, targets, 2)


def separable(batch_size: int = 40) -> Batches:
    return Batches(two_groups(40), batch_size, shuffle=batch_size < 40)


@pytest.mark.parametrize("updates", ["gradient", "em"])
@pytest.mark.parametrize("batch_size", [40, 10])  # as many epochs: 40 steps either way
def test_learns_a_separable_problem(updates: Updates, batch_size: int) -> None:
    net = network()
    q, history = DepthSearch(epochs=batch_size, updates=updates).fit(net, separable(batch_size), seed=0)
    assert max(history["elbo"]) > history["elbo"][0] + 10
    test = two_groups(200)
    with torch.no_grad():
        log_probs = marginal_log_probabilities(net.eval(), prune(q, choose_depth(q)), test.inputs)
    assert (log_probs.argmax(1) == test.targets).double().mean() > 0.97
    assert bool(list(q.parameters())) == (updates == "gradient")
    assert float(q.log_probabilities().detach().exp().sum()) == pytest.approx(1, abs=1e-5)


def test_q_of_expectation_maximisation_is_a_posterior() -> None:
    """After one more epoch without moving the weights q is the closed form for them."""
    net = network().double()
    train = Batches(two_groups(40), 40, shuffle=False, preprocessing=Tensor.double)
    search = DepthSearch(epochs=20, updates="em", patience=100)
    search.fit(net, train, seed=0)
    frozen = DepthSearch(epochs=2, updates="em", learning_rate=0.0)
    q, history = frozen.fit(net, train, seed=0)
    (batch,) = train.epoch(0)
    with torch.no_grad():
        logits = net.train().forward_many(batch.inputs, net.space.members)
    totals = categorical_log_likelihood(logits, batch.targets).sum(-1)
    prior = depth_prior(net.space).double().log_probabilities()
    torch.testing.assert_close(q.log_probabilities(), log_posterior(totals, prior), rtol=1e-9, atol=1e-9)
    assert history["elbo"][-1] == pytest.approx(torch.logsumexp(totals + prior, 0).item(), rel=1e-9)


def test_what_is_kept_has_had_an_e_step() -> None:
    """Also where validation examples were best before it."""
    data = two_groups(40)
    valid = Batches(TensorData(data.inputs, 1 - data.targets, 2), 40, shuffle=False)  # worse with every epoch
    q, history = DepthSearch(epochs=10, patience=10, updates="em").fit(network(), separable(10), valid, seed=0)
    assert history["valid_loss"][0] < history["valid_loss"][-1]
    assert (q.log_probabilities() - depth_prior(q.space).log_probabilities()).abs().max() > 1e-3


def test_the_e_step_may_have_its_own_batches() -> None:
    """Training batches leave out an incomplete last one; the E step is over all examples."""
    train, whole = separable(15), Batches(two_groups(40), 40, shuffle=False)
    found = [
        DepthSearch(epochs=3, updates="em").fit(network(), train, seed=0, train_in_order=order)[0].logits
        for order in (whole, None)
    ]
    assert not found[0].equal(found[1])


class Rates(Callback):
    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.seen: list[float] = []

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        self.seen.append(self.optimizer.param_groups[0]["lr"])


@pytest.mark.parametrize(("drop_after", "dropped"), [(None, 8), (2, 4), (0, 0), (9, 8)])
def test_the_rate_falls_to_a_tenth_once(drop_after: int | None, dropped: int) -> None:
    """Counted in epochs, of two steps here."""
    search = DepthSearch(epochs=4, drop_after=drop_after, learning_rate=0.2)
    strategy = search.strategy(network(), num_data=40)
    rates = Rates(strategy.optimizer)
    search.run(strategy, strategy.optimizer, separable(20), None, seed=0, callbacks=[rates])
    assert rates.seen == pytest.approx([0.2] * dropped + [0.02] * (8 - dropped))


def test_with_validation_examples_their_loss_is_watched() -> None:
    """The state of the epoch with the lowest one is what remains."""
    net, valid = network(), Batches(random_data((2,), classes=2, seed=5), 32, shuffle=False)  # of other data
    search = DepthSearch(epochs=30, patience=3)
    q, history = search.fit(net, separable(), valid, seed=0)
    best = min(history["valid_loss"])
    assert len(history.rows) == history["valid_loss"].index(best) + 1 + 3 < 30
    strategy = search.strategy(net, num_data=40)
    strategy.q = q
    assert strategy.evaluate(valid.epoch(0), generator=generator_at(0, "unused"))["loss"] == pytest.approx(best)


@pytest.mark.parametrize("updates", ["gradient", "em"])
def test_a_finished_run_comes_back_from_its_checkpoint(updates: Updates, tmp_path: Path) -> None:
    search = DepthSearch(epochs=5, updates=updates)
    outcomes: list[Any] = []
    for seed in (0, 99):
        net = network(seed)
        q, history = search.fit(net, separable(), seed=0, checkpoints=CheckpointStore(tmp_path))
        outcomes.append((history.rows, dict(net.state_dict()), dict(q.state_dict())))
    assert same_bits(*outcomes)


def test_learns_spirals_and_pruning_needs_only_the_shallow_blocks() -> None:
    train, test = spirals(200, seed=0), spirals(500, seed=0, stream="test")
    normalisation = Normalisation.of(train)
    batches = Batches(train, 200, shuffle=False, preprocessing=normalisation)
    with global_seed(0, "test"):
        net = FullyConnectedDepth(features=2, classes=2, max_depth=5, width=20)
    q, history = DepthSearch(epochs=300).fit(net, batches, seed=0)
    assert max(history["elbo"]) > history["elbo"][0] + 50
    net.eval()
    pruned = prune(q, choose_depth(q))
    with torch.no_grad():
        log_probs = marginal_log_probabilities(net, pruned, normalisation(test.inputs))
        assert torch.allclose(log_probs.exp().sum(1), torch.ones(500), atol=1e-5)
        assert (log_probs.argmax(1) == test.targets).float().mean() > 0.85
        unpruned = marginal_log_probabilities(net, q, normalisation(test.inputs))
        by_hand = sum(
            p * torch.softmax(net(normalisation(test.inputs), a), 1)
            for p, a in zip(q.log_probabilities().exp(), q.architectures, strict=True)
        )
        assert torch.allclose(unpruned.exp(), torch.as_tensor(by_hand), atol=1e-5)
