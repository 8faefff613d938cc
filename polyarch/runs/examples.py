"""The data of a run and how they are divided."""

from __future__ import annotations

from polyarch.data import Dataset, Examples, TensorData, load, nb201_split, stratified_split
from polyarch.errors import ConfigError
from polyarch.runs.settings import DataSettings, RunSettings


def load_data(settings: DataSettings) -> Dataset:
    """The data set that the settings name."""
    return load(settings.name, target=settings.target, size=settings.size)


def split(data: Dataset, settings: RunSettings) -> tuple[Examples, Examples]:
    """Training and validation examples."""
    asked = settings.data
    if asked.split == "nb201":
        if data.name != "cifar10" or not isinstance(data.train, TensorData):
            raise ConfigError(f"Expected cifar10 for split nb201. Got {data.name!r}.")
        parts: tuple[Examples, Examples] = nb201_split(data.train)
    else:
        parts = stratified_split(data.train, asked.validation, seed=settings.seed)
    if asked.limit is None:
        return parts
    train, valid = (_limited(part, asked.limit, settings.seed) for part in parts)
    return train, valid


def _limited(data: Examples, limit: int, seed: int) -> Examples:
    return stratified_split(data, limit / len(data), seed=seed)[1] if limit < len(data) else data
