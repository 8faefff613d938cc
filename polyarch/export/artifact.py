"""One network, or a mixture of several, in a folder that is usable without polyarch."""

import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

import polyarch
from polyarch.data import Column, Preprocessing, preprocessing_from
from polyarch.errors import CorruptFile, InvalidInput, PolyarchError
from polyarch.export.records import (
    ARCHITECTURE_FILE,
    FORMAT,
    METADATA_FILE,
    PROGRAM_FILES,
    WEIGHTS_FILE,
    Description,
    MemberRecord,
    Metadata,
    TaskDescription,
    first_problem,
    one_line,
    read_records,
)
from polyarch.export.weights import distinct_weights_of, load_weights, read_weights, weights_bytes, weights_of
from polyarch.files import write_atomically, write_json
from polyarch.nn import StackedNetworks
from polyarch.tasks import Calibration, Classification, Task

INPUT_DTYPES = {"uint8": torch.uint8, "float32": torch.float32}

Extract = Callable[[list[dict[str, str]], bool], nn.Module]
"""(choice name -> option name for every member, whether they share one network) -> the module of their logits."""
Build = Callable[[dict[str, Any], tuple[int, ...], int], Extract]
"""(settings of the space, shape of one network input, number of outputs) -> what extracts networks."""


@dataclass(frozen=True)
class Member:
    """One member of the mixture: choice name -> option name, and its weight, which need not be normalised."""

    architecture: dict[str, str]
    weight: float


@dataclass(frozen=True)
class Artifact:
    """The content of the folder; a single network is a mixture with one member.

    Args:
        network: settings of the space that builds the supernet of the members.
        members: the architectures and their weights.
        networks: preprocessed inputs (B, ...) -> outputs (K, B, O) of all members: `StackedNetworks`, one per
            member, or one network that they share.
        preprocessing: maps raw examples to network inputs.
        columns: the columns of a table; empty for other data.
        input_shape: the shape of one raw example.
        input_dtype: of raw examples: uint8 (images) or float32.
        task: what is predicted.
        calibration: fitted on validation data.
        metrics: measurements, for the reader of the folder.
        exit_confidence: the confidence at which an example leaves a shared network early.
    """

    network: dict[str, Any]
    members: tuple[Member, ...]
    networks: nn.Module
    preprocessing: Preprocessing
    columns: tuple[Column, ...]
    input_shape: tuple[int, ...]
    input_dtype: torch.dtype
    task: Task
    calibration: Calibration
    metrics: dict[str, Any]
    exit_confidence: float | None = None

    @property
    def shared(self) -> bool:
        """Whether one network computes the outputs of all members."""
        return not isinstance(self.networks, StackedNetworks)


def write_artifact(folder: Path, artifact: Artifact) -> None:
    """Writes weights, metadata and finally the architecture, each atomically: a folder with all three is complete.

    Programs exported from earlier content of the folder are removed.
    """
    description, metadata = _records(artifact)
    content = weights_bytes(
        distinct_weights_of(artifact.networks) if artifact.shared else weights_of(artifact.networks)
    )
    for name in (ARCHITECTURE_FILE, *PROGRAM_FILES.values()):
        (folder / name).unlink(missing_ok=True)
    write_atomically(folder / WEIGHTS_FILE, content)
    # Default values are left out, so that the files of separate networks stay as they were.
    without = None if artifact.exit_confidence is not None else {"exit_confidence"}
    write_json(folder / METADATA_FILE, metadata.model_dump(mode="json", exclude=without))
    without = None if artifact.shared else {"shared"}
    write_json(folder / ARCHITECTURE_FILE, description.model_dump(mode="json", exclude=without))


def read_artifact(folder: Path, build: Build) -> Artifact:
    """Reads what ``write_artifact`` wrote, with the networks in evaluation mode.

    ``build`` decides which settings it accepts from a file; nothing here imports or unpickles anything.
    """
    description, metadata = read_records(folder)
    weights = read_weights(folder / WEIGHTS_FILE)
    shape = description.input_shape
    dtype = INPUT_DTYPES[metadata.input.dtype]
    try:
        task = metadata.described_task
        preprocessing = preprocessing_from(metadata.preprocessing)
        example = preprocessing(torch.empty(2, *shape, dtype=dtype, device="meta"))  # only shapes: no memory, no work
        extract = build(description.network, tuple(example.shape[1:]), task.outputs)
        networks = extract([member.architecture for member in description.members], description.shared)
        load_weights(networks, weights)
    except (PolyarchError, LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise CorruptFile(
            f"Expected the artifact in {folder} to describe its networks. Found: {one_line(error)}."
        ) from None
    return Artifact(
        network=description.network,
        members=tuple(Member(member.architecture, member.weight) for member in description.members),
        networks=networks.eval(),
        preprocessing=preprocessing,
        columns=tuple(Column(column.name, column.categories) for column in metadata.columns),
        input_shape=shape,
        input_dtype=dtype,
        task=task,
        calibration=Calibration(metadata.temperature, metadata.threshold, metadata.conformal),
        metrics=metadata.metrics,
        exit_confidence=metadata.exit_confidence,
    )


def _records(artifact: Artifact) -> tuple[Description, Metadata]:
    names = {dtype: name for name, dtype in INPUT_DTYPES.items()}
    if artifact.input_dtype not in names:
        raise InvalidInput(f"Expected inputs of type uint8 or float32. Got {artifact.input_dtype}.")
    if isinstance(artifact.networks, StackedNetworks) and len(artifact.networks) != len(artifact.members):
        raise InvalidInput(
            f"Expected a network for each of {len(artifact.members)} members. Got {len(artifact.networks)}."
        )
    if artifact.exit_confidence is not None and not artifact.shared:
        raise InvalidInput("Expected members that share one network for exit_confidence. Got separate networks.")
    try:
        description = Description(
            format=FORMAT,
            network=artifact.network,
            members=[MemberRecord(**asdict(member)) for member in artifact.members],
            shared=artifact.shared,
            input_shape=artifact.input_shape,
        )
        metadata = Metadata.model_validate(
            {
                "input": {"shape": artifact.input_shape, "dtype": names[artifact.input_dtype]},
                "outputs": dict(artifact.task.readouts),
                "classes": artifact.task.names if isinstance(artifact.task, Classification) else (),
                "task": TaskDescription.of(artifact.task),
                **_conformal(artifact),
                "columns": tuple(map(asdict, artifact.columns)),
                "preprocessing": artifact.preprocessing.to_dict(),
                "temperature": artifact.calibration.temperature,
                "threshold": artifact.calibration.threshold,
                "exit_confidence": artifact.exit_confidence,
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
        raise InvalidInput(f"Expected a valid {place} in the artifact. Found: {problem}.") from None
    try:
        json.dumps([description.model_dump(), metadata.model_dump()], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"Expected settings and metrics that JSON can hold. Found: {one_line(error)}.") from None
    return description, metadata


def _conformal(artifact: Artifact) -> dict[str, Any]:
    """Prediction sets of classes, or intervals of numbers, where there are any."""
    values = dict(artifact.calibration.conformal)
    if not values:
        return {}
    if isinstance(artifact.task, Classification):
        return {"sets": values}
    return {"intervals": {**values, "corrections": tuple(values["corrections"])}}
