"""The examples of a run and the batches made of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from polyarch.data import (
    Augmentation,
    Batches,
    ColourJitter,
    Cutout,
    Dataset,
    Examples,
    Inputs,
    InputShape,
    InputType,
    NetworkExample,
    Preprocessing,
    RandomFlip,
    RandomResizedCrop,
    RandomShift,
    TensorData,
    load,
    nb201_split,
)
from polyarch.data.dataset import OF_SOURCE
from polyarch.data.network_example import EXAMPLES
from polyarch.data.splits import RandomSplit, limited
from polyarch.data.targets import TargetKind
from polyarch.data.unlabelled import unlabelled_examples
from polyarch.errors import ConfigError
from polyarch.randomness import derive_seed
from polyarch.runs.sections import DataSettings
from polyarch.runs.settings import RunSettings
from polyarch.runs.task import asked_kind, task_of
from polyarch.tasks import Task

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class Feed:
    """Training, validation and test examples, and how batches of them are made.

    The labels of ``unlabelled`` examples mean nothing; ``valid_origin`` says where validation examples come from.
    """

    data: Dataset
    train: Examples
    valid: Examples
    preprocessing: Preprocessing
    augmentations: Sequence[Augmentation]
    seed: int
    device: str
    task: Task
    unlabelled: Examples | None = None
    valid_origin: str = ""

    @classmethod
    def of(cls, settings: RunSettings, data: Dataset | None, unlabelled: Any, *, indices: bool = False) -> "Feed":
        """Loads and splits the data.

        Args:
            data: used instead of what the settings name.
            unlabelled: used instead of the unlabelled examples that the settings name; see `unlabelled_examples`.
            indices: whether the network reads the categories of a table as indices.
        """
        wanted, seed = settings.data, settings.seed
        data = data or load_data(wanted, asked_kind(settings.task))
        train, valid, origin = split(data, wanted, seed)
        found = task_of(settings.task, data, train)
        augmentations = _augmentations(wanted, data)
        feed = cls(
            data,
            train,
            valid,
            data.preprocessing(train, indices=indices, numbers=wanted.numbers),
            augmentations,
            seed,
            settings.device,
            found,
            valid_origin=origin,
        )
        if unlabelled is None:
            unlabelled = data if wanted.unlabelled == wanted.name else wanted.unlabelled
        return feed if unlabelled is None else replace(feed, unlabelled=unlabelled_examples(unlabelled, data))

    def with_settings(self, old: DataSettings, new: DataSettings) -> "Feed | None":
        """The same examples with other augmentations; None where the settings ask for other examples."""
        augmentation = ("shift", "flip", "cutout", "scale", "interpolation", "jitter")
        if new.model_copy(update={name: getattr(old, name) for name in augmentation}) != old:
            return None
        return replace(self, augmentations=_augmentations(new, self.data))

    @property
    def network_shape(self) -> Any:
        """The shape of one preprocessed example."""
        return self.preprocessing.output_shape(self.data.input_shape)

    @cached_property
    def example(self) -> NetworkExample:
        """The first training examples as networks read them; what has to try a network tries it on these."""
        rows = torch.arange(EXAMPLES) % len(self.train)
        return NetworkExample.of(next(iter(self.train.stream([rows]))), self.preprocessing)

    def raw_examples(self, count: int) -> Inputs:
        """Up to ``count`` test examples before preprocessing, (B, ...)."""
        examples: Inputs = next(iter(self.data.test.stream([torch.arange(min(count, len(self.data.test)))])))
        return examples

    def summary(self) -> dict[str, Any]:
        """The data in numbers, for the results."""
        return {
            "name": self.data.name,
            "classes": list(self.data.class_names),
            "targets": list(self.data.target_names),
            "input_shape": _plain(self.data.input_shape),
            "dtype": _plain(self.data.input_dtype),
            "train": len(self.train),
            "valid": len(self.valid),
            "test": len(self.data.test),
            "split": {"valid": self.valid_origin, "test": self.data.test_origin},
        }

    def decisions(self) -> list[str]:
        """How the examples were split, unless it is the usual way."""
        is_usual = isinstance(self.data.split, RandomSplit) and self.data.valid is None
        test = self.data.test_origin or "training examples"
        if is_usual and test in (OF_SOURCE, RandomSplit().in_words(0.2)):
            return []
        return [f"split: validation on {self.valid_origin}; test on {test}"]

    def batches(
        self, data: Examples, batch_size: int, *, stream: str, augmented: bool = True, views: int = 1
    ) -> Batches:
        """Shuffled training batches; each ``stream`` has an order of its own, for ``views`` see `Batches`."""
        return Batches(
            data,
            batch_size,
            seed=derive_seed(self.seed, "batches", stream),
            augmentations=self.augmentations if augmented else (),
            preprocessing=self.preprocessing,
            device=self.device,
            views=views,
        )

    def training_batches(self, batch_size: int) -> Batches:
        """The batches a supernet is trained on."""
        return self.batches(self.train, batch_size, stream="train")

    def held_out_batches(self, batch_size: int) -> Batches:
        """Shuffled, augmented batches of validation examples or, in two views, of unlabelled ones if there are any."""
        if self.unlabelled is None:
            return self.batches(self.valid, min(batch_size, len(self.valid)), stream="held out")
        return self.batches(self.unlabelled, min(batch_size, len(self.unlabelled)), stream="unlabelled", views=2)

    def in_order(self, data: Examples) -> Batches:
        """Batches in order, without augmentation."""
        return Batches(data, EVALUATION_BATCH, shuffle=False, preprocessing=self.preprocessing, device=self.device)

    def for_statistics(self, data: Examples) -> Batches:
        """The same for a network in training mode: no batch has a single example, which has no statistics."""
        size = next(size for size in range(EVALUATION_BATCH, 1, -1) if len(data) % size != 1 or len(data) == 1)
        return Batches(data, size, shuffle=False, preprocessing=self.preprocessing, device=self.device)


def _plain(value: InputShape | InputType) -> Any:
    """A shape or type, or those of every named input, as JSON has it."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return list(value) if isinstance(value, tuple) else str(value).removeprefix("torch.")


def load_data(settings: DataSettings, task: TargetKind | None = None) -> Dataset:
    """The data set that the settings name."""
    return load(
        settings.name,
        target=settings.target,
        size=settings.size,
        task=task,
        valid=settings.valid,
        test=settings.test,
        groups=settings.group,
        times=settings.time,
    )


def split(data: Dataset, settings: DataSettings, seed: int) -> tuple[Examples, Examples, str]:
    """Training and validation examples, and where the latter come from."""
    origin = f"{data.split.in_words(settings.validation)}, from the training examples"
    parts: tuple[Examples, Examples]
    if settings.split == "nb201":
        if data.name != "cifar10" or not isinstance(data.train, TensorData) or data.valid is not None:
            raise ConfigError(f"Expected cifar10 without other validation examples for split nb201. Got {data.name!r}.")
        parts, origin = nb201_split(data.train), "NAS-Bench-201's half of the training examples"
    elif data.valid is not None:
        parts, origin = (data.train, data.valid), data.valid_origin
    else:
        parts = data.split.divide(data.train, settings.validation, seed=seed, class_names=data.class_names)
    if settings.limit is None:
        return *parts, origin
    train, valid = (limited(part, settings.limit, seed=seed) for part in parts)
    return train, valid, origin


def _augmentations(settings: DataSettings, data: Dataset) -> list[Augmentation]:
    found: list[Augmentation] = []
    if settings.scale < 1:
        found.append(RandomResizedCrop((settings.scale, 1.0), interpolation=settings.interpolation))
    if settings.shift:
        found.append(RandomShift(settings.shift))
    if settings.flip:
        found.append(RandomFlip())
    if settings.jitter:
        found.append(ColourJitter(settings.jitter))
    if settings.cutout:
        found.append(Cutout(settings.cutout))
    if found and not data.is_image:
        raise ConfigError(f"Expected images to augment. Got examples of shape {data.input_shape}.")
    if settings.jitter and data.input_shape[0] != 3:
        raise ConfigError(f"Expected images with 3 colours for data.jitter. Got shape {data.input_shape}.")
    return found
