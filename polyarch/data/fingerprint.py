"""Fingerprints: SHA-256 of examples as they were loaded, which tell whether data are the same as before."""

import hashlib
from pathlib import Path

import torch

from polyarch.data.dataset import Dataset
from polyarch.data.digests import add_inputs, digest_of
from polyarch.data.examples import Examples, NamedData, TensorData
from polyarch.data.image_files import ImageFiles
from polyarch.data.loader_examples import LoaderExamples

READ_AT_ONCE = 256


def fingerprint(data: Examples) -> str:
    """SHA-256 of the targets and of all inputs, in their order.

    Images that stay in files count by the bytes of the files, and examples of a ``DataLoader`` as they were when their
    labels were read.
    """
    found = hashlib.sha256()
    add_inputs(found, data.targets)
    match data:
        case TensorData() | NamedData():
            add_inputs(found, data.inputs)
        case ImageFiles():
            found.update(repr(data.input_shape).encode())
            for row in data.rows.tolist():
                content = data.contents[row]
                found.update(hashlib.sha256(content.read_bytes() if isinstance(content, Path) else content).digest())
        case LoaderExamples():
            found.update(data.content.encode())
            add_inputs(found, data.rows)
        case _:
            for batch in data.stream(torch.arange(len(data)).split(READ_AT_ONCE)):
                add_inputs(found, batch)
    return found.hexdigest()


def names_fingerprint(data: Dataset) -> str:
    """SHA-256 of the names of classes, targets and columns, and of the categories in columns."""
    return digest_of([data.class_names, data.target_names, [column.to_dict() for column in data.columns]])
