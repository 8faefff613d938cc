"""A posterior that is kept within limits while it is learned."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from polyarch.data import Batches, load, resident
from polyarch.errors import ImpossibleSpace, Interrupted, InvalidInput
from polyarch.estimators import Parameters
from polyarch.methods.posterior_guided.search import PosteriorSearch
from polyarch.randomness import generator_at, global_seed
from polyarch.searchers import Limit, LimitedDraws, Limits
from polyarch.strategies import PosteriorGuided
from polyarch.supernets import ConvolutionalDepth, GatedDepthSupernet, GatedSupernet, gate
from polyarch.testing import StopAt, same_bits
from polyarch.training import Callback, CheckpointStore, FitState, Row, WithinLimits, fit

EPOCHS = 5
BATCHES = Batches(resident(load("digits").train.subset(range(32))), 16, seed=0)


def gated() -> GatedSupernet:
    with global_seed(0, "test"):
        body = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.ReLU(), nn.Conv2d(12, 6, 1), nn.ReLU()]
        return gate(nn.Sequential(*body, nn.Flatten(), nn.Linear(96, 10)), torch.zeros(2, 1, 8, 8))


def learner(net: GatedSupernet | None = None) -> PosteriorGuided:
    return PosteriorSearch(length_scale=1.0, q_rate_factor=1.0).strategy(net or gated(), num_data=32)


def limits_of(strategy: PosteriorGuided, share: float) -> Limits:
    """On parameters, as a share of those of the whole network."""
    net = strategy.net
    return Limits(net, [Limit(Parameters(), share * net.parameter_count(net.whole()))])


def share_within(strategy: PosteriorGuided, limits: Limits) -> float:
    draws = strategy.posterior.sample(200, generator=generator_at(0, "judge", 0))
    return statistics.fmean(map(limits.allows, draws))


def test_draws_of_what_was_learned_keep_the_limits() -> None:
    """Without it they do not: the limit is far below what is learned."""
    free, kept = learner(), learner()
    limits = limits_of(kept, 0.3)
    fit(free, BATCHES, epochs=EPOCHS, seed=0)
    fit(kept, BATCHES, epochs=EPOCHS, seed=0, callbacks=[WithinLimits(kept, limits, seed=0)])
    assert share_within(free, limits_of(free, 0.3)) == 0
    assert share_within(kept, limits) > 0.1
    assert LimitedDraws(kept.net, kept.posterior, limits, seed=1).strength == 0


def test_where_draws_keep_them_anyway_nothing_changes() -> None:
    free, kept = learner(), learner()
    fit(free, BATCHES, epochs=EPOCHS, seed=0)
    fit(kept, BATCHES, epochs=EPOCHS, seed=0, callbacks=[WithinLimits(kept, limits_of(kept, 1.0), seed=0)])
    assert same_bits(free.net.state_dict(), kept.net.state_dict())
    assert same_bits(free.q.state_dict(), kept.q.state_dict())


@pytest.mark.parametrize(("descent", "last"), [(0.2, 3), (0.8, 3), (1.0, 4)])
def test_when_limits_are_down_drop_probabilities_stay(descent: float, last: int) -> None:
    """From the end of the descent on, and before the last fifth of the epochs never; kernels go on learning."""
    seen: list[tuple[Tensor, Tensor]] = []

    class Watching(Callback):
        def on_epoch_end(self, state: FitState, row: Row) -> None:
            seen.append((strategy.q.logits.detach().clone(), strategy.net.gated_kernels()[0].detach().clone()))

    strategy = learner()
    within = WithinLimits(strategy, limits_of(strategy, 0.9), seed=0, descent=descent)
    fit(strategy, BATCHES, epochs=EPOCHS + 1, seed=0, callbacks=[within, Watching()])
    stayed = [first[0].equal(second[0]) for first, second in pairwise(seen)]
    assert stayed == [False] * (last + 1) + [True] * (EPOCHS - last - 1)
    assert not any(first[1].equal(second[1]) for first, second in pairwise(seen))
    assert strategy.q.logits.requires_grad


def test_the_depth_stays_as_it_is_learned() -> None:
    """Only channels are dropped to keep a limit."""
    with global_seed(0, "test"):
        net = GatedDepthSupernet(ConvolutionalDepth(max_depth=2, channels=8, inner_channels=8), torch.zeros(2, 1, 8, 8))
    strategy = learner(net)
    strategy.parts()["q"].load_state_dict(
        {**strategy.posterior.state_dict(), "depth.logits": torch.tensor([0.0, 0, 9])}
    )
    before = {name: value.clone() for name, value in strategy.posterior.state_dict().items()}
    callback = WithinLimits(strategy, limits_of(strategy, 0.6), seed=0, descent=0.0)
    callback.on_step_start(FitState(strategy, epochs=2, steps_per_epoch=3))
    after = strategy.posterior.state_dict()
    assert torch.equal(before["depth.logits"], after["depth.logits"])
    assert (after["channels.logits"] > before["channels.logits"]).all()


def test_limits_come_down() -> None:
    """By one factor an epoch, to what they are at the end of the descent."""
    seen: list[float] = []

    class Watched(WithinLimits):
        def _at(self, limit: Limit, state: FitState) -> Limit:
            found = super()._at(limit, state)
            seen.append(found.at_most)
            return found

    strategy = learner()
    limits = limits_of(strategy, 0.25)
    whole = strategy.net.parameter_count(strategy.net.whole())
    run = FitState(strategy, epochs=8, steps_per_epoch=3)
    callback = Watched(strategy, limits, seed=0, descent=0.5)
    for run.step in range(24):
        callback.on_step_start(run)
    assert seen == pytest.approx([whole * 0.25 ** (min(epoch, 4) / 4) for epoch in range(1, 9)])


@pytest.mark.parametrize("step", [3, 4, 9])
def test_a_stopped_training_ends_with_the_same_bits(tmp_path: Path, step: int) -> None:
    """Stopped at the end of an epoch, where q moves next, and within one."""

    def trained(folder: Path, *others: Callback) -> PosteriorGuided:
        strategy = learner()
        within = WithinLimits(strategy, limits_of(strategy, 0.3), seed=0)
        stop = next((one.request for one in others if isinstance(one, StopAt)), None)
        fit(
            strategy, BATCHES, epochs=EPOCHS, seed=0, callbacks=[within, *others], checkpoints=CheckpointStore(folder),
            stop=stop,
        )  # fmt: skip
        return strategy

    whole = trained(tmp_path / "whole")
    with pytest.raises(Interrupted):
        trained(tmp_path / "stopped", StopAt(step))
    again = trained(tmp_path / "stopped", Callback())
    assert same_bits(whole.q.state_dict(), again.q.state_dict())
    assert same_bits(whole.net.state_dict(), again.net.state_dict())


def test_mistakes() -> None:
    strategy = learner()
    with pytest.raises(InvalidInput, match=r"share of the epochs in 0\.\.1\. Got 1\.5"):
        WithinLimits(strategy, limits_of(strategy, 0.5), seed=0, descent=1.5)
    with pytest.raises(ImpossibleSpace, match=r"to meet the limits\. Found none: params at most .*smallest seen"):
        WithinLimits(strategy, limits_of(strategy, 1e-4), seed=0)
