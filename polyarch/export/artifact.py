"""One network, or a mixture of several, in a folder that is usable without polyarch."""

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

import polyarch
from polyarch.data import (
    Column,
    Inputs,
    InputShape,
    InputType,
    NamedInputs,
    NetworkExample,
    Preprocessing,
    preprocessing_from,
)
from polyarch.errors import CorruptFile, InvalidInput, PolyarchError
from polyarch.export.checksums import check_files, sha256, write_metadata
from polyarch.export.records import (
    ARCHITECTURE_FILE,
    FORMAT,
    INPUT_DTYPES,
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
from polyarch.files import json_text, write_atomically
from polyarch.nn import StackedNetworks
from polyarch.tasks import Calibration, Classification, Task

Extract = Callable[[list[dict[str, str]], bool], nn.Module]
"""(choice name -> option name for every member, whether they share one network) -> the module of their logits."""
Build = Callable[[dict[str, Any], NetworkExample, Task], Extract]
"""(settings of the space, network inputs on the meta device, what is predicted) -> what extracts networks."""


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
        input_shape: the shape of one raw example, or of each of its named inputs.
        input_dtype: of raw examples, or of each input: uint8 (images), float32, int64 (tokens) or bool (masks).
        task: what is predicted.
        calibration: fitted on validation data.
        metrics: measurements, for the reader of the folder.
        exit_confidence: the confidence at which an example leaves a shared network early.
        masks: padded input -> the input that is true for its real tokens.
        provenance: the fingerprints of the data and code behind the networks.
    """

    network: dict[str, Any]
    members: tuple[Member, ...]
    networks: nn.Module
    preprocessing: Preprocessing
    columns: tuple[Column, ...]
    input_shape: InputShape
    input_dtype: InputType
    task: Task
    calibration: Calibration
    metrics: dict[str, Any]
    exit_confidence: float | None = None
    masks: Mapping[str, str] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

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
    described = json_text(description.model_dump(mode="json", exclude=None if artifact.shared else {"shared"}))
    write_atomically(folder / WEIGHTS_FILE, content)
    # Default values are left out, so that the files of separate networks stay as they were.
    without = {"inputs" if metadata.input is not None else "input"}
    without |= {"exit_confidence"} if artifact.exit_confidence is None else set()
    checksums = {WEIGHTS_FILE: sha256(content), ARCHITECTURE_FILE: sha256(described)}
    write_metadata(folder, metadata.model_dump(mode="json", exclude=without), checksums)
    write_atomically(folder / ARCHITECTURE_FILE, described)


def read_artifact(folder: Path, build: Build, *, verify: bool = True) -> Artifact:
    """Reads what ``write_artifact`` wrote, with the networks in evaluation mode.

    ``build`` decides which settings it accepts from a file; nothing here imports or unpickles anything.

    Args:
        verify: whether files must have the checksums of the metadata, where it has some.
    """
    description, metadata = read_records(folder)
    if verify:
        check_files(folder, (ARCHITECTURE_FILE, WEIGHTS_FILE))
    weights = read_weights(folder / WEIGHTS_FILE)
    try:
        task = metadata.described_task
        preprocessing = preprocessing_from(metadata.preprocessing)
        raw = _shapes(metadata.input_shape, metadata.input_dtype)
        extract = build(description.network, NetworkExample.of(raw, preprocessing), task)
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
        input_shape=metadata.input_shape,
        input_dtype=metadata.input_dtype,
        task=task,
        calibration=Calibration(metadata.temperature, metadata.threshold, metadata.conformal),
        metrics=metadata.metrics,
        exit_confidence=metadata.exit_confidence,
        masks=metadata.masks,
        provenance=metadata.provenance,
    )


def _shapes(shape: InputShape, dtype: InputType) -> Inputs:
    """Two examples on the meta device, which takes neither memory nor work."""
    if isinstance(shape, dict) and isinstance(dtype, dict):
        tensors = {name: torch.empty(2, *shape[name], dtype=dtype[name], device="meta") for name in shape}
        return NamedInputs.unchecked(tensors)
    assert isinstance(shape, tuple) and isinstance(dtype, torch.dtype)
    return torch.empty(2, *shape, dtype=dtype, device="meta")


def _input_records(artifact: Artifact) -> dict[str, Any]:
    """The key ``input``, or ``inputs`` if they have names."""
    names = {dtype: name for name, dtype in INPUT_DTYPES.items()}
    shape, dtype = artifact.input_shape, artifact.input_dtype
    types = dtype if isinstance(dtype, dict) else {"": dtype}
    shapes = shape if isinstance(shape, dict) else {"": shape}
    for one in types.values():
        if one not in names:
            raise InvalidInput(f"Expected inputs of type {', '.join(names.values())}. Got {one}.")
    records = {name: {"shape": shapes[name], "dtype": names[one]} for name, one in types.items()}
    if "" in records:
        return {"input": records[""]}
    return {"inputs": tuple({"name": name, **one, "mask": artifact.masks.get(name)} for name, one in records.items())}


def _records(artifact: Artifact) -> tuple[Description, Metadata]:
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
                **_input_records(artifact),
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
                "provenance": artifact.provenance,
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
