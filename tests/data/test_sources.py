from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from polyarch.data import DATASETS, Dataset, load, resident
from polyarch.data import data_root as default_data_root
from polyarch.data.resizing import resize
from polyarch.errors import DataError, MissingData, UnknownName
from polyarch.randomness import generator_at


@cache
def loaded(name: str, root: Path) -> Dataset:
    return load(name, root=root)


def random_bytes(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=generator_at(0, "pixels"), dtype=torch.uint8)


class TestEmbedded:
    @pytest.mark.parametrize(
        ("name", "train", "test", "shape", "classes"),
        [("digits", 1438, 359, (1, 8, 8), 10), ("spirals", 200, 1800, (2,), 2)],
    )
    def test_sizes_and_shapes(self, name: str, train: int, test: int, shape: tuple[int, ...], classes: int) -> None:
        dataset = load(name)
        assert (dataset.name, len(dataset.train), len(dataset.test)) == (name, train, test)
        assert (dataset.input_shape, dataset.classes) == (shape, classes)
        assert dataset.is_image == (len(shape) == 3)
        assert resident(dataset.train).inputs.dtype == torch.float32

    @pytest.mark.parametrize("name", ["digits", "spirals"])
    def test_every_load_gives_the_same_bits(self, name: str) -> None:
        first, second = load(name), load(name)
        for part in ("train", "test"):
            one, other = getattr(first, part), getattr(second, part)
            assert torch.equal(one.inputs, other.inputs)
            assert torch.equal(one.targets, other.targets)

    def test_training_and_test_examples_differ(self) -> None:
        spirals = load("spirals")
        assert not torch.equal(resident(spirals.train).inputs, resident(spirals.test).inputs[: len(spirals.train)])

    def test_digits_are_scaled_to_one_and_all_classes_are_on_both_sides(self) -> None:
        digits = load("digits")
        assert torch.stack(resident(digits.train).inputs.aminmax()).tolist() == [0, 1]
        for part in (digits.train, digits.test):
            assert part.targets.unique().tolist() == list(range(10))


class TestResized:
    def test_every_pixel_is_the_mean_of_its_area(self) -> None:
        images = random_bytes(5, 3, 8, 8)
        means = images.double().view(5, 3, 4, 2, 4, 2).mean((3, 5))
        assert torch.equal(resize(images, 4), means.round().to(torch.uint8))
        torch.testing.assert_close(resize(images.double(), 4), means.float(), check_dtype=False)

    def test_whole_data_set(self) -> None:
        digits = load("digits").resized(4)
        assert digits.input_shape == (1, 4, 4)
        assert (len(digits.train), len(digits.test)) == (1438, 359)
        assert torch.equal(digits.test.targets, load("digits").test.targets)

    def test_only_images_have_a_size(self) -> None:
        with pytest.raises(DataError, match=r"images to resize. Got examples of shape \(2,\)"):
            load("spirals").resized(4)


class TestNames:
    def test_unknown_name_gets_a_hint(self) -> None:
        with pytest.raises(UnknownName, match=r"cifar10.*Got 'cifar_10'\. Did you mean 'cifar10'\?"):
            load("cifar_10")

    @pytest.mark.parametrize("source", ["nowhere/pets", "pets.csv", Path("pets"), Path("digits")])
    def test_path_that_does_not_exist(self, source: str | Path) -> None:
        with pytest.raises(
            MissingData, match=rf"file or folder at {source}, or a data set out of digits, .*imagenet16_120\."
        ):
            load(source)

    def test_word_that_is_neither_name_nor_path(self) -> None:
        with pytest.raises(
            UnknownName, match=r"imagenet16_120, or the path of a file or folder that exists\. Got 'pets'"
        ):
            load("pets")

    def test_file_of_another_kind(self, tmp_path: Path) -> None:
        (tmp_path / "pets.xlsx").write_text("x")
        with pytest.raises(DataError, match=r"ends in \.csv, \.csv\.gz, \.parquet or \.npz\. Got \S*pets\.xlsx"):
            load(tmp_path / "pets.xlsx")

    def test_names_come_before_folders(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "digits").mkdir()
        monkeypatch.chdir(tmp_path)
        assert load("digits").classes == 10

    def test_size_of_a_named_set(self) -> None:
        assert load("digits", size=4).input_shape == (1, 4, 4)
        assert load("digits", size=8).input_shape == (1, 8, 8)

    def test_every_name_has_a_line(self) -> None:
        assert list(DATASETS) == [
            "digits",
            "spirals",
            "mnist",
            "fashion_mnist",
            "kmnist",
            "cifar10",
            "cifar100",
            "svhn",
            "imagenet16_120",
        ]
        assert all(source.what for source in DATASETS.values())

    def test_missing_files_are_named_with_the_way_out(self, tmp_path: Path) -> None:
        with pytest.raises(MissingData, match=r"train-images-idx3-ubyte.*POLYARCH_DATA") as caught:
            load("mnist", root=tmp_path)
        assert str(tmp_path / "mnist") in str(caught.value)

    def test_data_folder_comes_from_the_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("POLYARCH_DATA", str(tmp_path / "named"))
        assert default_data_root() == tmp_path / "named"
        monkeypatch.delenv("POLYARCH_DATA")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        assert default_data_root() == tmp_path / "cache" / "polyarch"


class TestRealFiles:
    @pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
    def test_idx_sets(self, data_root: Path, name: str) -> None:
        dataset = loaded(name, data_root)
        assert resident(dataset.train).inputs.shape == (60000, 1, 28, 28)
        assert resident(dataset.test).inputs.shape == (10000, 1, 28, 28)
        assert resident(dataset.train).inputs.dtype == torch.uint8
        assert dataset.test.targets.bincount().tolist() == (
            [1000] * 10 if name == "fashion_mnist" else [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        )


def test_import_stays_light() -> None:
    """What only some sources need is imported when they are read."""
    code = (
        "import sys, polyarch.data; print({'pandas', 'scipy.io', 'datasets', 'sklearn', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
