"""Splits by groups and in time: partitions, nothing on both sides, every class in training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from polyarch.data import GroupSplit, RandomSplit, Split, TensorData, TimeSplit
from polyarch.data.split_keys import SplitKeys
from polyarch.data.splits import limited
from polyarch.errors import DataError, InvalidInput

shares = st.floats(0.05, 0.6)
seeds = st.integers(0, 2**31)


@st.composite
def grouped(draw: st.DrawFn) -> tuple[Tensor, GroupSplit]:
    """Up to 60 examples of up to 4 classes in up to 12 groups, some of which do not occur."""
    count = draw(st.integers(2, 60))
    number = st.lists(st.integers(0, 11), min_size=count, max_size=count)
    targets = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    return torch.tensor(targets), GroupSplit(torch.tensor(draw(number)), tuple("abcdefghijkl"))


def assert_partition(rest: Tensor, part: Tensor, count: int) -> None:
    assert len(rest) and len(part)
    assert torch.equal(torch.cat([rest, part]).sort().values, torch.arange(count))
    assert torch.equal(rest, rest.sort().values) and torch.equal(part, part.sort().values)


@settings(max_examples=150)
@given(grouped(), shares, seeds)
def test_groups_stay_together_and_every_class_is_trained_on(
    case: tuple[Tensor, GroupSplit], share: float, seed: int
) -> None:
    targets, split = case
    groups = [set(split.groups[targets == label].tolist()) for label in targets.unique().tolist()]
    spare = [group for group in split.groups.unique().tolist() if all(one != {group} for one in groups)]
    if not spare:  # every group has the only examples of some class
        with pytest.raises(DataError, match="Found one" if len(split.groups.unique()) == 1 else "only examples of"):
            split.rows(targets, share, seed=seed)
        return
    rest, part = split.rows(targets, share, seed=seed)
    assert_partition(rest, part, len(targets))
    assert not set(split.groups[rest].tolist()) & set(split.groups[part].tolist())
    assert set(targets[rest].tolist()) == set(targets.tolist())
    again = split.rows(targets, share, seed=seed)
    assert torch.equal(part, again[1])
    left = split.subset(rest)
    assert torch.equal(left.groups, split.groups[rest])


@settings(max_examples=40)
@given(st.lists(st.integers(1, 6), min_size=40, max_size=60), st.sampled_from([0.1, 0.2, 0.4]), seeds)
def test_many_small_groups_give_the_share_of_every_class(sizes: list[int], share: float, seed: int) -> None:
    groups = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    targets = torch.arange(len(groups)) % 2
    _, part = GroupSplit(groups, tuple(map(str, range(len(sizes))))).rows(targets, share, seed=seed)
    for label in (0, 1):
        count = int((targets == label).sum())
        assert abs(int((targets[part] == label).sum()) - share * count) <= 3  # one group has up to 3 of a class


def test_classes_that_are_bound_to_groups_are_held_out_where_possible() -> None:
    """Class 0 has four groups, class 1 two, of which one alone is more than the share, class 2 only one."""
    groups = torch.tensor([0, 1, 2, 3, 4, 5, 6]).repeat_interleave(5)
    targets = torch.tensor([0, 0, 0, 0, 1, 1, 2]).repeat_interleave(5)
    for seed in range(10):
        rest, part = GroupSplit(groups, tuple("abcdefg")).rows(targets, 0.2, seed=seed)
        assert targets[part].bincount(minlength=3).tolist() == [5, 5, 0]
        assert targets[rest].bincount(minlength=3).tolist() == [15, 5, 5]


def test_the_seed_decides_which_groups() -> None:
    groups = torch.arange(40).repeat_interleave(3)
    split, targets = GroupSplit(groups, tuple(map(str, range(40)))), torch.zeros(120, dtype=torch.int64)
    parts = {tuple(split.rows(targets, 0.25, seed=seed)[1].tolist()) for seed in range(5)}
    assert len(parts) == 5


@settings(max_examples=100)
@given(st.lists(st.integers(0, 15), min_size=2, max_size=50), shares, seeds)
def test_what_is_held_out_is_later(times: list[int], share: float, seed: int) -> None:
    assume(len(set(times)) > 1)
    stamps = torch.tensor(times, dtype=torch.float64)
    targets = torch.rand(len(times))  # of a regression: nothing to stratify
    rest, part = TimeSplit(stamps).rows(targets, share, seed=seed)
    assert_partition(rest, part, len(times))
    assert stamps[rest].max() < stamps[part].min()
    most = max(times.count(time) for time in set(times))
    assert abs(len(part) - share * len(times)) <= max(most, 1)


def test_a_class_that_comes_too_late_is_refused() -> None:
    times, targets = torch.arange(10, dtype=torch.float64), torch.tensor([0, 1] * 4 + [2, 2])
    with pytest.raises(DataError, match=r"before the latest 20 % by the given times\. Class 'fox' occurs only among"):
        TimeSplit(times).rows(targets, 0.2, seed=0, class_names=("cat", "dog", "fox"))
    with pytest.raises(DataError, match="two or more different times"):
        TimeSplit(torch.ones(10)).rows(targets, 0.2, seed=0)


@pytest.mark.parametrize(
    "split", [RandomSplit(), GroupSplit(torch.arange(30) // 3, tuple("abcdefghij")), TimeSplit(torch.arange(30.0))]
)
def test_targets_need_not_be_classes(split: Split) -> None:
    for targets in (torch.rand(30), torch.rand(30, 2), torch.randint(0, 2, (30, 4))):
        rest, part = split.rows(targets, 0.3, seed=1)
        assert_partition(rest, part, 30)
        assert len(part) == 9
    with pytest.raises(InvalidInput, match="fraction between 0 and 1"):
        split.rows(torch.rand(30), 1.0, seed=0)


def test_a_few_examples_of_every_class() -> None:
    data = TensorData(torch.arange(21.0).unsqueeze(1), torch.tensor([0] * 10 + [1] * 10 + [2]), 3)
    assert limited(data, 8, seed=0).targets.bincount().tolist() == [4, 4, 1]
    assert limited(data, 21, seed=0) is data


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, 1, 2.5], [3.0, 1.0, 2.5]),
        (["3", "1", " 2.5"], [3.0, 1.0, 2.5]),
        (["1970-01-02", "1970-01-01 00:00:10", "1970-01-01T01:00:10+01:00"], [86400.0, 10.0, 10.0]),
        (np.array(["1970-01-02", "1970-01-01", "1969-12-31"], dtype="datetime64[D]"), [86400.0, 0.0, -86400.0]),
    ],
)
def test_times_are_numbers_or_dates(values: Any, expected: list[float]) -> None:
    split = SplitKeys(times=values).split(3, "X")
    assert isinstance(split, TimeSplit) and split.times.tolist() == expected


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"times": ["2024-01-31", "31/01/2024", "2024"]},
            r"2024-03-31, in the given times of X\. Found '31/01/2024' in row 2",
        ),
        ({"times": [1.0, np.nan, 2.0]}, r"a value of the given times in every row of X\. Found none in row 2"),
        ({"groups": ["a", "b", ""]}, r"a value of the given groups in every row of X\. Found none in row 3"),
        ({"groups": [1, 2]}, r"Expected 3 groups, one for every example of X\. Got 2"),
        ({"groups": "patient"}, r"an array of groups for X, which has no columns\. Got 'patient'"),
    ],
)
def test_keys_that_cannot_be_used(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        SplitKeys(**keys).split(3, "X")


@settings(max_examples=100)
@given(grouped(), st.data(), shares)
def test_groups_that_begin_latest_are_held_out_whole(
    case: tuple[Tensor, GroupSplit], data: st.DataObject, share: float
) -> None:
    count = len(case[0])
    times = torch.tensor(data.draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)), dtype=torch.float64)
    groups = case[1].groups
    split = SplitKeys(groups.numpy(), times.numpy()).split(count, "X")
    begins = {group: times[groups == group].min().item() for group in groups.unique().tolist()}
    assume(len(set(begins.values())) > 1)
    rest, part = split.rows(torch.zeros(count), share, seed=0)
    assert_partition(rest, part, count)
    trained, held_out = ({begins[group] for group in groups[rows].tolist()} for rows in (rest, part))
    assert max(trained) < min(held_out)  # hence no group is on both sides
    assert split.in_words(0.2) == "the latest 20 % by the given times, whole groups by the given groups"


def test_groups_in_time_of_another_file_are_new_and_later() -> None:
    known = SplitKeys([1, 1, 2], [0, 5, 3]).split(3, "X")
    assert known.subset(torch.tensor([0, 2])).rows(torch.zeros(2), 0.5, seed=0)[1].tolist() == [1]
    known.beside(SplitKeys([4, 4], [3, 9]).split(2, "Y"), "Y")
    with pytest.raises(DataError, match="later than all training examples"):
        known.beside(SplitKeys([4, 4], [2, 9]).split(2, "Y"), "Y")
    with pytest.raises(DataError, match=r"groups of their own in Y .*Found '2' elsewhere"):
        known.beside(SplitKeys([2, 4], [4, 9]).split(2, "Y"), "Y")
