"""Who goes on: halving, survivors, children."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyarch.methods.race.candidates import OTHERS, Candidate, mirrored, mutated, plain, plain_networks
from polyarch.methods.race.inheritance import overlapping
from polyarch.methods.race.rungs import Lane, best, children, rungs, survivors
from polyarch.methods.race.settings import RaceSettings
from polyarch.methods.race.training import expected_loss
from polyarch.randomness import generator_at
from polyarch.runs.image_augmentation import AUGMENTATIONS
from polyarch.runs.settings import RunSettings
from polyarch.spaces import Architecture, Choice, Space
from polyarch.supernets import PooledSupernet, ResNetSupernet, ladder

SPACE = Space("letters", (Choice("letter", tuple("abcdefgh")),))


def lanes(speeds: list[float], losses: list[float]) -> list[Lane]:
    return [
        Lane(Candidate(SPACE.members[place], "shift"), ({"expected_loss": speed, "valid_loss": loss},))
        for place, (speed, loss) in enumerate(zip(speeds, losses, strict=True))
    ]


def letters(found: list[Lane]) -> str:
    return "".join(lane.candidate.architecture.names[0] for lane in found)


@given(st.integers(1, 100), st.integers(1, 8))
def test_rungs_halve_and_double(candidates: int, finalists: int) -> None:
    found = rungs(RaceSettings(candidates=candidates, finalists=finalists, first_seconds=3.0, seconds=100.0))
    assert found[0].count == candidates and found[0].seconds == 3.0
    for one, other in itertools.pairwise(found):
        assert other.seconds == 2 * one.seconds
        assert one.count / 2 <= other.count < one.count
    assert found[-1].count <= max(2 * finalists, candidates if len(found) == 1 else 0)


def test_speed_and_validation_choose_in_turn() -> None:
    found = lanes([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1])
    assert letters(survivors(found, 4, False)) == "afbe"
    assert letters(survivors(found, 4, True)) == "af"  # the rest is for children
    agreeing = lanes([3, 1, 2], [3, 1, 2])
    assert letters(survivors(agreeing, 2, False)) == "bc"


def test_finalists_are_those_of_the_lowest_validation_loss() -> None:
    assert letters(best(lanes([1, 2, 3], [0.3, 0.1, 0.2]), 2)) == "bc"


@given(st.floats(0.01, 10), st.floats(0, 1), st.integers(2, 50))
def test_a_power_of_the_time_is_extrapolated_exactly(scale: float, power: float, laps: int) -> None:
    rows = [{"seconds": float(place), "loss": scale * place**-power} for place in range(1, laps + 1)]
    assert expected_loss(rows, 1000.0) == pytest.approx(scale * 1000.0**-power, rel=1e-6)


def test_rising_losses_are_expected_to_stay_and_steep_ones_to_flatten() -> None:
    rising = [{"seconds": 1.0, "loss": 1.0}, {"seconds": 2.0, "loss": 2.0}, {"seconds": 3.0, "loss": 2.0}]
    assert expected_loss(rising, 100.0) == pytest.approx(2.0)
    steep = [{"seconds": float(place), "loss": place**-3.0} for place in range(1, 5)]
    assert expected_loss(steep, 100.0) > 100.0**-3
    assert expected_loss(steep[:1], 100.0) == pytest.approx(1.0)  # one lap says nothing about the future
    below = [{"seconds": 1.0, "loss": 0.5}, {"seconds": 2.0, "loss": -0.5}, {"seconds": 3.0, "loss": -1.5}]
    assert expected_loss(below, 100.0) == -1.0


@dataclass
class FreeRun:
    """What `children` asks of a run; nothing is limited."""

    settings: RunSettings = field(default_factory=RunSettings)
    allowed: bool = True

    @property
    def limits(self) -> FreeRun:
        return self

    def allows(self, architecture: Architecture) -> bool:
        return self.allowed


def test_children_have_another_augmentation_or_size() -> None:
    parents = lanes([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])[::4]  # their mutations differ
    found = children(FreeRun(), parents, 10)  # type: ignore[arg-type]
    assert len({lane.candidate for lane in [*parents, *found]}) == len(parents) + len(found) == 2 + 2 * 3
    for lane in found:
        assert lane.parent is not None
        same = lane.parent.architecture == lane.candidate.architecture
        assert same != (lane.parent.augmentation == lane.candidate.augmentation)
    assert [lane.parent for lane in found[:2]] == [parents[0].candidate] * 2  # the best parent comes first
    assert len({lane.candidate.augmentation for lane in found[:2]}) == 2
    assert len(children(FreeRun(), parents, 3)) == 3  # type: ignore[arg-type]
    limited = children(FreeRun(allowed=False), parents, 10)  # type: ignore[arg-type]
    assert all(lane.parent and lane.parent.architecture == lane.candidate.architecture for lane in limited)


@given(st.integers(0, 1000))
def test_mutations_change_one_size_by_one_step(seed: int) -> None:
    net = PooledSupernet(widths=(8, 16, 24), max_depth=2, stages=2)
    space, before = net.space, ladder(net)[4]
    after = mutated(before, generator_at(seed, "mutation"))
    changed = [place for place, pair in enumerate(zip(before.indices, after.indices, strict=True)) if len({*pair}) > 1]
    assert len(changed) == 1 and space.choice_names[changed[0]].startswith("stage")
    assert abs(before.indices[changed[0]] - after.indices[changed[0]]) == 1


def test_weights_are_inherited_as_far_as_both_reach() -> None:
    own = {"wider": torch.zeros(3, 2), "narrower": torch.zeros(1), "new": torch.ones(1), "count": torch.tensor(0)}
    found = overlapping(own, {"wider": torch.ones(2, 2), "narrower": torch.ones(2), "count": torch.tensor(7)})
    assert found["wider"].tolist() == [[1, 1], [1, 1], [0, 0]]
    assert found["narrower"].tolist() == [1] and found["new"].tolist() == [1] and found["count"] == 7
    assert own["wider"].sum() == 0


def test_other_augmentations_differ_in_one_part() -> None:
    assert OTHERS.keys() == AUGMENTATIONS.keys()
    for name, others in OTHERS.items():
        for other in others:
            assert len(set(AUGMENTATIONS[name]) ^ set(AUGMENTATIONS[other])) == 1


def test_plain_networks_stand_beside_others() -> None:
    net = PooledSupernet(widths=(8, 16), max_depth=1, plain_widths=(8, 16), stages=2)
    assert [one.canonical() for one in ladder(net)] == [
        "one|pooled|8|0|16|0|-", "one|pooled|8|1|16|1|-", "one|pooled|16|0|32|0|-", "one|pooled|16|1|32|1|-",
    ]  # fmt: skip
    assert [one.canonical() for one in plain_networks(net)] == ["one|plain|-|-|-|-|8", "one|plain|-|-|-|-|16"]
    assert plain(plain_networks(net)).to_dict()["plain.width"] == "16"
    others = ResNetSupernet(widths=(8, 16), max_depth=2, kernels=(3, 5))
    assert plain(plain_networks(others)).key == "16|1|3|1|32|3|1|64|3"
    assert plain(SPACE.members[:3]) == SPACE.members[1]


def test_only_networks_that_trained_on_mirror_images_look_at_them() -> None:
    smallest, *_ = ladder(PooledSupernet(widths=(8, 16), max_depth=1, stages=2))
    found = mirrored(Candidate(smallest, "flip"))
    assert found is not None and found.canonical().startswith("both|pooled|8|0")
    assert mirrored(Candidate(smallest, "shift")) is None
    assert mirrored(Candidate(SPACE.members[0], "flip")) is None
