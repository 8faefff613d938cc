"""Subsets of large folders of images: some classes, and some images of each, drawn by a seed.

SubImageNet, 100 classes of ImageNet with 250 + 250 images each: Laube and Zell (2021), "Inter-choice dependent
super-network weights", arXiv:2104.11522, after Peng et al. (2020), "Cream of the Crop: Distilling Prioritized Paths For
One-Shot Neural Architecture Search", arXiv:2010.15821.
"""

import shutil
from pathlib import Path

import torch

from polyarch.data.image_folders import TRAIN_SIDE, files_by_class
from polyarch.errors import DataError, InvalidInput
from polyarch.files import rename_folder
from polyarch.randomness import generator_at


def write_subset(
    folder: Path, out: Path, *, classes: int = 100, train: int = 250, test: int = 250, seed: int = 0
) -> tuple[str, ...]:
    """Links images of some classes of ``folder/CLASS/...`` from ``out/train/CLASS`` and ``out/test/CLASS``.

    The links need no space and name their files in full, so that the folder of links can move and that of the images
    cannot. `polyarch.data.load` reads it like any folder of images. Which images of a class are drawn does not depend
    on the other classes.

    Args:
        out: a folder that does not exist yet.
        classes: how many of the classes.
        train, test: how many images of each.

    Returns:
        The names of the classes.
    """
    if min(classes, train, test) < 1:
        raise InvalidInput(f"Expected 1 or more classes, training and test images. Got {classes}, {train} and {test}.")
    if out.exists():
        raise InvalidInput(f"Expected a new folder for the subset. Found {out}.")
    found = files_by_class(folder)
    if classes > len(found):
        raise DataError(f"Expected {classes} or more folders of classes in {folder}. Found {len(found)}.")
    order = torch.randperm(len(found), generator=generator_at(seed, "classes"))[:classes].sort().values
    names = tuple(list(found)[index] for index in order.tolist())
    for name in names:
        if len(found[name]) < train + test:
            raise DataError(f"Expected {train + test} or more images in {folder / name}. Found {len(found[name])}.")
    unfinished = out.with_name(f".{out.name}.unfinished")  # a kill must not leave a folder that looks whole
    shutil.rmtree(unfinished, ignore_errors=True)
    for name in names:
        rows = torch.randperm(len(found[name]), generator=generator_at(seed, "images", name))
        for side, part in ((TRAIN_SIDE, rows[:train]), ("test", rows[train : train + test])):
            for row in part.tolist():
                image = Path(found[name][row])
                link = unfinished / side / image.relative_to(folder)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(image.resolve())
    rename_folder(unfinished, out)
    return names
