"""What experiments on posterior-guided search share: the best of so many draws, settings, networks of every family."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch.distributions import KeepDrop
from polyarch.methods.posterior_guided.search import PosteriorSearch
from polyarch.networks import EnasNetwork, MultiBranchResNet
from polyarch.nn import ReestimatedStatistics, multiply_accumulates
from polyarch.nn.norm_policies import norm_layers
from polyarch.plugins import EXPERIMENTS
from polyarch.searchers import JudgedDraw, LimitedDraws, best_draw
from polyarch.testing import same_bits
from polyarch.training.callbacks import FitState
from polyarch_experiments.experiment import Settings
from polyarch_experiments.images import Images, _rate
from polyarch_experiments.posterior_guided.gated_networks import (
    FAMILIES,
    LARGE,
    SMALL,
    TINY,
    Drawn,
    RisingDropout,
    build,
    learn,
    of_family,
    random_search,
    search_of,
    train_plain,
    tune,
)
from polyarch_experiments.posterior_guided.gated_networks import tested as judged  # pytest would take it for a test

SETTINGS: Settings = {**TINY, "train": 40, "valid": 20, "test": 30, "width": 2, "batch_size": 20, "candidates": 4}
NOBODY: Any = None


@pytest.fixture(scope="module")
def images() -> Images:
    return Images.of(SETTINGS, "digits", 0)


def made_up(valid: list[tuple[float, float]], test: list[float]) -> Drawn:
    """Candidates with these accuracies and losses on validation images, and these accuracies on test images."""
    sides = (
        [JudgedDraw(position, "", accuracy, loss, 1, 1.0) for position, (accuracy, loss) in enumerate(rows)]
        for rows in (valid, [(accuracy, 0.0) for accuracy in test])
    )
    return Drawn(NOBODY, NOBODY, *sides)


@pytest.mark.parametrize(
    ("valid", "test"),
    [
        ([(0.5, 1.0), (0.9, 0.4), (0.7, 0.1), (0.8, 0.3), (0.6, 0.2), (0.1, 0.0)], [0.3, 0.8, 0.9, 0.5, 0.2, 0.1]),
        # equal accuracies, where the loss counts, and all equal, where the earlier one does
        ([(0.5, 1.0), (0.9, 0.4), (0.9, 0.1), (0.9, 0.3), (0.5, 1.0)], [0.3, 0.8, 0.9, 0.5, 0.2]),
    ],
)
def test_the_expected_best_by_all_subsets(valid: list[tuple[float, float]], test: list[float]) -> None:
    drawn = made_up(valid, test)
    for count in range(1, len(valid) + 1):
        chosen = [best_draw(subset) for subset in itertools.combinations(drawn.valid, count)]
        expected = statistics.fmean(test[candidate.position] for candidate in chosen)
        assert drawn.expected_best(count) == pytest.approx(expected, rel=1e-12)
    assert drawn.expected_best(1) == pytest.approx(statistics.fmean(test))
    assert drawn.expected_best(len(test)) == test[best_draw(drawn.valid).position]


def test_the_expected_best_of_very_many() -> None:
    """As many as in the document; the number of subsets is far beyond a float."""
    total = 1500
    drawn = made_up([(position / total, 0.0) for position in range(total)], [p / total for p in range(total)])
    # the expected maximum of k out of 0..n-1 without repetition is k (n + 1) / (k + 1) - 1
    for count in (1, 50, 500, 1500):
        assert drawn.expected_best(count) == pytest.approx((count * (total + 1) / (count + 1) - 1) / total, rel=1e-9)


@pytest.mark.parametrize("settings", [SMALL, TINY, LARGE])
def test_the_search_of_settings(settings: Settings) -> None:
    changed = {**settings, "square_length_scale": 16.0, "drop": 0.3, "temperature": 0.6, "weight_decay": 0.01}
    changed |= {"learning_rate": 0.07, "q_rate_factor": 3.0}
    assert search_of(changed) == PosteriorSearch(
        4.0, prior_examples=500_000, drop=0.3, temperature=0.6, learning_rate=0.07, q_rate_factor=3.0, weight_decay=0.01
    )
    assert search_of(settings).length_scale ** 2 == pytest.approx(settings["square_length_scale"])


def test_the_random_search_has_the_mean_rate_of_q(images: Images) -> None:
    """And differs in nothing else; its draws keep as many channels as those of q."""
    net = build(SETTINGS, "MI", images, 0)
    drops = dict(zip(net.groups, torch.linspace(0.05, 0.8, len(net.groups)).tolist(), strict=True))
    q = KeepDrop(net.space, net.groups, drop=drops)
    search = replace(search_of(SETTINGS), constant_decay=0.1)
    found = random_search(search, q)
    assert found == replace(search, learned=False, drop=found.drop)
    kept = sum(len(names) * (1 - drops[group]) for group, names in net.groups.items()) / len(net.space.choices)
    assert 1 - found.drop == pytest.approx(kept, abs=1e-6)
    assert kept != pytest.approx(1 - statistics.fmean(drops.values()), abs=0.01)  # groups count by their sizes
    fixed = found.strategy(net, num_data=10).q
    assert fixed.keep_rate == pytest.approx(q.keep_rate, abs=1e-6) and not list(fixed.parameters())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_builds(family: str, images: Images) -> None:
    """Networks of the wanted input and classes, with weights by the seed, gates, and a way to extract them."""
    net, again, other = (build(SETTINGS, family, images, seed) for seed in (0, 0, 1))
    assert same_bits(net.state_dict(), again.state_dict())
    assert not same_bits(net.state_dict(), other.state_dict())
    assert net.space.name == family
    x = torch.rand(3, *images.train.input_shape)
    whole = net.whole()
    half = net.space.architecture([("drop", "keep")[place % 2] for place in range(len(net.space.choices))])
    for architecture in (whole, half):
        network = net.eval().extract(architecture)
        assert network(x).shape == (3, 10)
        torch.testing.assert_close(network(x), net(x, architecture), rtol=1e-4, atol=1e-5)
    assert net.cost(half).parameters < net.cost(whole).parameters


def test_wider_and_deeper_networks(images: Images) -> None:
    for family in ("M", "E", "R", "D"):
        sizes = []
        for more in ({}, {"width": 3}, {"blocks": 2}):
            net = build({**SETTINGS, **more}, family, images, 0)
            sizes.append(sum(parameter.numel() for parameter in net.parameters()))
        assert sizes[0] < min(sizes[1:]), family


def test_inflated_families_have_more_channels(images: Images) -> None:
    """In as many layers."""
    for plain, inflated in (("M", "MI"), ("E", "EI")):
        nets = [build({**of_family(SMALL, family), "blocks": 1}, family, images, 0) for family in (plain, inflated)]
        assert [gate.name for gate in nets[0].gates] == [gate.name for gate in nets[1].gates]
        assert sum(gate.slices for gate in nets[0].gates) < sum(gate.slices for gate in nets[1].gates)


def test_the_paper_s_sizes_priors_and_schedules() -> None:
    """Millions of parameters of table 3, and d^2 / N of the authors' settings."""
    sizes, priors, epochs = {}, {}, {}
    for family in ("MI", "M", "EI", "E"):
        settings = of_family(LARGE, family)
        with torch.device("meta"):
            width, blocks = settings["width"], settings["blocks"]
            multi_branch = MultiBranchResNet(width=width, blocks=blocks) if family in ("MI", "M") else None
            network = multi_branch or EnasNetwork(width=width, cells=blocks)
        sizes[family] = round(sum(parameter.numel() for parameter in network.parameters()) / 1e6, 1)
        search = search_of(settings)
        priors[family] = search.length_scale**2 / (search.prior_examples or 0)
        epochs[family] = settings["epochs"], settings["learning_rate"], settings.get("restart_epochs")
    assert sizes == {"MI": 72.7, "M": 26.2, "EI": 15.3, "E": 4.6}
    assert priors == pytest.approx({"MI": 3e-4, "M": 1e-4, "EI": 2e-7, "E": 2e-7})
    assert epochs["MI"] == epochs["M"] == (1800, 0.01, None) and epochs["E"] == epochs["EI"] == (630, 0.05, 10)


def test_a_rate_in_steps() -> None:
    rate = _rate({"learning_rate": 0.1, "epochs": 90, "drop_epochs": [30, 60]})
    assert [rate(step, 900) for step in (0, 299, 300, 599, 600, 899)] == pytest.approx(
        [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    )


def test_warm_restarts() -> None:
    """Periods of 10, 20, 40, ... epochs, each from the full rate to almost 0; 630 epochs end with the sixth."""
    rate = _rate({"learning_rate": 0.05, "restart_epochs": 10, "epochs": 630})
    starts = [0, 10, 30, 70, 150, 310]
    assert [rate(3 * start, 1890) for start in starts] == pytest.approx([0.05] * 6)
    assert all(rate(3 * start - 1, 1890) < 0.001 for start in [*starts[1:], 630])
    assert rate(3 * 20, 1890) == pytest.approx(0.025)


def test_a_predefined_dropout_rises_to_its_rate(images: Images, tmp_path: Path) -> None:
    net = build(SETTINGS, "M", images, 0)
    search = replace(search_of(SETTINGS), learned=False, drop=0.4)
    q = learn(SETTINGS, images, net, search, 0, tmp_path / "random").q
    assert q.drop.tolist() == pytest.approx([0.4] * len(net.groups))
    rising = RisingDropout(q, 0.4)
    rising.on_step_start(FitState(NOBODY, steps_per_epoch=5, epochs=2))
    assert q.drop.tolist() == pytest.approx([0.04] * len(net.groups))


def test_draws_from_what_was_learned(images: Images, tmp_path: Path) -> None:
    """Candidates of validation and test images are the same draws; the summary is about the best of them."""
    net = build(SETTINGS, "M", images, 0)
    strategy = learn(SETTINGS, images, net, search_of(SETTINGS), 0, tmp_path / "learned")
    assert not net.training
    assert strategy.penalty.num_data == 500_000
    assert len(set(strategy.q.drop.tolist())) > 1  # they were learned
    drawn = Drawn.of(SETTINGS, images, net, strategy.q, 0, "guided")
    assert [one.position for one in drawn.valid] == [one.position for one in drawn.test] == [0, 1, 2, 3]
    draws = LimitedDraws(net, strategy.q, seed=0, stream="guided")
    for examples, candidates in ((images.valid, drawn.valid), (images.test, drawn.test)):
        for candidate in candidates:
            found = judged(net.extract(draws(candidate.position)), images, examples)
            assert candidate.score == pytest.approx(found["accuracy"])
            assert candidate.loss == pytest.approx(-found["mean_log_p"], rel=1e-4)
    best = draws(best_draw(drawn.valid).position)
    assert drawn.best == best
    summary = drawn.summary(images)
    network = net.extract(best)
    assert summary["test"] == judged(network, images)
    assert summary["valid_accuracy"] == max(one.score for one in drawn.valid)
    assert summary["mean_accuracy"] == pytest.approx(statistics.fmean(one.score for one in drawn.test))
    assert summary["cost"] == {
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "macs": multiply_accumulates(network, images.train.input_shape),
    }
    assert summary["dropped_channels"] == pytest.approx(best.names.count("drop") / len(best.names), abs=1e-6)


def test_statistics_of_their_own(images: Images) -> None:
    """Draws of a network whose running statistics are of no use are as good as with those of the training images.

    Wide enough for every layer to keep a channel: what statistics make of nothing is folded into constants.
    """
    net = build({**SETTINGS, "width": 8}, "M", images, 0)
    q = KeepDrop(net.space, net.groups, drop=0.3)
    drawn = Drawn.of(SETTINGS, images, net, q, 0, "guided")
    assert not any(net.folds(drawn.draws(position)) for position in range(3))
    expected = drawn.reestimated_accuracy(images, 3)
    for layer in norm_layers(net):
        assert layer.running_mean is not None
        layer.running_mean.fill_(100.0)
    assert drawn.reestimated_accuracy(images, 3) == expected
    inputs = [batch.inputs for batch in images.batches(images.train).epoch(0)]
    accuracies = []
    for position in range(3):
        network = net.extract(drawn.draws(position))
        ReestimatedStatistics(min(len(inputs), 8)).prepare(network, inputs)
        accuracies.append(judged(network, images)["accuracy"])
    assert expected == pytest.approx(statistics.fmean(accuracies))


def test_shares_of_what_was_dropped(images: Images) -> None:
    """A draw without two of its operations, by hand."""
    net = build(SETTINGS, "M", images, 0)
    gone = {net.gates[0].name, net.gates[3].name}
    q = KeepDrop(net.space, net.groups, drop={name: 1 - 1e-9 if name in gone else 1e-9 for name in net.groups})
    summary = Drawn.of({**SETTINGS, "candidates": 1}, images, net, q, 0, "sure").summary(images)
    slices = sum(gate.slices for gate in net.gates if gate.name in gone)
    assert summary["dropped_channels"] == pytest.approx(slices / len(net.space.choices), abs=1e-6)
    assert summary["dropped_operations"] == pytest.approx(2 / len(net.gates))


def test_training_without_gates(images: Images, tmp_path: Path) -> None:
    """Plain training by the usual rate, further training by its own."""
    net = build(SETTINGS, "M", images, 0)
    settings = {**SETTINGS, "epochs": 2, "tuning_epochs": 1, "tuning_rate": 1e-6}
    before, trained, tuned = (net.extract(net.whole()) for _ in range(3))
    assert train_plain(settings, images, trained, 0, tmp_path / "plain") is trained and not trained.training
    tune(settings, images, tuned, 0, tmp_path / "tuned")
    assert not tuned.training
    start, plain, further = (
        torch.cat([parameter.detach().flatten() for parameter in one.parameters()]) for one in (before, trained, tuned)
    )
    assert (plain - start).abs().max() > 1e-3
    assert 0 < (further - start).abs().max() < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("experiment", "family"), [("guided_draws", name) for name in ("MI", "M", "EI", "E")] + [
    ("guided_families", name) for name in ("R", "D")
])  # fmt: skip
def test_paper_presets_start(experiment: str, family: str, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks of the document take steps on two images, and a draw is cut out of them."""
    monkeypatch.setenv("POLYARCH_DATA", str(data_root))
    paper = EXPERIMENTS[experiment].presets["paper"]
    assert family in paper["seeds"]
    some = Images.of({**paper, "train": 100, "valid": 20, "test": 20}, "cifar10", 0)
    paper = of_family(paper, family)
    net = build(paper, family, some, 0)
    strategy = search_of(paper).strategy(net, num_data=paper["train"])
    batches = some.training_batches(some.train, 2, 0).epoch(0)
    losses = [strategy.step([next(batches)], generator=torch.Generator())["loss"] for _ in range(2)]
    assert all(0 < loss < math.inf for loss in losses) and losses[0] != losses[1]
    draw = LimitedDraws(net.eval(), strategy.q, seed=0)(0)
    network = net.extract(draw)
    assert sum(p.numel() for p in network.parameters()) == net.parameter_count(draw) < net.parameter_count(net.whole())
