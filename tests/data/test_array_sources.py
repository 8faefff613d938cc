from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, TensorDataset

from polyarch.data import load, resident
from polyarch.data.arrays import input_tensor
from polyarch.errors import CorruptFile, DataError, InvalidInput

RANDOM = np.random.default_rng(0)
BYTES = RANDOM.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
FLOATS = RANDOM.normal(size=(20, 4))
LABELS = np.arange(20) % 3


def saved(folder: Path, **arrays: Any) -> Path:
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return path


class TestShapes:
    @pytest.mark.parametrize(
        ("values", "shape", "dtype"),
        [
            (FLOATS, (20, 4), torch.float32),
            (BYTES, (20, 3, 6, 5), torch.uint8),
            (BYTES.transpose(0, 3, 1, 2), (20, 3, 6, 5), torch.uint8),
            (BYTES[..., 0], (20, 1, 6, 5), torch.uint8),
            (BYTES.astype(np.float64), (20, 3, 6, 5), torch.float32),
            (BYTES.astype(np.int32), (20, 3, 6, 5), torch.float32),
            (np.zeros((2, 3, 8, 3)), (2, 3, 3, 8), torch.float32),
            (torch.zeros(2, 3, 8, 3), (2, 3, 8, 3), torch.float32),
            (torch.zeros(2, 8, 8, 1), (2, 1, 8, 8), torch.float32),
            ([[1, 2], [3, 4]], (2, 2), torch.int64),
            ([[1.0, 2], [3, 4]], (2, 2), torch.float32),
            (np.ones((3, 2), dtype=np.int16), (3, 2), torch.int64),
            (np.ones((3, 2), dtype=bool), (3, 2), torch.float32),
            (torch.ones(3, 2, dtype=torch.float16), (3, 2), torch.float32),
        ],
    )
    def test_inputs(self, values: Any, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        tensor = input_tensor(values, "x")
        assert (tuple(tensor.shape), tensor.dtype) == (shape, dtype)

    def test_channels_keep_their_pixels(self) -> None:
        tensor = input_tensor(BYTES, "x")
        assert torch.equal(tensor, input_tensor(BYTES.transpose(0, 3, 1, 2), "x"))
        assert torch.equal(tensor[:, 1], torch.from_numpy(BYTES[..., 1].copy()))

    def test_values_are_a_copy(self) -> None:
        values = torch.zeros(2, 3)
        input_tensor(values, "x").fill_(1)
        assert values.sum() == 0

    @pytest.mark.parametrize(
        ("values", "complaint"),
        [
            (np.zeros(5), r"rows or images, .* in x\. Found shape \(5,\)"),
            (np.zeros((2, 3, 4, 5, 6)), r"Found shape \(2, 3, 4, 5, 6\)"),
            (np.zeros((2, 5, 6, 7)), r"1, 3 or 4 channels in x\. Found shape \(2, 5, 6, 7\)"),
            (np.zeros((0, 3)), r"at least one number in x\. Found shape \(0, 3\)"),
            (np.array([["a"], ["b"]]), r"Expected numbers in x\. Found <U1"),
            (np.array([[1.0, 2.0], [np.nan, 1.0]]), r"finite numbers in x\. Found NaN or infinity in example 1"),
            (np.array([[1.0], [1e60]]), r"Found NaN or infinity in example 1"),
            (np.array([[1 + 2j]]), r"Expected numbers in x\. Found complex128"),
        ],
    )
    def test_what_cannot_be_an_input(self, values: Any, complaint: str) -> None:
        with pytest.raises(DataError, match=complaint):
            input_tensor(values, "x")


class TestPair:
    def test_arrays_and_tensors_give_the_same(self) -> None:
        one = load((FLOATS, LABELS))
        other = load((torch.from_numpy(FLOATS), torch.from_numpy(LABELS)))
        assert one.class_names == ("0", "1", "2")
        assert (len(one.train), len(one.test)) == (17, 3)
        assert torch.equal(resident(one.train).inputs, resident(other.train).inputs)
        assert not one.is_table

    @pytest.mark.parametrize(
        ("labels", "names"),
        [
            (["b", "a"] * 10, ("a", "b")),
            ([7, -2] * 10, ("-2", "7")),
            (np.array([1.0, 2.0] * 10), ("1", "2")),
            (np.array([[1], [2]] * 10), ("1", "2")),
            ([True, False] * 10, ("False", "True")),
            (np.array(["b", "a"] * 10, dtype=object), ("a", "b")),
        ],
    )
    def test_labels(self, labels: Any, names: tuple[str, ...]) -> None:
        data = load((FLOATS, labels))
        assert data.class_names == names
        assert data.train.targets.bincount().tolist() == [8, 8]

    @pytest.mark.parametrize(
        ("labels", "complaint"),
        [
            (LABELS[:5], r"one target per example in y\. Found 5 for 20"),
            (np.zeros(20, dtype=int), r"two or more classes in y\. Found only '0'"),
            (np.zeros((20, 2, 2)), r"targets \(N,\) or \(N, T\) in y\. Found shape \(20, 2, 2\)"),
            (np.r_[np.nan, LABELS[1:]], r"label for every example of y\. Found nan in example 0"),
            (np.arange(20), r"3 or more examples of every class in y\. Found 1 of class '0'"),
            (np.array([{}] * 20), r"integers or texts as labels in y\. Found object"),
        ],
    )
    def test_labels_that_cannot_be_used(self, labels: Any, complaint: str) -> None:
        with pytest.raises(DataError, match=complaint):
            load((FLOATS, labels))

    def test_regression(self) -> None:
        values = RANDOM.normal(size=100)
        data = load((values[:, None], values))
        assert (data.kind, data.classes, data.class_names, data.target_names) == ("regression", 0, (), ("target",))
        assert (data.train.targets.dtype, data.train.targets.shape) == (torch.float32, (80, 1))
        assert torch.equal(data.train.targets, resident(data.train).inputs)

    def test_numbers_are_no_classes_by_force(self) -> None:
        values = RANDOM.normal(size=100)
        with pytest.raises(DataError, match=r"class labels in y\. Found 100 different numbers: a task for regression"):
            load((values[:, None], values), task="classification")

    def test_size(self) -> None:
        assert load((BYTES, LABELS), size=4).input_shape == (3, 4, 4)


class TestNpz:
    @pytest.mark.parametrize(
        ("inputs", "labels"),
        [("x", "y"), ("X", "y"), ("inputs", "targets"), ("data", "labels"), ("images", "labels"), ("data", "target")],
    )
    def test_names_of_the_arrays(self, tmp_path: Path, inputs: str, labels: str) -> None:
        path = saved(tmp_path, **{inputs: BYTES, labels: LABELS, "other": np.zeros(3)})
        data = load(path)
        assert (data.name, data.input_shape, data.is_bytes) == ("data.npz", (3, 6, 5), True)
        assert torch.equal(resident(data.train).inputs, resident(load((BYTES, LABELS)).train).inputs)

    @pytest.mark.parametrize("x", ["x", "X"])
    def test_split_files(self, tmp_path: Path, x: str) -> None:
        arrays = {f"{x}_train": FLOATS, "y_train": LABELS, f"{x}_test": FLOATS[:3], "y_test": LABELS[:3]}
        data = load(saved(tmp_path, **arrays))
        assert (len(data.train), len(data.test)) == (20, 3)
        assert torch.equal(resident(data.test).inputs, torch.from_numpy(FLOATS[:3]).float())

    def test_strings(self, tmp_path: Path) -> None:
        assert load(saved(tmp_path, x=FLOATS, y=np.array(["b", "a"] * 10))).class_names == ("a", "b")

    @pytest.mark.parametrize(
        ("arrays", "complaint"),
        [
            ({"x": FLOATS}, r"arrays x and y, .* in \S*data\.npz\. Found x"),
            ({"x": FLOATS, "y": LABELS[:4]}, r"target per example in array 'y' of \S*data\.npz\. Found 4 for 20"),
            ({"x": np.zeros(20), "y": LABELS}, r"array 'x' of \S*data\.npz\. Found shape \(20,\)"),
            ({"x": np.full((20, 2), np.nan), "y": LABELS}, r"array 'x' of .* Found NaN or infinity in example 0"),
            (
                {"x_train": FLOATS, "y_train": LABELS, "x_test": FLOATS, "y_test": LABELS + 1},
                r"only labels that occur in the training data in array 'y_test' of .* Found '3' in example 2",
            ),
            (
                {"x_train": FLOATS, "y_train": LABELS, "x_test": FLOATS[:, :2], "y_test": LABELS},
                r"examples of one shape in .* Found \(4,\) in 'x_train' and \(2,\) in 'x_test'",
            ),
        ],
    )
    def test_file_and_array_are_named(self, tmp_path: Path, arrays: dict[str, Any], complaint: str) -> None:
        with pytest.raises(DataError, match=complaint):
            load(saved(tmp_path, **arrays))

    def test_pickled_objects_are_refused(self, tmp_path: Path) -> None:
        path = saved(tmp_path, x=FLOATS, y=np.array([{}] * 20))
        with pytest.raises(CorruptFile, match=r"data\.npz to be a file of plain numpy arrays"):
            load(path)

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", b"\x93NUMPY\x01\x00"])
    def test_damaged_file(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "data.npz"
        path.write_bytes(content)
        with pytest.raises(CorruptFile, match=r"data\.npz"):
            load(path)

    def test_truncated_array(self, tmp_path: Path) -> None:
        path = tmp_path / "data.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", b"\x93NUMPY\x01\x00v\x00{'descr'")
            archive.writestr("y.npy", b"")
        with pytest.raises(CorruptFile, match=r"data\.npz"):
            load(path)

    def test_single_array(self, tmp_path: Path) -> None:
        path = tmp_path / "data.npz"
        with path.open("wb") as file:
            np.save(file, FLOATS)
        with pytest.raises(CorruptFile, match=r"data\.npz"):
            load(path)


class Items(TorchDataset[Any]):
    """A list as a data set."""

    def __init__(self, items: list[Any], classes: list[str] | None = None) -> None:
        self.items = items
        if classes:
            self.classes = classes

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


def pictures(count: int, mode: str = "RGB", size: tuple[int, int] = (5, 6)) -> list[Any]:
    return [(Image.fromarray(BYTES[i]).resize(size).convert(mode), int(LABELS[i])) for i in range(count)]


class TestTorchDatasets:
    def test_tensors(self) -> None:
        data = load(TensorDataset(torch.from_numpy(FLOATS), torch.from_numpy(LABELS)))
        expected = load((FLOATS, LABELS))
        assert (data.name, data.class_names) == ("TensorDataset", ("0", "1", "2"))
        assert torch.equal(resident(data.train).inputs, resident(expected.train).inputs)
        assert torch.equal(data.test.targets, expected.test.targets)

    @pytest.mark.parametrize("kind", ["pil", "array", "tensor"])
    def test_images_of_every_kind_are_the_same(self, kind: str) -> None:
        def item(index: int) -> Any:
            if kind == "pil":
                return Image.fromarray(BYTES[index])
            return BYTES[index] if kind == "array" else torch.from_numpy(BYTES[index].transpose(2, 0, 1).copy())

        data = load(Items([(item(i), LABELS[i]) for i in range(20)], ["ant", "bee", "cow"]))
        assert data.class_names == ("ant", "bee", "cow")
        assert torch.equal(resident(data.train).inputs, resident(load((BYTES, LABELS)).train).inputs)

    def test_grey_pictures_and_size(self) -> None:
        data = load(Items(pictures(20, "L", (12, 8))), size=4)
        assert (data.input_shape, data.is_bytes) == ((1, 4, 4), True)

    @pytest.mark.parametrize(
        ("items", "complaint"),
        [
            ([], "at least one example in Items"),
            ([(torch.zeros(2), 0), torch.zeros(2)], r"item 1 of Items to be a pair of input and target\. Got Tensor"),
            (
                [(torch.zeros(2), 0), (torch.zeros(2), "a")],
                r"a number, or several, as the target of item 1 of Items\. Got str",
            ),
            ([(torch.zeros(2), 0.5)], r"two or more examples to split\. Got 1"),
            ([("text", 0)], r"a tensor, an array or a PIL image in item 0 of Items\. Got str"),
            (
                [(torch.zeros(2), 0), (torch.zeros(3), 1)],
                r"like the first, torch\.float32 of shape \(2,\)\. Found torch\.float32 of shape \(3,\) in item 1",
            ),
            ([(torch.zeros(2), 0), (torch.full((2,), torch.nan), 1)], r"finite numbers in item 1 of Items"),
            (pictures(2) + pictures(3, size=(9, 9)), r"Found torch\.uint8 of shape \(3, 9, 9\) in item 2"),
            ([(torch.zeros(2), 0)] * 3, "two or more classes in Items"),
        ],
    )
    def test_item_is_named(self, items: list[Any], complaint: str) -> None:
        with pytest.raises(DataError, match=complaint):
            load(Items(items))

    def test_fractions_are_no_labels(self) -> None:
        with pytest.raises(DataError, match=r"integers as the labels of Items\. Found 0\.5 in item 1"):
            load(Items([(torch.zeros(2), value) for value in (0, 0.5, 1, 0.5)]), task="classification")

    def test_label_without_a_name(self) -> None:
        items: list[tuple[Tensor, int]] = [(torch.zeros(2), row % 3) for row in range(9)]
        with pytest.raises(DataError, match=r"labels 0 to 1 for the 2 classes of Items\. Found 2 in item 2"):
            load(Items(items, ["a", "b"]))

    def test_data_set_without_a_length(self) -> None:
        with pytest.raises(DataError, match=r"map-style data set with a length\. Got Endless"):
            load(Endless())


@pytest.mark.parametrize("source", [3, None, [1, 2], (1, 2, 3)])
def test_what_is_no_source(source: Any) -> None:
    with pytest.raises(InvalidInput, match=r"a path, a pair \(X, y\), a torch data set or a DataLoader\. Got a "):
        load(source)


@pytest.mark.parametrize("source", ["digits", (FLOATS, LABELS)])
def test_target_is_for_tables(source: Any) -> None:
    with pytest.raises(InvalidInput, match=r"Expected a table for target 'y'\. Got (digits|a tuple)"):
        load(source, target="y")


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, 2.0])
def test_share_for_testing_that_is_none(share: float) -> None:
    with pytest.raises(InvalidInput, match="fraction between 0 and 1"):
        load((FLOATS, LABELS), test_share=share)
