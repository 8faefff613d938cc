"""Reads folders that Hugging Face's ``datasets`` wrote with ``save_to_disk``."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyarch.data.dataset import Dataset
from polyarch.data.decoding import ImageContent
from polyarch.data.examples import Examples, stratified_split
from polyarch.data.image_files import RESIDENT_LIMIT, ImageFiles, default_shape, fits_in_memory
from polyarch.data.labels import ClassLabels, check_counts
from polyarch.data.table_dataset import TableSource, table_dataset, target_column
from polyarch.data.targets import TargetKind
from polyarch.errors import CorruptFile, DataError, InvalidInput, MissingExtra, first_line

TEST_SIDES = ("test", "validation", "valid", "val")


def is_huggingface_folder(folder: Path) -> bool:
    """Whether ``save_to_disk`` wrote this folder."""
    return (folder / "dataset_dict.json").is_file() or (
        (folder / "dataset_info.json").is_file() and (folder / "state.json").is_file()
    )


def read_huggingface_folder(
    folder: Path,
    *,
    target: str | None = None,
    task: TargetKind | None = None,
    size: int | None = None,
    test_share: float = 0.2,
    resident_limit: int = RESIDENT_LIMIT,
) -> Dataset:
    """Reads labelled images or table columns, with the splits train and test (or validation) if there are any."""
    try:
        datasets = import_module("datasets")
    except ImportError:
        raise MissingExtra("Reading a Hugging Face dataset folder", "huggingface") from None
    try:
        loaded = datasets.load_from_disk(str(folder))
    except Exception as error:  # the reader raises all kinds of errors on damaged files
        raise CorruptFile(f"Expected a Hugging Face folder at {folder}. Found: {first_line(error)}.") from None
    train, test = _sides(loaded, folder)
    pictures = [name for name, feature in train.features.items() if isinstance(feature, datasets.Image)]
    name = folder.resolve().name
    if not pictures:
        if size is not None:
            raise InvalidInput(f"Expected images for size {size}. Found a table in {folder}.")
        tables = [
            TableSource(_frame(side), f"{folder}, {label}")
            for side, label in ((train, "train"), (test, "test"))
            if side
        ]
        return table_dataset(name, *tables, target=target, task=task, test_share=test_share)
    target = target_column([column for column in train.column_names if column not in pictures], target, str(folder))
    feature = train.features[target]
    labels = [np.asarray(side.with_format("numpy")[target][:]) for side in (train, test) if side]
    if isinstance(feature, datasets.ClassLabel):
        class_names = tuple(feature.names)
        classes = ClassLabels(tuple(range(len(class_names))))
    else:
        classes = ClassLabels.of(labels[0], f"column {target!r} of {folder}")
        class_names = classes.names
    targets = [classes.encode(side, f"column {target!r} of {folder}") for side in labels]
    check_counts(targets[0], class_names, str(folder), fewest=2 if test else 3)
    sides = [side.cast_column(pictures[0], datasets.Image(decode=False)) for side in (train, test) if side]
    shape = default_shape(HuggingFaceImages(sides[0], pictures[0], str(folder)), size)
    parts: list[Examples] = []
    for side, labels_of_side in zip(sides, targets, strict=True):
        contents = HuggingFaceImages(side, pictures[0], str(folder))
        images = ImageFiles(contents, torch.arange(len(contents)), labels_of_side, len(class_names), shape)
        parts.append(images.resident() if fits_in_memory(images, resident_limit) else images)
    train_part, test_part = parts if test else stratified_split(parts[0], test_share, seed=0)
    return Dataset(name, train_part, test_part, class_names)


@dataclass(frozen=True)
class HuggingFaceImages:
    """The encoded images of a column, read from disk on demand."""

    dataset: Any
    column: str
    origin: str

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int, /) -> ImageContent:
        content = self.dataset[index][self.column]
        if not content or not (content.get("bytes") or content.get("path")):
            raise DataError(f"Expected an image in {self.name(index)}. Found none.")
        encoded: ImageContent = content["bytes"] or Path(content["path"])
        return encoded

    def name(self, index: int, /) -> str:
        """How error messages refer to the image: by its row, counted from 1."""
        return f"row {index + 1} of {self.origin}"


def _sides(loaded: Any, folder: Path) -> tuple[Any, Any]:
    """The training split, and the test split or None."""
    if not isinstance(loaded, dict):
        return loaded, None
    tests = [loaded[name] for name in TEST_SIDES if name in loaded]
    if "train" in loaded:
        return loaded["train"], tests[0] if tests else None
    if len(loaded) == 1:
        return next(iter(loaded.values())), None
    raise DataError(f"Expected a split 'train' in {folder}. Found {', '.join(loaded)}.")


def _frame(side: Any) -> Any:
    """A data frame with class names in place of class indices."""
    datasets = import_module("datasets")
    frame = side.with_format(None).to_pandas()
    for name, feature in side.features.items():
        if isinstance(feature, datasets.ClassLabel):
            frame[name] = frame[name].map(dict(enumerate(feature.names)))
    return frame
