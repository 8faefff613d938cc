"""Tokens stay integers, and sequences of different lengths are padded, from every source."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import polyarch.data.sequences
from polyarch.data import Batches, Identity, NamedData, TensorData, load, padded
from polyarch.data.unlabelled import unlabelled_examples
from polyarch.errors import DataError

LABELS = [0, 1] * 10
GENERATOR = np.random.default_rng(0)
FIXED = GENERATOR.integers(0, 9, (20, 6))
RAGGED = [[int(token) for token in GENERATOR.integers(1, 9, 1 + row % 4)] for row in range(20)]


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(polyarch.data.sequences).failed == 0


@given(st.lists(st.lists(st.integers(0, 99), max_size=6), min_size=1, max_size=8), st.integers(0, 3))
def test_padding_loses_nothing(sequences: list[list[int]], room: int) -> None:
    longest = max(1, *map(len, sequences))
    tokens, mask = padded(sequences, "x", length=longest + room)
    assert tokens.shape == mask.shape == (len(sequences), longest + room)
    assert [row[keep].tolist() for row, keep in zip(tokens, mask, strict=True)] == sequences
    assert not tokens[~mask].any()


@pytest.mark.parametrize(
    ("sequences", "words"),
    [
        ([[1, 2], [-1]], r"0 or more, in x\. Found -1 in example 1"),
        ([[1, 2], [0.5]], r"integers as tokens in x\. Found something else in example 1"),
        ([[1, 2, 3, 4], [1]], r"up to 3 tokens in x\. Found 4 in example 0"),
        ([[[1]], [[2]]], "integers as tokens"),
    ],
)
def test_what_are_no_tokens(sequences: list[Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        padded(sequences, "x", length=3)


def of_pair(folder: Path) -> Any:
    return FIXED, LABELS


def of_file(folder: Path) -> Any:
    np.savez(folder / "tokens.npz", x=FIXED.astype(np.int32), y=LABELS)
    return folder / "tokens.npz"


class Items(torch.utils.data.Dataset[Any]):
    def __init__(self, inputs: list[Any]) -> None:
        self.inputs = inputs

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Any:
        return self.inputs[index], LABELS[index]


def of_items(folder: Path) -> Any:
    return Items([torch.from_numpy(row) for row in FIXED])


@pytest.mark.parametrize("source", [of_pair, of_file, of_items])
def test_tokens_of_one_length_stay_integers(source: Any, tmp_path: Path) -> None:
    data = load(source(tmp_path))
    assert isinstance(data.train, TensorData) and data.input_dtype == torch.int64 and data.input_shape == (6,)
    assert data.preprocessing(data.train) == Identity(int(FIXED.max()) + 1)
    inputs = next(Batches(data.train, 4, preprocessing=data.preprocessing(data.train)).epoch(0)).inputs
    assert isinstance(inputs, torch.Tensor) and inputs.dtype == torch.int64


def test_a_source_of_numbers_says_how_to_go_on() -> None:
    with pytest.raises(DataError, match=r"Found -3 in example 0; numbers to normalise are floats"):
        load((FIXED - 3 - FIXED[0].min(), LABELS))


@pytest.mark.parametrize("source", [lambda: (RAGGED, LABELS), lambda: Items([torch.tensor(row) for row in RAGGED])])
def test_sequences_of_several_lengths_get_a_mask(source: Any) -> None:
    data = load(source())
    assert isinstance(data.train, NamedData) and data.masks == {"tokens": "mask"}
    assert data.input_shape == {"tokens": (4,), "mask": (4,)}
    kept = [
        row[mask].tolist() for row, mask in zip(*(data.train.inputs[name] for name in ("tokens", "mask")), strict=True)
    ]
    assert sorted(kept) == sorted(RAGGED[row] for row in _training_rows())


def _training_rows() -> list[int]:
    data = load((np.arange(20, dtype=np.float32)[:, None], LABELS)).train
    assert isinstance(data, TensorData)
    return [int(value) for value in data.inputs[:, 0]]


def test_named_sequences_have_masks_of_their_own() -> None:
    data = load(({"title": RAGGED, "tokens": RAGGED, "price": np.ones((20, 1))}, LABELS))
    assert data.masks == {"title": "title_mask", "tokens": "mask"}
    assert list(data.input_shape) == ["title", "title_mask", "tokens", "mask", "price"]
    with pytest.raises(DataError, match="no input 'title_mask' beside"):
        load(({"title": RAGGED, "title_mask": np.ones((20, 4), dtype=bool)}, LABELS))


class TestFilesOfSeveralInputs:
    IMAGES = GENERATOR.random((20, 4, 4))

    def test_arrays_beside_the_labels(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "both.npz", image=self.IMAGES, tokens=FIXED, y=np.array(LABELS))
        data = load(tmp_path / "both.npz")
        assert data.input_shape == {"image": (1, 4, 4), "tokens": (6,)}
        assert data.input_dtype == {"image": torch.float32, "tokens": torch.int64}

    def test_arrays_beside_the_usual_one_are_named(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "both.npz", images=self.IMAGES, tokens=FIXED, y=np.array(LABELS))
        data = load(tmp_path / "both.npz")
        assert data.input_shape == (1, 4, 4)
        assert data.notes == ("Array 'tokens' is not used: 'images' is the only input.",)

    def test_training_and_test_arrays(self, tmp_path: Path) -> None:
        arrays: dict[str, Any] = {"image_train": self.IMAGES, "tokens_train": FIXED, "labels_train": LABELS}
        arrays |= {"image_test": self.IMAGES[:4], "tokens_test": FIXED[:4], "labels_test": LABELS[:4]}
        np.savez(tmp_path / "both.npz", **arrays)
        data = load(tmp_path / "both.npz")
        assert isinstance(data.test, NamedData) and (len(data.train), len(data.test)) == (20, 4)
        assert torch.equal(data.test.inputs["tokens"], torch.from_numpy(FIXED[:4]))

    def test_other_types_to_test(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "x.npz", x_train=FIXED, y_train=LABELS, x_test=FIXED[:4] / 2, y_test=LABELS[:4])
        with pytest.raises(DataError, match=r"one type in .*int64 in 'x_train' and torch.float32 in 'x_test'"):
            load(tmp_path / "x.npz")

    def test_items_of_several_inputs(self) -> None:
        items = Items([{"image": torch.rand(1, 4, 4), "tokens": torch.from_numpy(row)} for row in FIXED])
        assert load(items).input_shape == {"image": (1, 4, 4), "tokens": (6,)}
        items.inputs[7] = {"image": torch.rand(1, 4, 4)}
        with pytest.raises(DataError, match=r"inputs image, tokens in every item of Items\. Found image in item 7"):
            load(items)


class TestWithoutLabels:
    def test_tokens(self) -> None:
        data = load((FIXED, LABELS))
        assert torch.equal(_inputs(unlabelled_examples(FIXED, data)), torch.from_numpy(FIXED))
        numbers = load((FIXED / 2, LABELS))
        assert _inputs(unlabelled_examples(FIXED, numbers)).dtype == torch.float32

    def test_several_inputs(self, tmp_path: Path) -> None:
        arrays: dict[str, Any] = {"table": FIXED / 2, "tokens": FIXED}
        data = load((arrays, LABELS))
        np.savez(tmp_path / "more.npz", **arrays)
        for source in (arrays, tmp_path / "more.npz", load((arrays, LABELS))):
            found = unlabelled_examples(source, data)
            assert isinstance(found, NamedData) and found.input_shape == data.input_shape
        with pytest.raises(DataError, match=r"without labels\. Got"):
            unlabelled_examples({"table": FIXED / 2}, data)


def _inputs(examples: Any) -> Any:
    return examples.inputs
