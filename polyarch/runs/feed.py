"""The examples of a run and the batches made of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from polyarch.data import (
    Augmentation,
    Batches,
    Cutout,
    Dataset,
    Examples,
    Inputs,
    InputShape,
    InputType,
    NetworkExample,
    Preprocessing,
    RandomFlip,
    RandomShift,
    TensorData,
    load,
    nb201_split,
    stratified_split,
)
from polyarch.data.network_example import EXAMPLES
from polyarch.data.unlabelled import unlabelled_examples
from polyarch.errors import ConfigError
from polyarch.randomness import derive_seed
from polyarch.runs.sections import DataSettings

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class Feed:
    """Training, validation and test examples, and how batches of them are made.

    The labels of ``unlabelled`` examples mean nothing.
    """

    data: Dataset
    train: Examples
    valid: Examples
    preprocessing: Preprocessing
    augmentations: Sequence[Augmentation]
    seed: int
    device: str
    unlabelled: Examples | None = None

    @classmethod
    def of(
        cls,
        settings: DataSettings,
        seed: int,
        device: str,
        data: Dataset | None,
        unlabelled: Any,
        *,
        indices: bool = False,
    ) -> "Feed":
        """Loads and splits the data.

        Args:
            data: used instead of what the settings name.
            unlabelled: used instead of the unlabelled examples that the settings name; see `unlabelled_examples`.
            indices: whether the network reads the categories of a table as indices.
        """
        data = data or load_data(settings)
        train, valid = split(data, settings, seed)
        augmentations = _augmentations(settings, data)
        feed = cls(data, train, valid, data.preprocessing(train, indices=indices), augmentations, seed, device)
        if unlabelled is None:
            unlabelled = data if settings.unlabelled == settings.name else settings.unlabelled
        return feed if unlabelled is None else replace(feed, unlabelled=unlabelled_examples(unlabelled, data))

    def with_settings(self, old: DataSettings, new: DataSettings) -> "Feed | None":
        """The same examples with other augmentations; None where the settings ask for other examples."""
        augmentation = ("shift", "flip", "cutout")
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
            "input_shape": _plain(self.data.input_shape),
            "dtype": _plain(self.data.input_dtype),
            "train": len(self.train),
            "valid": len(self.valid),
            "test": len(self.data.test),
        }

    def batches(self, data: Examples, batch_size: int, *, stream: str, augmented: bool = True) -> Batches:
        """Shuffled training batches; each ``stream`` has an order of its own."""
        return Batches(
            data,
            batch_size,
            seed=derive_seed(self.seed, "batches", stream),
            augmentations=self.augmentations if augmented else (),
            preprocessing=self.preprocessing,
            device=self.device,
        )

    def training_batches(self, batch_size: int) -> Batches:
        """The batches a supernet is trained on."""
        return self.batches(self.train, batch_size, stream="train")

    def held_out_batches(self, batch_size: int) -> Batches:
        """Shuffled, augmented batches of unlabelled examples where there are any, otherwise of validation examples."""
        data, stream = (self.valid, "held out") if self.unlabelled is None else (self.unlabelled, "unlabelled")
        return self.batches(data, min(batch_size, len(data)), stream=stream)

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


def load_data(settings: DataSettings) -> Dataset:
    """The data set that the settings name."""
    return load(settings.name, target=settings.target, size=settings.size)


def split(data: Dataset, settings: DataSettings, seed: int) -> tuple[Examples, Examples]:
    """Training and validation examples."""
    if settings.split == "nb201":
        if data.name != "cifar10" or not isinstance(data.train, TensorData):
            raise ConfigError(f"Expected cifar10 for split nb201. Got {data.name!r}.")
        parts: tuple[Examples, Examples] = nb201_split(data.train)
    else:
        parts = stratified_split(data.train, settings.validation, seed=seed)
    if settings.limit is None:
        return parts
    train, valid = (_limited(part, settings.limit, seed) for part in parts)
    return train, valid


def _limited(data: Examples, limit: int, seed: int) -> Examples:
    return stratified_split(data, limit / len(data), seed=seed)[1] if limit < len(data) else data


def _augmentations(settings: DataSettings, data: Dataset) -> list[Augmentation]:
    found: list[Augmentation] = []
    if settings.shift:
        found.append(RandomShift(settings.shift))
    if settings.flip:
        found.append(RandomFlip())
    if settings.cutout:
        found.append(Cutout(settings.cutout))
    if found and not data.is_image:
        raise ConfigError(f"Expected images to augment. Got examples of shape {data.input_shape}.")
    return found
