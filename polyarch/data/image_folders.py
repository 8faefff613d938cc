"""Folders of images: one subfolder per class, optionally below a training and a test folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from polyarch.data.dataset import Dataset
from polyarch.data.decoding import IMAGE_SUFFIXES, require_file
from polyarch.data.examples import Examples
from polyarch.data.image_files import RESIDENT_LIMIT, ImageFiles, ImagePaths, default_shape, fits_in_memory
from polyarch.data.labels import check_counts
from polyarch.data.splits import sides_of
from polyarch.errors import DataError, InvalidInput

TRAIN_SIDE = "train"


def read_image_folder(
    folder: Path, *, size: int | None = None, test_share: float | None = 0.2, resident_limit: int = RESIDENT_LIMIT
) -> Dataset:
    """Reads ``folder/CLASS/*.png``, or ``folder/train/CLASS/*.png``, ``folder/test/...`` and ``folder/valid/...``.

    Args:
        size: the side of the images in pixels; see `default_shape` for the default.
        test_share: the share of every class to test on if there is no test folder; None if they come later.
        resident_limit: larger data, in bytes, is decoded anew in every epoch.
    """
    if size is not None and size < 1:
        raise InvalidInput(f"Expected images of 1 pixel or more. Got size {size}.")
    sides = _subfolders(folder)
    test_side, valid_side = sides_of(sides, test_share) if TRAIN_SIDE in sides else (None, None)
    is_sided = TRAIN_SIDE in sides and (test_side or valid_side or len(sides) == 1)
    train_files = files_by_class(sides[TRAIN_SIDE] if is_sided else folder)
    test_files, valid_files = (files_by_class(sides[side]) if side else {} for side in (test_side, valid_side))
    for side, files in ((test_side, test_files), (valid_side, valid_files)):
        if side:
            _check_same_classes(train_files, files, sides[TRAIN_SIDE], sides[side])
    class_names = tuple(train_files)
    parts = (train_files, test_files, valid_files)
    paths = ImagePaths(tuple(path for side in parts for files in side.values() for path in files))
    shape = default_shape(paths, size)
    targets = [_targets(files) for files in parts]
    images = ImageFiles(paths, torch.arange(len(paths)), torch.cat(targets), len(class_names), shape)
    fewest = 2 if test_files else 0 if test_share is None else 3
    check_counts(targets[0], class_names, str(folder), fewest=fewest)
    data: Examples = images.resident() if fits_in_memory(images, resident_limit) else images
    rows = torch.arange(len(paths)).split([len(part) for part in targets])
    name, train = folder.resolve().name, data.subset(rows[0])
    valid = data.subset(rows[2]) if valid_files else None
    if test_files:
        return Dataset(name, train, data.subset(rows[1]), class_names, valid=valid)
    return Dataset.divided(name, train, class_names, test_share, valid=valid)


def _targets(files: dict[str, list[str]]) -> torch.Tensor:
    """(N,) the class index of every file, class by class."""
    counts = torch.tensor([len(paths) for paths in files.values()], dtype=torch.int64)
    return torch.arange(len(counts)).repeat_interleave(counts)


def _subfolders(folder: Path) -> dict[str, Path]:
    """The subfolders that are not hidden, sorted by name."""
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    for path in found:
        require_text(path)
    return {path.name: path for path in found}


def require_text(path: Path) -> None:
    """Refuses names that are not UTF-8: they are the names of classes, which files and pages have to hold."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise DataError(f"Expected a name in UTF-8. Found {os.fsencode(path)!r}; rename it.") from None


def files_by_class(folder: Path) -> dict[str, list[str]]:
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
    for path in _visible_files(folder):
        if Path(path).suffix.lower() in IMAGE_SUFFIXES:
            require_file(Path(path))
            yield path


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
