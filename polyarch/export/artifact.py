"""One network, or several as a mixture, in a folder that can be used without polyarch."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

import polyarch
from polyarch.data import Column, Preprocessing, preprocessing_from
from polyarch.errors import CorruptFile, InvalidInput, PolyarchError
from polyarch.export.records import (
    ARCHITECTURE_FILE,
    FORMAT,
    METADATA_FILE,
    PROGRAM_FILES,
    WEIGHTS_FILE,
    ColumnRecord,
    Description,
    InputRecord,
    MemberRecord,
    Metadata,
    read_records,
)
from polyarch.export.sentences import first_problem, one_line
from polyarch.export.weights import load_weights, read_weights, weights_bytes, weights_of
from polyarch.files import write_atomically, write_json

__all__ = ["Artifact", "Member", "read_artifact", "read_weights", "weights_bytes", "weights_of", "write_artifact"]

INPUT_DTYPES = {"uint8": torch.uint8, "float32": torch.float32}

Extract = Callable[[dict[str, str]], nn.Module]
"""Choice name -> option name, to the standalone network of that architecture."""
Build = Callable[[dict[str, Any], tuple[int, ...], int], Extract]
"""(settings of the space, shape of one network input, number of classes), to what makes its networks."""


@dataclass(frozen=True)
class Member:
    """One network of the mixture.

    Args:
        architecture: choice name -> option name.
        weight: its share; the members' shares are normalised.
        network: preprocessed inputs (B, ...) -> logits (B, classes).
    """

    architecture: dict[str, str]
    weight: float
    network: nn.Module


@dataclass(frozen=True)
class Artifact:
    """What the folder holds; a single network is a mixture with one member.

    Args:
        network: settings of the space that builds the supernet of the members.
        members: the networks and their shares.
        preprocessing: from raw examples to what the networks take in.
        columns: the columns of a table, empty for other data.
        input_shape: the shape of one raw example.
        input_dtype: of raw examples: uint8 (bytes of images) or float32.
        classes: class names in the order of the outputs.
        temperature: divides the logits of every member.
        threshold: the entropy in nats above which an input is flagged.
        metrics: what was measured, for the reader of the folder.
    """

    network: dict[str, Any]
    members: tuple[Member, ...]
    preprocessing: Preprocessing
    columns: tuple[Column, ...]
    input_shape: tuple[int, ...]
    input_dtype: torch.dtype
    classes: tuple[str, ...]
    temperature: float
    threshold: float
    metrics: dict[str, Any]


def write_artifact(folder: Path, artifact: Artifact) -> None:
    """Writes weights, metadata and, last, the architecture, each atomically: a folder with all three is whole.

    Programs that were exported from earlier content of the folder are removed.
    """
    description, metadata = _records(artifact)
    states = {
        f"{index}.{name}": value
        for index, member in enumerate(artifact.members)
        for name, value in weights_of(member.network).items()
    }
    content = weights_bytes(states)
    for name in (ARCHITECTURE_FILE, *PROGRAM_FILES.values()):
        (folder / name).unlink(missing_ok=True)
    write_atomically(folder / WEIGHTS_FILE, content)
    write_json(folder / METADATA_FILE, metadata.model_dump(mode="json"))
    write_json(folder / ARCHITECTURE_FILE, description.model_dump(mode="json"))


def read_artifact(folder: Path, build: Build) -> Artifact:
    """Reads what ``write_artifact`` wrote; the networks are in evaluation mode.

    Args:
        build: makes the networks from their settings. It decides what it makes of settings out of a file: nothing
            here imports or unpickles anything.
    """
    description, metadata = read_records(folder)
    states = _split(read_weights(folder / WEIGHTS_FILE), len(description.members), folder)
    shape, classes = description.input_shape, len(metadata.classes)
    dtype = INPUT_DTYPES[metadata.input.dtype]
    try:
        preprocessing = preprocessing_from(metadata.preprocessing)
        example = preprocessing(torch.empty(2, *shape, dtype=dtype, device="meta"))  # shapes alone: no memory, no work
        extract = build(description.network, tuple(example.shape[1:]), classes)
        members = []
        for record, state in zip(description.members, states, strict=True):
            network = extract(record.architecture)
            load_weights(network, state)
            members.append(Member(record.architecture, record.weight, network.eval()))
    except (PolyarchError, LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise CorruptFile(
            f"Expected the artifact in {folder} to describe its networks. Found: {one_line(error)}."
        ) from None
    return Artifact(
        network=description.network,
        members=tuple(members),
        preprocessing=preprocessing,
        columns=tuple(Column(column.name, column.categories) for column in metadata.columns),
        input_shape=shape,
        input_dtype=dtype,
        classes=metadata.classes,
        temperature=metadata.temperature,
        threshold=metadata.threshold,
        metrics=metadata.metrics,
    )


def _records(artifact: Artifact) -> tuple[Description, Metadata]:
    names = {dtype: name for name, dtype in INPUT_DTYPES.items()}
    if artifact.input_dtype not in names:
        raise InvalidInput(f"Expected inputs of type uint8 or float32. Got {artifact.input_dtype}.")
    try:
        description = Description(
            format=FORMAT,
            network=artifact.network,
            members=[MemberRecord(architecture=m.architecture, weight=m.weight) for m in artifact.members],
            input_shape=artifact.input_shape,
        )
        metadata = Metadata.model_validate(
            {
                "input": InputRecord.model_validate(
                    {"shape": artifact.input_shape, "dtype": names[artifact.input_dtype]}
                ),
                "classes": artifact.classes,
                "columns": tuple(ColumnRecord(name=c.name, categories=c.categories) for c in artifact.columns),
                "preprocessing": artifact.preprocessing.to_dict(),
                "temperature": artifact.temperature,
                "threshold": artifact.threshold,
                "metrics": artifact.metrics,
                "versions": {
                    "polyarch": polyarch.__version__,
                    "torch": str(torch.__version__),
                    "python": platform.python_version(),
                },
            }
        )
    except ValidationError as error:
        place, problem = first_problem(error)
        raise InvalidInput(f"Expected {place} of the artifact to fit. Found: {problem}.") from None
    try:
        json.dumps([description.model_dump(), metadata.model_dump()], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"Expected settings and metrics that JSON can hold. Found: {one_line(error)}.") from None
    return description, metadata


def _split(states: dict[str, Tensor], members: int, folder: Path) -> list[dict[str, Tensor]]:
    """The states of the members out of the names ``0.name``, ``1.name``, ..."""
    split: list[dict[str, Tensor]] = [{} for _ in range(members)]
    known = {str(index): state for index, state in enumerate(split)}
    for key, value in states.items():
        index, _, name = key.partition(".")
        if index not in known:
            raise CorruptFile(f"Expected weights of {members} members in {folder / WEIGHTS_FILE}. Found {key!r}.")
        known[index][name] = value
    return split
