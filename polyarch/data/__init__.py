"""Data: sources by name, splits, resident tensors and batch augmentation."""

from polyarch.data.augmentations import Cutout, RandomFlip, RandomShift
from polyarch.data.sources import Dataset, load, nb201_split
from polyarch.data.spirals import spirals
from polyarch.data.splits import stratified_split
from polyarch.data.tensors import (
    Augmentation,
    Batch,
    Batches,
    BatchSource,
    Normalisation,
    TensorData,
    endless,
)

__all__ = [
    "Augmentation",
    "Batch",
    "BatchSource",
    "Batches",
    "Cutout",
    "Dataset",
    "Normalisation",
    "RandomFlip",
    "RandomShift",
    "TensorData",
    "endless",
    "load",
    "nb201_split",
    "spirals",
    "stratified_split",
]
