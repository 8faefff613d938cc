"""Measures of mixtures, images and wirings that experiments on stochastic architectures share, by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from polyarch.data import Batch, Cutout, Normalisation, RandomShift, TensorData
from polyarch.methods.stochastic.recipes import nsa_i
from polyarch.plugins import EXPERIMENTS
from polyarch.randomness import generator_at, global_seed
from polyarch_experiments.experiment import Settings
from polyarch_experiments.images import Images, _rate, measure, sgd
from polyarch_experiments.stochastic.packed import PackedMembers, PackedMixture, PackedTraining
from polyarch_experiments.stochastic.shared_wirings import _ensembles
from polyarch_experiments.stochastic.wired_networks import build, draw_wirings
from polyarch_experiments.stochastic.wiring_ensemble import _alone, _scores

IMAGES: Settings = {"size": None, "train": 200, "valid": 50, "test": 60, "cutout": False}


def logits_of(*members: list[list[float]]) -> torch.Tensor:
    """Logits (K, N, C) of these probabilities, with a constant that softmax removes."""
    return torch.tensor(members, dtype=torch.float64).log() + 3.0


FIRST, SECOND = [[0.9, 0.1], [0.6, 0.4]], [[0.5, 0.5], [0.2, 0.8]]
"""Two members on two examples; equally mixed they say (0.7, 0.3) and (0.4, 0.6)."""


def test_measures_of_a_mixture_by_hand() -> None:
    found = measure(logits_of(FIRST, SECOND), torch.tensor([0, 0]))
    assert found == {
        "mean_log_p": pytest.approx((math.log(0.7) + math.log(0.4)) / 2),
        "mean_p": pytest.approx(0.55),
        "accuracy": 0.5,
        "calibration_error": pytest.approx((0.3 + 0.6) / 2),  # right with 0.7, wrong with 0.6: two bins
        "calibration_floor": pytest.approx((2 * 0.7 * 0.3 + 2 * 0.6 * 0.4) / 2, rel=0.1),  # E|right - p| of each
        "calibration_low": pytest.approx(0.3, abs=0.1),
        "calibration_high": pytest.approx(0.6, abs=0.1),
        "brier": pytest.approx((2 * 0.3**2 + 2 * 0.6**2) / 2),
        "risk_area": pytest.approx(0.25),  # the surer one is right: risks 0 and 1/2 at coverages 1/2 and 1
    }
    assert measure(logits_of(FIRST, SECOND), torch.tensor([1, 1]))["risk_area"] == pytest.approx(0.75)


def test_measures_of_a_weighted_mixture_by_hand() -> None:
    targets = torch.tensor([0, 0])
    found = measure(logits_of(FIRST, SECOND), targets, torch.tensor([0.25, 0.75]))
    assert found["mean_p"] == pytest.approx((0.6 + 0.3) / 2)
    alone = measure(logits_of(FIRST), targets)
    assert measure(logits_of(FIRST, SECOND), targets, torch.tensor([1.0, 0.0])) == pytest.approx(alone)


def test_members_alone_are_means_over_members() -> None:
    found = _alone(logits_of(FIRST, SECOND), torch.tensor([0, 1]))
    assert found["mean_p"] == pytest.approx((0.9 + 0.4 + 0.5 + 0.8) / 4)
    assert found["accuracy"] == pytest.approx((0.5 + 1.0) / 2)  # at a tie the first class is taken


def test_scores_of_strange_inputs_by_hand() -> None:
    """Two members that contradict each other, and two that are equally unsure: log 2 of disagreement, and none."""
    sure = 1 - 1e-12
    logits = logits_of([[sure, 1 - sure], [0.5, 0.5]], [[1 - sure, sure], [0.5, 0.5]])
    found = _scores(logits)
    assert found["mutual_information"].tolist() == pytest.approx([math.log(2), 0.0], abs=1e-9)
    assert found["entropy"].tolist() == pytest.approx([math.log(2)] * 2)
    assert found["max_probability"].tolist() == pytest.approx([0.5, 0.5])
    single = _scores(logits[:1])
    assert "mutual_information" not in single
    assert single["entropy"][0] < single["entropy"][1] and single["max_probability"][0] < single["max_probability"][1]


def test_ensembles_of_the_first_wirings() -> None:
    logits, targets = logits_of(FIRST, SECOND, [[0.2, 0.8], [0.1, 0.9]]), torch.tensor([0, 0])
    found = _ensembles({"ensemble_sizes": [1, 2, 3, 5]}, logits, targets)
    assert list(found) == ["1", "2", "3"]
    assert [found[size]["mean_p"] for size in found] == pytest.approx([1.5 / 2, 1.1 / 2, (1.5 + 0.7 + 0.3) / 6])
    assert [found[size]["accuracy"] for size in found] == [1.0, 0.5, 0.5]
    assert found["2"] == pytest.approx({name: measure(logits[:2], targets)[name] for name in found["2"]})


def rows_of(data: TensorData) -> set[tuple[float, ...]]:
    """All digits differ, so that the pixels are a name."""
    return set(map(tuple, data.inputs.flatten(1).tolist()))


def test_parts_of_the_images() -> None:
    first, again, other = (Images.of(IMAGES, "digits", seed) for seed in (0, 0, 1))
    parts = [rows_of(part) for part in (first.train, first.valid, first.test)]
    for part, examples, wanted in zip(parts, (first.train, first.valid, first.test), (200, 50, 60), strict=True):
        assert len(part) == len(examples) and abs(len(examples) - wanted) <= 5  # every class is rounded
        counts = torch.bincount(examples.targets, minlength=10)
        assert counts.max() - counts.min() <= 2
    assert len(set.union(*parts)) == sum(map(len, parts))  # nothing is in two of them
    assert rows_of(again.train) == parts[0] and rows_of(again.valid) == parts[1]
    assert rows_of(other.train) != parts[0] and rows_of(other.valid) != parts[1]
    assert other.test.inputs.equal(first.test.inputs) and other.test.targets.equal(first.test.targets)
    assert not parts[2] & (rows_of(other.train) | rows_of(other.valid))
    assert first.normalisation == Normalisation.of(first.train) != other.normalisation


def test_augmentations_that_keep_the_class() -> None:
    assert Images.of(IMAGES, "digits", 0).augmentations == (RandomShift(1),)  # a mirrored digit is none
    with_cutout = {**IMAGES, "cutout": True}
    images = Images.of(with_cutout, "digits", 0)
    assert images.augmentations == (RandomShift(1), Cutout(4, fill=images.normalisation.mean))


def test_what_is_cut_out_becomes_the_mean() -> None:
    """Nothing but the cutout on images of bytes, whose mean is rounded to one."""
    pixels = torch.randint(0, 256, (8, 3, 6, 6), dtype=torch.uint8, generator=generator_at(0, "pixels"))
    normalisation = Normalisation.of(pixels)
    cut = Cutout(12, fill=normalisation.mean)(pixels, generator_at(0, "cutout"))
    assert cut.dtype == torch.uint8 and normalisation(cut).abs().max() < 0.5 / 255 / min(normalisation.std) + 1e-6
    assert Cutout(12)(pixels, generator_at(0, "cutout")).max() == 0


def test_the_step_schedule_of_wide_residual_networks() -> None:
    rate = _rate({"learning_rate": 0.1, "schedule": "steps"})
    assert [rate(step, 10) for step in (0, 2, 3, 5, 6, 7, 8, 9)] == pytest.approx(
        [0.1, 0.1, 0.02, 0.02, 0.004, 0.004, 0.0008, 0.0008]
    )


def test_views_of_a_batch_are_the_same_examples_augmented_anew() -> None:
    images = Images.of({**IMAGES, "cutout": True}, "digits", 0)
    batch = next(images.training_batches(images.train, 16, 0, views=2).epoch(0))
    once = next(images.training_batches(images.train, 16, 0).epoch(0))
    assert len(batch.inputs) == len(batch.targets) == 32 and batch.targets.equal(once.targets.repeat(2))
    first, second = batch.inputs.chunk(2)
    assert first.shape == once.inputs.shape and (first - second).abs().amax((1, 2, 3)).min() > 0


def test_packed_members_do_not_read_each_other() -> None:
    """Other weights of one group change one member; the size is alpha^2 / M of the single network's modules."""
    with global_seed(0, "network"):
        net = PackedMembers(width=4, modules=4, stages=2, in_channels=2, classes=3, members=4).double().eval()
    x = torch.randn(5, 2, 6, 6, dtype=torch.float64, generator=generator_at(0, "x"))
    with torch.no_grad():
        before = net(x)
        convolution = net.blocks[2].get_submodule("1")
        assert isinstance(convolution, nn.Conv2d) and convolution.weight.numel() == 9 * 8 * 8 // 4
        convolution.weight[2:4] += 1.0  # the second of four groups of two channels
        changed = (net(x) - before).abs().amax((1, 2)) > 1e-9
    assert before.shape == (4, 5, 3) and changed.tolist() == [False, True, False, False]
    log_p = PackedMixture(net)(x)
    torch.testing.assert_close(log_p.exp(), torch.softmax(net(x), -1).mean(0))


def test_packed_members_learn_every_label() -> None:
    with global_seed(0, "network"):
        net = PackedMixture(PackedMembers(width=2, modules=2, stages=1, in_channels=1, classes=3, members=2)).double()
    x, y = torch.randn(6, 1, 4, 4, dtype=torch.float64, generator=generator_at(0, "x")), torch.arange(6) % 3
    strategy = PackedTraining(net, torch.optim.SGD(net.parameters(), lr=0.1))
    expected = [F.cross_entropy(one, y).item() for one in net.train().members(x)]
    assert strategy.loss(Batch(x, y)).item() == pytest.approx(sum(expected) / 2)


def test_batches_of_the_images() -> None:
    images = Images.of(IMAGES, "digits", 0)
    judged = list(images.batches(images.test, 25).epoch(0))
    assert torch.cat([batch.targets for batch in judged]).equal(images.test.targets)  # all of them, in order
    torch.testing.assert_close(
        torch.cat([batch.inputs for batch in judged]), images.normalisation(images.test.inputs), rtol=0, atol=0
    )
    orders = [
        next(images.training_batches(images.train, 32, seed, stream).epoch(0)).targets.tolist()
        for seed, stream in ((0, "train"), (0, "unlabelled"), (1, "train"), (0, "train"))
    ]
    assert orders[0] == orders[3] and orders[0] not in (orders[1], orders[2])


def test_images_from_outside_are_on_the_same_scale() -> None:
    """The test digits as strangers to themselves: the same values, up to the rounding to bytes."""
    images = Images.of({**IMAGES, "test": 1000}, "digits", 0)
    outside = images.outside("digits")
    assert len(outside) == len(images.test) == 359 and outside.inputs.dtype == torch.uint8
    shown, strange = (next(images.batches(data, 359).epoch(0)).inputs for data in (images.test, outside))
    torch.testing.assert_close(strange, shown, rtol=0, atol=0.51 / 255 / images.normalisation.std[0])
    few = Images.of(IMAGES, "digits", 0)
    assert abs(len(few.outside("digits")) - len(few.test)) <= 5


def test_wirings_by_stream_and_seed() -> None:
    settings = {"stages": 3, "modules": 4}
    drawn = draw_wirings(settings, 20, 0)
    assert drawn == draw_wirings(settings, 20, 0) and draw_wirings(settings, 5, 0) == drawn[:5]
    others = draw_wirings(settings, 20, 0, "unseen"), draw_wirings(settings, 20, 1)
    for other in others:
        assert len(set(other)) == 20 and other != drawn and len(set(other) & set(drawn)) < 10
    assert drawn[0].space.name == "wired3x4out"


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["shared_wirings", "wiring_ensemble", "wiring_consistency"])
def test_paper_presets_start(experiment: str, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of the paper with five wirings takes steps on two images."""
    monkeypatch.setenv("POLYARCH_DATA", str(data_root))
    paper = EXPERIMENTS[experiment].presets["paper"]
    some = Images.of({**paper, "train": 100, "valid": 20, "test": 20}, paper["data"][0], 0)
    wirings = draw_wirings(paper, 5, 0)
    net = build(paper, some, 0, wirings=wirings)
    strategy = nsa_i(net, wirings, sgd(paper, net))
    batches = some.training_batches(some.train, 2, 0).epoch(0)
    losses = [strategy.step([next(batches)], generator=torch.Generator())["loss"] for _ in range(2)]
    assert all(0 < loss < math.inf for loss in losses) and losses[0] != losses[1]
