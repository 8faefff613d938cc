"""Who goes on: halving, survivors, children."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyarch.methods.race.candidates import OTHERS, Candidate, plain, sizes
from polyarch.methods.race.rungs import Lane, best, children, rungs, survivors
from polyarch.methods.race.settings import RaceSettings
from polyarch.methods.race.training import expected_loss
from polyarch.runs.image_augmentation import AUGMENTATIONS
from polyarch.spaces import Choice, Space
from polyarch.supernets import ResNetSupernet

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


def with_plain(found: list[Lane], place: int) -> list[Lane]:
    plain = replace(found[place], candidate=replace(found[place].candidate, is_reference=True))
    return [*found[:place], plain, *found[place + 1 :]]


def test_speed_and_validation_choose_in_turn() -> None:
    found = lanes([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1])
    assert letters(survivors(found, 4, False)) == "afbe"
    assert letters(survivors(found, 4, True)) == "af"  # the rest is for children
    agreeing = lanes([3, 1, 2], [3, 1, 2])
    assert letters(survivors(agreeing, 2, False)) == "bc"


def test_the_plain_network_is_never_eliminated() -> None:
    found = with_plain(lanes([1, 2, 3, 4], [1, 2, 3, 4]), 3)
    assert letters(survivors(found, 2, False)) == "da"
    assert letters(survivors(found, 4, True)) == "dab"
    assert letters(best(found, 2)) == "ad"
    assert letters(best(found, 1)) == "a"
    assert letters(best(with_plain(lanes([1, 2], [1, 2]), 0), 2)) == "ab"
    assert all(not lane.candidate.is_reference for lane in children(found, 10, True))


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


def test_children_are_new_and_have_other_augmentations() -> None:
    parents = lanes([1, 2], [1, 2])
    found = children(parents, 3, True)
    assert len({lane.candidate for lane in [*parents, *found]}) == 5
    assert letters(found[:2]) == "ab"
    assert all(lane.candidate.augmentation not in ("shift", "none") for lane in found)
    assert all(lane.parent is not None and lane.parent.architecture == lane.candidate.architecture for lane in found)
    assert len(children(parents, 100, True)) == 4
    assert children(parents, 5, False) == []


def test_other_augmentations_differ_in_one_part() -> None:
    assert OTHERS.keys() == AUGMENTATIONS.keys()
    for name, others in OTHERS.items():
        for other in others:
            assert len(set(AUGMENTATIONS[name]) ^ set(AUGMENTATIONS[other])) == 1


def test_sizes_are_scaled_as_a_whole() -> None:
    space = ResNetSupernet(widths=(8, 16), max_depth=2, kernels=(3, 5)).space
    found = [dict(one.to_dict()) for one in sizes(space)]
    assert [(one["stage1.width"], one["stage3.width"], one["stage2.depth"]) for one in found] == [
        ("8", "32", "1"),
        ("8", "32", "2"),
        ("16", "64", "1"),
        ("16", "64", "2"),
    ]
    assert {one["stage2.kernel"] for one in found} == {"3"}
    assert plain(sizes(space)).to_dict()["stage2.width"] == "32"
    assert sizes(SPACE) == []
