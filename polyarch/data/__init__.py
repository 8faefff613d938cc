"""Data: sources by name, path or value; splits, resident and streamed examples, batches, preprocessing."""

from polyarch.data.augmentations import ColourJitter, Cutout, RandomCrop, RandomFlip, RandomResizedCrop, RandomShift
from polyarch.data.batches import Augmentation, Batch, Batches, BatchSource, endless
from polyarch.data.cifar import nb201_split
from polyarch.data.columns import Column, encode_rows
from polyarch.data.dataset import Dataset
from polyarch.data.decoding import decode_image
from polyarch.data.examples import Examples, NamedData, TableData, TensorData, resident, stratified_split
from polyarch.data.image_files import ImageFiles
from polyarch.data.image_subsets import write_subset
from polyarch.data.loader_examples import LoaderExamples
from polyarch.data.loaders import LoaderBatches, NotReplayed
from polyarch.data.locations import data_root
from polyarch.data.named_inputs import Inputs, InputShape, InputType, NamedInputs
from polyarch.data.network_example import NetworkExample
from polyarch.data.preprocessing import Identity, NamedPreprocessing, Normalisation, Preprocessing, preprocessing_from
from polyarch.data.resizing import shaped_like
from polyarch.data.sequences import padded
from polyarch.data.sources import DATASETS, load
from polyarch.data.spirals import spirals
from polyarch.data.splits import GroupSplit, RandomSplit, Split, TimeSplit
from polyarch.data.table_encoding import TableEncoding, TableIndices
from polyarch.data.table_files import read_frame
from polyarch.data.targets import TargetKind

__all__ = [
    "DATASETS", "Augmentation", "Batch", "BatchSource", "Batches", "ColourJitter", "Column", "Cutout", "Dataset",
    "Examples", "GroupSplit", "Identity", "ImageFiles", "InputShape", "InputType", "Inputs", "LoaderBatches",
    "LoaderExamples", "NamedData", "NamedInputs", "NamedPreprocessing", "NetworkExample", "Normalisation",
    "NotReplayed", "Preprocessing", "RandomCrop", "RandomFlip", "RandomResizedCrop", "RandomShift", "RandomSplit",
    "Split", "TableData", "TableEncoding", "TableIndices", "TargetKind", "TensorData", "TimeSplit", "data_root",
    "decode_image", "encode_rows", "endless", "load", "nb201_split", "padded", "preprocessing_from", "read_frame",
    "resident", "shaped_like", "spirals", "stratified_split", "write_subset",
]  # fmt: skip
