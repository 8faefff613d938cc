from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from polyarch.data import Dataset, ImageFiles, Normalisation, TensorData, load, resident
from polyarch.data.image_folders import read_image_folder
from polyarch.errors import CorruptFile, DataError, InvalidInput
from polyarch.randomness import generator_at


def write_images(
    folder: Path, count: int, *, size: tuple[int, int] = (9, 9), mode: str = "RGB", kind: str = "png"
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        pixels = torch.randint(256, (size[1], size[0], 3), generator=generator_at(number, str(folder)))
        Image.fromarray(pixels.to(torch.uint8).numpy()).convert(mode).save(folder / f"{number:03}.{kind}")


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    for name, count in (("dog", 8), ("cat", 5), ("ape", 4)):
        write_images(tmp_path / "pets" / name, count)
    return tmp_path / "pets"


@pytest.fixture
def sided(tmp_path: Path) -> Path:
    for side, count in (("train", 4), ("test", 2)):
        for name in ("cat", "dog"):
            write_images(tmp_path / "pets" / side / name, count)
    return tmp_path / "pets"


class TestLayouts:
    def test_folder_per_class(self, flat: Path) -> None:
        data = load(flat)
        assert (data.name, data.class_names) == ("pets", ("ape", "cat", "dog"))
        assert data.train.targets.bincount().tolist() == [3, 4, 6]
        assert data.test.targets.bincount().tolist() == [1, 1, 2]
        assert (data.input_shape, data.is_bytes, data.is_image) == ((3, 9, 9), True, True)
        assert isinstance(data.train, TensorData)

    def test_images_stay_with_their_labels(self, flat: Path) -> None:
        found = load(flat)
        images = {tuple(image.flatten().tolist()): int(label) for part in (found.train, found.test)
                  for image, label in zip(resident(part).inputs, part.targets, strict=True)}  # fmt: skip
        assert len(images) == 17
        for label, name in enumerate(found.class_names):
            for path in (flat / name).iterdir():
                with Image.open(path) as image:
                    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(9, 9, 3)
                assert images[tuple(pixels.permute(2, 0, 1).flatten().tolist())] == label

    def test_share_for_testing(self, flat: Path) -> None:
        assert load(flat, test_share=0.5).test.targets.bincount().tolist() == [2, 2, 4]

    @pytest.mark.parametrize("side", ["test", "val", "valid", "validation"])
    def test_two_sides(self, sided: Path, side: str) -> None:
        (sided / "test").rename(sided / side)
        data = load(str(sided))
        assert data.train.targets.tolist() == [0] * 4 + [1] * 4
        assert data.test.targets.tolist() == [0] * 2 + [1] * 2

    def test_third_side_is_for_validation(self, sided: Path) -> None:
        write_images(sided / "val" / "cat", 1)
        write_images(sided / "val" / "dog", 2)
        data = load(sided, size=4)
        assert data.valid is not None and data.valid.input_shape == (3, 4, 4)
        assert data.valid.targets.tolist() == [0, 1, 1]
        assert (len(data.train), len(data.test), data.test_origin) == (8, 4, "those of the source")

    def test_training_side_alone(self, sided: Path) -> None:
        for path in sorted((sided / "test").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (sided / "test").rmdir()
        assert load(sided).class_names == ("cat", "dog")

    def test_hidden_and_foreign_files_beside_images(self, flat: Path) -> None:
        expected = resident(load(flat).train).inputs
        (flat / ".cache").mkdir()
        (flat / "cat" / ".DS_Store").write_bytes(b"x")
        (flat / "cat" / ".hidden.png").write_bytes(b"x")
        (flat / "cat" / "notes.txt").write_text("x")
        (flat / "README.md").write_text("x")
        assert torch.equal(resident(load(flat).train).inputs, expected)

    def test_nested_and_capital_suffixes(self, flat: Path) -> None:
        (flat / "cat" / "more").mkdir()
        (flat / "cat" / "000.png").rename(flat / "cat" / "more" / "000.PNG")
        data = load(flat)
        assert len(data.train) + len(data.test) == 17


class TestSizeAndChannels:
    def shape(
        self, folder: Path, *sizes: tuple[int, int], mode: str = "RGB", size: int | None = None
    ) -> tuple[int, ...]:
        for number, extent in enumerate(sizes):
            for name in ("a", "b"):
                write_images(folder / name / str(number), 3, size=extent, mode=mode)
        shape: tuple[int, ...] = load(folder, size=size).input_shape
        return shape

    def test_squares_of_one_size_keep_it(self, tmp_path: Path) -> None:
        assert self.shape(tmp_path, (70, 70)) == (3, 70, 70)

    def test_otherwise_the_median_of_the_shorter_sides(self, tmp_path: Path) -> None:
        assert self.shape(tmp_path, (20, 10), (15, 30), (50, 40)) == (3, 15, 15)

    def test_at_most_64(self, tmp_path: Path) -> None:
        assert self.shape(tmp_path, (90, 100)) == (3, 64, 64)

    def test_as_asked(self, tmp_path: Path) -> None:
        assert self.shape(tmp_path, (9, 9), size=5) == (3, 5, 5)

    @pytest.mark.parametrize("mode", ["L", "1", "LA"])
    def test_grey(self, tmp_path: Path, mode: str) -> None:
        assert self.shape(tmp_path, (6, 6), mode=mode) == (1, 6, 6)

    def test_one_colour_image_makes_all_colour(self, tmp_path: Path) -> None:
        self.shape(tmp_path, (6, 6), mode="L")
        write_images(tmp_path / "a", 1, size=(6, 6))
        assert load(tmp_path).input_shape == (3, 6, 6)

    @pytest.mark.parametrize("size", [0, -3])
    def test_no_pixels(self, flat: Path, size: int) -> None:
        with pytest.raises(InvalidInput, match=f"1 pixel or more. Got size {size}"):
            load(flat, size=size)


class TestTooLargeForMemory:
    def both(self, folder: Path) -> tuple[Dataset, Dataset]:
        return read_image_folder(folder, resident_limit=1000), read_image_folder(folder)

    @pytest.mark.parametrize("layout", ["flat", "sided"])
    def test_same_examples_as_in_memory(self, layout: str, request: pytest.FixtureRequest) -> None:
        streamed, whole = self.both(request.getfixturevalue(layout))
        assert isinstance(streamed.train, ImageFiles) and isinstance(streamed.test, ImageFiles)
        assert streamed.class_names == whole.class_names
        assert (streamed.input_shape, streamed.is_bytes) == (whole.input_shape, whole.is_bytes)
        for one, other in ((streamed.train, whole.train), (streamed.test, whole.test)):
            assert torch.equal(one.targets, other.targets)
            assert torch.equal(resident(one).inputs, resident(other).inputs)

    def test_preprocessing_and_size(self, flat: Path) -> None:
        streamed, whole = self.both(flat)
        assert streamed.preprocessing(streamed.train) == Normalisation.of(whole.train)
        assert streamed.resized(3).input_shape == (3, 3, 3)


def emptied(folder: Path) -> Path:
    for path in folder.iterdir():
        path.unlink()
    return folder


def removed(folder: Path) -> Path:
    emptied(folder).rmdir()
    return folder


class TestComplaints:
    @pytest.mark.parametrize(
        ("damage", "complaint"),
        [
            (lambda f: emptied(f / "cat"), r"Expected images in \S*cat\. Found an empty folder"),
            (
                lambda f: (emptied(f / "cat") / "a.txt").write_text("x"),
                r"images in \S*cat\. Found \S*cat/a\.txt, which does not have the suffix of an image",
            ),
            (
                lambda f: [removed(f / name) for name in ("cat", "ape")],
                r"two or more classes in \S*pets\. Found only 'dog'",
            ),
            (
                lambda f: [(f / "cat" / f"{n:03}.png").unlink() for n in range(3)],
                r"3 or more examples of every class in \S*pets\. Found 2 of class 'cat'",
            ),
            (
                lambda f: [removed(f / name) for name in ("cat", "ape", "dog")],
                r"folder of images for every class in \S*pets\. Found no folder",
            ),
        ],
    )
    def test_what_is_wrong_is_named(self, flat: Path, damage: Callable[[Path], object], complaint: str) -> None:
        damage(flat)
        with pytest.raises(DataError, match=complaint):
            load(flat)

    def test_images_without_classes(self, flat: Path) -> None:
        with pytest.raises(DataError, match=r"for every class in \S*cat\. Found the image \S*000\.png"):
            load(flat / "cat")

    @pytest.mark.parametrize(("side", "name"), [("train", "emu"), ("test", "yak")])
    def test_class_on_one_side_only(self, sided: Path, side: str, name: str) -> None:
        write_images(sided / side / name, 3)
        with pytest.raises(DataError, match=rf"Found class '{name}' only in \S*{side}\."):
            load(sided)

    def test_unreadable_image(self, flat: Path) -> None:
        path = flat / "dog" / "004.png"
        path.write_bytes(path.read_bytes()[:70])
        with pytest.raises(CorruptFile, match=r"dog/004\.png to be a readable image"):
            load(flat)


def test_class_folders_that_are_not_utf8_are_refused_before_anything_is_decoded(flat: Path) -> None:
    (flat / "cat").rename(flat / os.fsdecode(b"caf\xe9"))
    with pytest.raises(DataError, match=r"Expected a name in UTF-8\. Found b'.*caf\\xe9'"):
        read_image_folder(flat)
