"""Folders of images: a folder per class, with or without a training and a test side."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from polyarch.data.dataset import Dataset
from polyarch.data.decoding import IMAGE_SUFFIXES
from polyarch.data.image_files import RESIDENT_LIMIT, ImageFiles, ImagePaths, default_shape, fits_in_memory
from polyarch.data.labels import check_counts
from polyarch.data.splits import stratified_split
from polyarch.data.tensors import Examples
from polyarch.errors import DataError, InvalidInput

TRAIN_SIDE = "train"
TEST_SIDES = ("test", "val", "valid", "validation")


def read_image_folder(
    folder: Path, *, size: int | None = None, test_share: float = 0.2, resident_limit: int = RESIDENT_LIMIT
) -> Dataset:
    """``folder/CLASS/*.png``, or ``folder/train/CLASS/*.png`` and ``folder/test/CLASS/*.png``.

    Args:
        size: of the images, in pixels; by default that of square images of one size, else the median of the shorter
            sides, at most 64.
        test_share: of every class, where the folder has no test side.
        resident_limit: more bytes than these are decoded in every epoch anew.
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
    paths = ImagePaths(tuple(path for files in (train_files, test_files) for of in files.values() for path in of))
    shape = default_shape(paths, size)
    labels = [len(of) for of in train_files.values()], [len(test_files[name]) for name in test_files]
    targets = [
        torch.arange(len(counts)).repeat_interleave(torch.tensor(counts, dtype=torch.int64)) for counts in labels
    ]
    images = ImageFiles(paths, torch.arange(len(paths)), torch.cat(targets), len(class_names), shape)
    check_counts(targets[0], class_names, str(folder), fewest=2 if test_files else 3)
    data: Examples = images.resident() if fits_in_memory(images, resident_limit) else images
    if test_files:
        rows = torch.arange(len(paths)).split([len(side) for side in targets])
        train, test = data.subset(rows[0]), data.subset(rows[1])
    else:
        train, test = stratified_split(data, test_share, seed=0)
    return Dataset(folder.resolve().name, train, test, class_names, notes=notes)


def _subfolders(folder: Path) -> dict[str, Path]:
    """Those that are not hidden, sorted by name."""
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return {path.name: path for path in found}


def _files_by_class(folder: Path) -> dict[str, list[str]]:
    """The sorted paths of the images of each class."""
    classes = _subfolders(folder)
    if not classes:
        images = next(image_files(folder), None)
        found = f"the image {images}" if images else "no folder"
        raise DataError(f"Expected a folder of images for every class in {folder}. Found {found}.")
    return {name: _class_files(path) for name, path in classes.items()}


def _class_files(folder: Path) -> list[str]:
    files = sorted(image_files(folder))
    if files:
        return files
    other = next(_visible_files(folder), None)
    found = f"{other}, which has no suffix of an image" if other else "an empty folder"
    raise DataError(f"Expected images in {folder}. Found {found}.")


def image_files(folder: Path) -> Iterator[str]:
    """The paths of all images below a folder, by their suffixes, without hidden ones."""
    return (path for path in _visible_files(folder) if Path(path).suffix.lower() in IMAGE_SUFFIXES)


def _visible_files(folder: Path) -> Iterator[str]:
    """All files below a folder, without hidden ones."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (str(Path(parent, name)) for name in sorted(files) if not name.startswith("."))


def _check_same_classes(
    train: dict[str, list[str]], test: dict[str, list[str]], train_folder: Path, test_folder: Path
) -> None:
    for one, other, folder in ((train, test, train_folder), (test, train, test_folder)):
        for name in one:
            if name not in other:
                raise DataError(
                    f"Expected the same classes in {train_folder} and {test_folder}. "
                    f"Found class {name!r} only in {folder}."
                )
