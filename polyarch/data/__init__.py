"""Data: sources by name, splits, resident tensors and batch augmentation."""

from polyarch.data.augmentations import Cutout, RandomFlip, RandomShift
from polyarch.data.preprocessing import Normalisation, Preprocessing, preprocessing_from
from polyarch.data.sources import Dataset, load, nb201_split
from polyarch.data.spirals import spirals
from polyarch.data.splits import stratified_split
from polyarch.data.tensors import (
    Augmentation,
    Batch,
    Batches,
    BatchSource,
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
    "Preprocessing",
    "RandomFlip",
    "RandomShift",
    "TensorData",
    "endless",
    "load",
    "nb201_split",
    "preprocessing_from",
    "spirals",
    "stratified_split",
]
