"""Reads folders that Hugging Face's ``datasets`` wrote with ``save_to_disk``."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyarch.data.dataset import Dataset
from polyarch.data.decoding import ImageContent
from polyarch.data.examples import Examples
from polyarch.data.image_files import RESIDENT_LIMIT, ImageFiles, default_shape, fits_in_memory
from polyarch.data.labels import ClassLabels, check_counts
from polyarch.data.split_keys import SplitKeys
from polyarch.data.splits import sides_of
from polyarch.data.table_dataset import TableSource, table_dataset, target_column
from polyarch.data.targets import TargetKind
from polyarch.errors import CorruptFile, DataError, InvalidInput, MissingExtra, closest_name, first_line


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
    test_share: float | None = 0.2,
    keys: SplitKeys | None = None,
    resident_limit: int = RESIDENT_LIMIT,
) -> Dataset:
    """Reads labelled images or table columns, with the splits train, test and validation if there are any."""
    loaded = _loaded(folder)
    datasets = import_module("datasets")
    train, test, valid = _sides(loaded, folder, test_share)
    pictures = [name for name, feature in train.features.items() if isinstance(feature, datasets.Image)]
    name = folder.resolve().name
    share = None if test else test_share
    keys = keys or SplitKeys()
    if not pictures:
        if size is not None:
            raise InvalidInput(f"Expected images for size {size}. Found a table in {folder}.")
        tables = [
            TableSource(_frame(side), f"{folder}, {label}") if side else None
            for side, label in ((test, "test"), (valid, "validation"))
        ]
        train_table = TableSource(_frame(train), f"{folder}, train")
        return table_dataset(
            name, train_table, tables[0], valid=tables[1], target=target, task=task, test_share=test_share, keys=keys
        )
    others = [column for column in train.column_names if column not in pictures]
    target = target_column([column for column in others if column not in keys.columns], target, str(folder))
    feature = train.features[target]
    present = [side for side in (train, test, valid) if side]
    labels = [np.asarray(side.with_format("numpy")[target][:]) for side in present]
    if isinstance(feature, datasets.ClassLabel):
        class_names = tuple(feature.names)
        classes = ClassLabels(tuple(range(len(class_names))))
    else:
        classes = ClassLabels.of(labels[0], f"column {target!r} of {folder}")
        class_names = classes.names
    targets = [classes.encode(side, f"column {target!r} of {folder}") for side in labels]
    check_counts(targets[0], class_names, str(folder), fewest=2 if test else 0 if share is None else 3)
    sides = [side.cast_column(pictures[0], datasets.Image(decode=False)) for side in present]
    shape = default_shape(HuggingFaceImages(sides[0], pictures[0], str(folder)), size)
    parts: list[Examples] = []
    for side, labels_of_side in zip(sides, targets, strict=True):
        contents = HuggingFaceImages(side, pictures[0], str(folder))
        images = ImageFiles(contents, torch.arange(len(contents)), labels_of_side, len(class_names), shape)
        parts.append(images.resident() if fits_in_memory(images, resident_limit) else images)
    valid_part = parts[-1] if valid else None
    if test:
        if keys.given:
            raise InvalidInput(
                f"Expected images without a test split in {folder} to split by groups or times. Found one."
            )
        return Dataset(name, parts[0], parts[1], class_names, valid=valid_part)
    split = keys.split(len(parts[0]), str(folder), lambda column: _key_values(train, column, others, folder))
    return Dataset.divided(name, parts[0], class_names, share, split, valid_part)


def read_huggingface_table(folder: Path) -> TableSource:
    """The training split as a table."""
    train, _, _ = _sides(_loaded(folder), folder, None)
    return TableSource(_frame(train), str(folder))


def _loaded(folder: Path) -> Any:
    try:
        datasets = import_module("datasets")
    except ImportError:
        raise MissingExtra("Reading a Hugging Face dataset folder", "huggingface") from None
    try:
        return datasets.load_from_disk(str(folder))
    except Exception as error:  # the reader raises all kinds of errors on damaged files
        raise CorruptFile(f"Expected a Hugging Face folder at {folder}. Found: {first_line(error)}.") from None


def _key_values(side: Any, name: str, columns: Sequence[str], folder: Path) -> Any:
    """The column that images are held out by."""
    if name not in columns:
        raise InvalidInput(f"Expected a column of {folder} to split by. Got {name!r}.{closest_name(name, columns)}")
    return side.with_format("numpy")[name][:]


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


def _sides(loaded: Any, folder: Path, test_share: float | None) -> tuple[Any, Any, Any]:
    """The training split, and the test and validation split or None."""
    if not isinstance(loaded, dict):
        return loaded, None, None
    if "train" in loaded:
        test, valid = (loaded[side] if side else None for side in sides_of(loaded, test_share))
        return loaded["train"], test, valid
    if len(loaded) == 1:
        return next(iter(loaded.values())), None, None
    raise DataError(f"Expected a split 'train' in {folder}. Found {', '.join(loaded)}.")


def _frame(side: Any) -> Any:
    """A data frame with class names in place of class indices."""
    datasets = import_module("datasets")
    frame = side.with_format(None).to_pandas()
    for name, feature in side.features.items():
        if isinstance(feature, datasets.ClassLabel):
            frame[name] = frame[name].map(dict(enumerate(feature.names)))
    return frame
