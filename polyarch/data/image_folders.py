"""Folders of images: one subfolder per class, optionally below a training and a test folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from polyarch.data.dataset import Dataset
from polyarch.data.decoding import IMAGE_SUFFIXES
from polyarch.data.examples import Examples, stratified_split
from polyarch.data.image_files import RESIDENT_LIMIT, ImageFiles, ImagePaths, default_shape, fits_in_memory
from polyarch.data.labels import check_counts
from polyarch.errors import DataError, InvalidInput

TRAIN_SIDE = "train"
TEST_SIDES = ("test", "val", "valid", "validation")


def read_image_folder(
    folder: Path, *, size: int | None = None, test_share: float = 0.2, resident_limit: int = RESIDENT_LIMIT
) -> Dataset:
    """Reads ``folder/CLASS/*.png``, or ``folder/train/CLASS/*.png`` and ``folder/test/CLASS/*.png``.

    Args:
        size: the side of the images in pixels; see `default_shape` for the default.
        test_share: the share of every class to test on if there is no test folder.
        resident_limit: larger data, in bytes, is decoded anew in every epoch.
    """
    if size is not None and size < 1:
        raise InvalidInput(f"Expected images of 1 pixel or more. Got size {size}.")
    sides = _subfolders(folder)
    notes: tuple[str, ...] = ()
    test_names = [name for name in TEST_SIDES if name in sides]
    if TRAIN_SIDE in sides and test_names:
        train_files, test_files = _files_by_class(sides[TRAIN_SIDE]), _files_by_class(sides[test_names[0]])
        _check_same_classes(train_files, test_files, sides[TRAIN_SIDE], sides[test_names[0]])
        notes = tuple(f"{folder / name} is not used: validation examples come from train." for name in test_names[1:])
    else:
        only = sides[TRAIN_SIDE] if set(sides) == {TRAIN_SIDE} else folder
        train_files, test_files = _files_by_class(only), {}
    class_names = tuple(train_files)
    paths = ImagePaths(tuple(path for side in (train_files, test_files) for files in side.values() for path in files))
    shape = default_shape(paths, size)
    train_targets, test_targets = _targets(train_files), _targets(test_files)
    targets = torch.cat([train_targets, test_targets])
    images = ImageFiles(paths, torch.arange(len(paths)), targets, len(class_names), shape)
    check_counts(train_targets, class_names, str(folder), fewest=2 if test_files else 3)
    data: Examples = images.resident() if fits_in_memory(images, resident_limit) else images
    if test_files:
        rows = torch.arange(len(paths)).split([len(train_targets), len(test_targets)])
        train, test = data.subset(rows[0]), data.subset(rows[1])
    else:
        train, test = stratified_split(data, test_share, seed=0)
    return Dataset(folder.resolve().name, train, test, class_names, notes=notes)


def _targets(files: dict[str, list[str]]) -> torch.Tensor:
    """(N,) the class index of every file, class by class."""
    counts = torch.tensor([len(paths) for paths in files.values()], dtype=torch.int64)
    return torch.arange(len(counts)).repeat_interleave(counts)


def _subfolders(folder: Path) -> dict[str, Path]:
    """The subfolders that are not hidden, sorted by name."""
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return {path.name: path for path in found}


def _files_by_class(folder: Path) -> dict[str, list[str]]:
    """The sorted image paths of each class."""
    classes = _subfolders(folder)
    if not classes:
        image = next(image_files(folder), None)
        found = f"the image {image}" if image else "no folder"
        raise DataError(f"Expected a folder of images for every class in {folder}. Found {found}.")
    return {name: _class_files(path) for name, path in classes.items()}


def _class_files(folder: Path) -> list[str]:
    files = sorted(image_files(folder))
    if files:
        return files
    other = next(_visible_files(folder), None)
    found = f"{other}, which does not have the suffix of an image" if other else "an empty folder"
    raise DataError(f"Expected images in {folder}. Found {found}.")


def image_files(folder: Path) -> Iterator[str]:
    """The paths of all images below a folder, recognised by their suffixes, without hidden ones."""
    return (path for path in _visible_files(folder) if Path(path).suffix.lower() in IMAGE_SUFFIXES)


def _visible_files(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (str(Path(parent, name)) for name in sorted(files) if not name.startswith("."))


def _check_same_classes(
    train: dict[str, list[str]], test: dict[str, list[str]], train_folder: Path, test_folder: Path
) -> None:
    for name in (*train, *test):
        if name not in train or name not in test:
            raise DataError(
                f"Expected the same classes in {train_folder} and {test_folder}. "
                f"Found class {name!r} only in {train_folder if name in train else test_folder}."
            )
