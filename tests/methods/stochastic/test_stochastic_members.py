"""Which architectures of one network predict together: order, shares, budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from polyarch.data import Dataset, TensorData
from polyarch.errors import ConfigError, ImpossibleSpace
from polyarch.estimators import shared_macs
from polyarch.methods.stochastic.ensemble import (
    EVALUATED,
    LEAST_SHARE,
    ChosenMembers,
    choose_members,
    corrupted_detection,
)
from polyarch.methods.stochastic.strategy import drawn_architectures
from polyarch.predictive import corrupt, detect
from polyarch.randomness import generator_at
from polyarch.runs.judging import Ensemble, MemberOutputs
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.workspace import Workspace
from polyarch.tasks import Classification

BITS = ["000", "100", "010", "001", "110"]
WIRED: dict[str, Any] = {
    "method": "stochastic", "workers": 1, "space.kind": "wired", "space.width": 2, "space.modules": 2,
    "space.stages": 1, "space.wirings": BITS,
}  # fmt: skip
SHARED: dict[str, Any] = {**WIRED, "space.modules": 4, "space.wirings": [], "stochastic.own_weights": False}


def noise(examples: int = 40, shift: float = 0.0) -> Dataset:
    inputs = torch.rand(examples, 1, 8, 8, generator=generator_at(0, "stochastic")) + shift
    data = TensorData(inputs, torch.arange(examples) % 2, 2)
    return Dataset("noise", data, data.subset(range(0, examples, 2)), ("a", "b"))


def run_of(settings: dict[str, Any], data: Dataset | None = None) -> Run:
    """With statistics and weights that are not those of its creation: fresh wirings are nearly alike."""
    asked = RunSettings.parse(with_overrides({}, settings), "the test")
    run = Run.build(asked, Workspace(Path("nowhere")), data=data or noise())
    for name, parameter in run.net.named_parameters():
        with torch.no_grad():
            parameter.add_(torch.randn(parameter.shape, generator=generator_at(0, "noise", name)), alpha=0.5)
    return run


def valid_logits(run: Run, chosen: ChosenMembers) -> tuple[Tensor, Tensor]:
    """By one architecture after the other."""
    valid = run.feed.valid
    (inputs,) = valid.stream([torch.arange(len(valid))])
    with torch.no_grad():
        x = run.feed.preprocessing(inputs)
        return torch.stack([run.net(x, one).double() for one in chosen.architectures]), valid.targets


def test_the_lowest_validation_loss_comes_first() -> None:
    run = run_of({**WIRED, "stochastic.members": 3})
    chosen = choose_members(run)
    logits, targets = valid_logits(run, chosen)
    losses = [float(F.cross_entropy(one, targets)) for one in logits]
    assert losses == sorted(losses) and losses[0] < losses[-1]
    assert {one.key for one in chosen.architectures} == {one.key for one in drawn_architectures(run)}
    assert list(chosen.members) == [0, 1, 2] and chosen.weights == pytest.approx([1 / 3] * 3)
    torch.testing.assert_close(chosen.outputs.valid, logits, rtol=1e-5, atol=1e-6)


def test_posterior_shares_are_those_of_the_likelihoods() -> None:
    run = run_of({**WIRED, "stochastic.weighting": "posterior"}, noise(1200))
    chosen = choose_members(run)
    logits, targets = valid_logits(run, chosen)
    likelihoods = torch.stack([-F.cross_entropy(one, targets, reduction="sum") for one in logits])
    expected = likelihoods.softmax(0)
    expected = torch.where(expected < LEAST_SHARE, 0.0, expected)
    assert chosen.weights == pytest.approx((expected / expected.sum()).tolist(), abs=1e-5)
    assert 0.0 in chosen.weights and len(chosen.kept) < 5  # what says nothing is left out
    assert [position for position, _ in chosen.kept] == [i for i, weight in enumerate(chosen.weights) if weight]


def test_stacked_shares_have_the_highest_likelihood() -> None:
    """No step from one member to another helps."""
    run = run_of({**WIRED, "stochastic.weighting": "stacked"})
    chosen = choose_members(run)
    logits, targets = valid_logits(run, chosen)
    true = logits.softmax(-1)[:, torch.arange(len(targets)), targets]  # (K, N)
    weights = torch.tensor(chosen.weights, dtype=torch.float64)

    def likelihood(shares: Tensor) -> float:
        return float((shares @ true).log().mean())

    assert sum(chosen.weights) == pytest.approx(1)
    assert likelihood(weights) > likelihood(torch.full((5,), 0.2, dtype=torch.float64)) + 1e-3
    for member in range(5):
        step = 0.98 * weights
        step[member] += 0.02
        assert likelihood(step) <= likelihood(weights) + 1e-4


def test_the_budget_holds_for_all_members_together() -> None:
    free = choose_members(run_of(SHARED))
    run = run_of(SHARED)
    macs = shared_macs(run.net, run.feed.network_shape)
    costs = [macs(free.architectures[:count]) for count in (1, 2, 3)]
    assert costs[0] < costs[1] < costs[2]
    limited = choose_members(run_of({**SHARED, "stochastic.max_macs": costs[1]}))
    kept = [limited.architectures[position] for position in limited.members]
    assert kept[:2] == list(free.architectures[:2]) and macs(kept) <= costs[1]
    one = choose_members(run_of({**SHARED, "stochastic.max_macs": costs[0], "stochastic.members": 2}))
    assert macs([one.architectures[position] for position in one.members]) == costs[0]


def test_of_many_only_the_first_are_looked_at() -> None:
    many = {**SHARED, "space.modules": 5, "stochastic.architectures": 60, "stochastic.edge_probability": 0.5}
    run = run_of(many)
    drawn = drawn_architectures(run)
    chosen = choose_members(run)
    assert len(drawn) == len(set(drawn)) == 60
    assert set(chosen.architectures) == set(drawn[:EVALUATED])
    assert len(chosen.members) == 5


def test_limits_hold_for_every_member() -> None:
    cells = {"method": "stochastic", "workers": 1, "space.kind": "nb201", "space.channels": 2}
    cells |= {"stochastic.own_weights": False, "stochastic.architectures": 6}
    for limit, kept in ((None, False), (1500, True)):
        run = run_of(cells | ({"search.max_params": limit} if limit else {}))
        sizes = [run.net.parameter_count(one) for one in drawn_architectures(run)]
        assert len(sizes) == 6 and (max(sizes) <= 1500) == kept
    with pytest.raises(ImpossibleSpace, match="params at most 5"):
        drawn_architectures(run_of({**WIRED, "search.max_params": 5}))


def test_wirings_and_settings_must_agree() -> None:
    for settings, words in (
        ({**WIRED, "space.wirings": []}, r"Expected 5 space\.wirings.* Got 0"),
        ({**WIRED, "stochastic.own_weights": False}, r"Expected no space\.wirings with stochastic\.own_weights false"),
    ):
        with pytest.raises(ConfigError, match=words):
            drawn_architectures(run_of(settings))


def test_corrupted_copies_are_scored_by_hand() -> None:
    run = run_of(WIRED)
    members = drawn_architectures(run)[:2]
    ensemble = Ensemble("two", members, run.net.extract_many(members).eval(), [0.3, 0.7])
    found = corrupted_detection(ensemble, run, 2.0)
    test = run.feed.data.test
    rows = torch.randperm(len(test), generator=generator_at(0, "corrupted", 0))
    (images,) = test.stream([rows])
    copies = corrupt(images, "gaussian_noise", 3, generator=generator_at(0, "gaussian_noise", 0))
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)

    def information(inputs: Tensor) -> Tensor:
        with torch.no_grad():
            logits = torch.stack([run.net.eval()(run.feed.preprocessing(inputs), one) for one in members]).double()
        p = (logits / 2.0).softmax(-1)
        mixture = torch.einsum("k,knc->nc", weights, p)
        found: Tensor = torch.special.entr(mixture).sum(-1)
        return found - torch.einsum("k,kn->n", weights, torch.special.entr(p).sum(-1))

    expected = detect(information(images), information(copies)).auroc
    assert found["gaussian_noise"]["mutual_information"]["auroc"] == pytest.approx(expected, abs=0.02)
    other = run_of(WIRED, noise(shift=1.0))  # values that are not those of pixels
    assert corrupted_detection(ensemble, other, 2.0) == {}


def test_members_alone_and_together() -> None:
    logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 3.0], [1.0, 0.0]]], dtype=torch.float64)
    targets = torch.tensor([0, 1])
    found = MemberOutputs(Classification(), logits, targets, logits, targets)
    assert found.alone(0)["score"] == 1.0 and found.alone(1)["score"] == 0.0
    expected = F.cross_entropy(logits[1], targets)
    assert found.alone(1)["loss"] == pytest.approx(float(expected), rel=1e-12)
    shares = torch.tensor([0.25, 0.75], dtype=torch.float64)
    mixture = torch.einsum("k,knc->nc", shares, logits.softmax(-1))
    assert found.measure(shares)["loss"] == pytest.approx(float(F.nll_loss(mixture.log(), targets)), rel=1e-12)
    swapped = found.at([1, 0]).measure(shares.flip(0))
    assert swapped["valid_loss"] == pytest.approx(found.measure(shares)["valid_loss"], rel=1e-12)
