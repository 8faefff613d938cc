from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyarch.data import TensorData, stratified_split
from polyarch.data.examples import stratified_indices
from polyarch.errors import DataError, InvalidInput

class_sizes = st.lists(st.integers(2, 40), min_size=1, max_size=6)
fractions = st.floats(0.01, 0.99)


def labels(sizes: list[int]) -> torch.Tensor:
    """Classes of these sizes, one after the other."""
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


@settings(max_examples=60)
@given(class_sizes, fractions, st.integers(0, 2**31))
def test_every_class_is_split_in_proportion(sizes: list[int], fraction: float, seed: int) -> None:
    targets = labels(sizes)
    rest, part = stratified_indices(targets, fraction, seed=seed)
    assert torch.equal(torch.cat([rest, part]).sort().values, torch.arange(len(targets)))  # disjoint, nothing lost
    assert rest.tolist() == sorted(rest.tolist())
    taken = targets[part].bincount(minlength=len(sizes)).tolist()
    for size, count in zip(sizes, taken, strict=True):
        assert 1 <= count <= size - 1
        assert abs(count - fraction * size) <= 1  # rounding, or one example kept back


@settings(max_examples=20)
@given(class_sizes, fractions, st.integers(0, 2**31))
def test_the_seed_decides(sizes: list[int], fraction: float, seed: int) -> None:
    targets = labels(sizes)
    first, again = (stratified_indices(targets, fraction, seed=seed) for _ in range(2))
    assert torch.equal(first[1], again[1])


def test_another_seed_gives_another_split() -> None:
    targets = labels([50, 50])
    assert not torch.equal(stratified_indices(targets, 0.5, seed=0)[1], stratified_indices(targets, 0.5, seed=1)[1])


def test_split_carries_the_examples_along() -> None:
    data = TensorData(torch.arange(20.0).unsqueeze(1), labels([12, 8]), 2)
    rest, part = stratified_split(data, 0.25, seed=3)
    assert part.targets.bincount().tolist() == [3, 2]
    for half in (rest, part):
        assert torch.equal((half.inputs[:, 0] >= 12).long(), half.targets)


def test_class_with_a_single_example() -> None:
    with pytest.raises(DataError, match=r"two or more examples of every class to split. Class 1 has 1"):
        stratified_indices(torch.tensor([0, 0, 1, 2, 2]), 0.5, seed=0)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_fraction_outside_zero_and_one(fraction: float) -> None:
    with pytest.raises(InvalidInput, match="fraction between 0 and 1"):
        stratified_indices(labels([4, 4]), fraction, seed=0)
