"""The two JSON files of an artifact."""

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)
from torch import Tensor

from polyarch.data import InputShape, InputType
from polyarch.errors import CorruptFile, InvalidInput
from polyarch.tasks import Classification, MultiLabel, OwnTask, Regression, Task

FORMAT: Final = 2

ARCHITECTURE_FILE = "architecture.json"
METADATA_FILE = "metadata.json"
WEIGHTS_FILE = "weights.safetensors"
PROGRAM_FILES = {"pt2": "model.pt2", "onnx": "model.onnx"}

INPUT_DTYPES = {"uint8": torch.uint8, "float32": torch.float32, "int64": torch.int64, "bool": torch.bool}

InputTypeName = Literal["uint8", "float32", "int64", "bool"]
Shape = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
Positive = Annotated[FiniteFloat, Field(gt=0)]
Share = Annotated[FiniteFloat, Field(gt=0, le=1)]
NonNegative = Annotated[FiniteFloat, Field(ge=0)]


class Record(BaseModel):
    """Base of strict records: no conversions, so that a string is never read as a number."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class MemberRecord(Record):
    """One member of the mixture and its weight."""

    architecture: dict[str, str]
    weight: Positive


class Description(Record):
    """``architecture.json``: what builds the networks; see `Artifact`."""

    format: Literal[2]
    network: dict[str, Any]
    members: Annotated[list[MemberRecord], Field(min_length=1)]
    shared: bool = False
    input_shape: Shape | dict[str, Shape]


class InputRecord(Record):
    """The only input of the program, which is called ``inputs``: batches (B, *shape)."""

    shape: Shape
    dtype: InputTypeName


class NamedInputRecord(Record):
    """One of several inputs; ``mask`` is the input that is true for real tokens, where this one is padded with 0."""

    name: Annotated[str, Field(pattern=r"^[^\W\d]\w*$")]
    shape: Shape
    dtype: InputTypeName
    mask: str | None = None


class ColumnRecord(Record):
    """A column of numbers, or of category indices; missing values are NaN, unknown categories -1."""

    name: str
    categories: tuple[str, ...] | None


class TaskDescription(Record):
    """What is predicted; fields that a kind of task does not have are empty."""

    kind: Literal["classification", "regression", "multi-label", "own"]
    names: tuple[str, ...]
    size: PositiveInt
    location: tuple[FiniteFloat, ...] = ()
    scale: tuple[Positive, ...] = ()
    coverage: Share = 0.9

    @classmethod
    def of(cls, task: Task) -> "TaskDescription":
        """The description of a task."""
        values = {"kind": task.kind, "names": task.names, "size": task.outputs}
        if isinstance(task, Regression):
            values |= {"location": task.location, "scale": task.scale}
        if isinstance(task, Classification | Regression):
            values |= {"coverage": task.coverage}
        return cls.model_validate(values)

    def task(self) -> Task:
        """The task, as far as predictions need it: without the loss of a user's own."""
        match self.kind:
            case "regression":
                return Regression(self.names, self.location, self.scale, coverage=self.coverage)
            case "multi-label":
                return MultiLabel(self.names)
            case "own":
                return OwnTask(_no_loss, self.size, names=self.names)
        return Classification(self.names, coverage=self.coverage)


def _no_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    raise InvalidInput("Expected the user's own loss. An artifact has none.")


class SetsRecord(Record):
    """Conformal prediction sets; see `polyarch.predictive.conformal_sets.ConformalSets`."""

    method: Literal["lac", "aps", "raps"]
    coverage: Annotated[FiniteFloat, Field(gt=0, lt=1)]
    threshold: FiniteFloat
    examples: PositiveInt
    penalty: NonNegative = 0.0
    free_ranks: Annotated[int, Field(ge=0)] = 0


class IntervalsRecord(Record):
    """Conformal intervals; see `polyarch.predictive.conformal_intervals.ConformalIntervals`."""

    method: Literal["scaled", "quantile"]
    coverage: Annotated[FiniteFloat, Field(gt=0, lt=1)]
    corrections: tuple[FiniteFloat, ...]
    examples: PositiveInt


class ExportRecord(Record):
    """The largest difference of any output between an exported program and its networks."""

    largest_difference: NonNegative
    tolerance: NonNegative


class Metadata(Record):
    """``metadata.json``: everything needed to use the programs without polyarch; see `Artifact`.

    ``classes`` are empty where no classes are predicted. Files of polyarch 0.8 and earlier have no ``task`` and predict
    classes.
    """

    input: InputRecord | None = None
    inputs: tuple[NamedInputRecord, ...] = ()
    outputs: dict[str, str] = dict(Classification.readouts)
    classes: tuple[str, ...] = ()
    task: TaskDescription | None = None
    sets: SetsRecord | None = None
    intervals: IntervalsRecord | None = None
    columns: tuple[ColumnRecord, ...] = ()
    preprocessing: dict[str, Any]
    temperature: Positive
    threshold: NonNegative
    exit_confidence: Share | None = None
    metrics: dict[str, Any] = {}
    versions: dict[str, str] = {}
    provenance: dict[str, Any] = {}
    exports: dict[str, ExportRecord] = {}
    checksums: dict[str, str] = {}

    @property
    def described_task(self) -> Task:
        """What is predicted."""
        return Classification(self.classes) if self.task is None else self.task.task()

    @property
    def conformal(self) -> dict[str, Any]:
        """The values of prediction sets or intervals; empty without any."""
        found = self.sets or self.intervals
        return {} if found is None else found.model_dump()

    @field_validator("classes", "columns", "inputs")
    @classmethod
    def _unique_names(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [entry if isinstance(entry, str) else entry.name for entry in value]
        if len(set(names)) < len(names):
            raise ValueError("a name occurs twice")
        return value

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.input is None) != bool(self.inputs):
            raise ValueError("expected either input or inputs")
        for one in self.inputs:
            if one.mask is not None and one.mask not in self.masked:
                raise ValueError(f"the mask {one.mask!r} is no input of type bool")
        return self

    @property
    def masked(self) -> list[str]:
        """The inputs that can be masks."""
        return [one.name for one in self.inputs if one.dtype == "bool"]

    @property
    def input_shape(self) -> InputShape:
        """The shape of one raw example."""
        return {one.name: one.shape for one in self.inputs} if self.input is None else self.input.shape

    @property
    def input_dtype(self) -> InputType:
        """The type of raw examples."""
        if self.input is not None:
            return INPUT_DTYPES[self.input.dtype]
        return {one.name: INPUT_DTYPES[one.dtype] for one in self.inputs}

    @property
    def masks(self) -> dict[str, str]:
        """Padded input -> its mask."""
        return {one.name: one.mask for one in self.inputs if one.mask is not None}


def read_records(folder: Path) -> tuple[Description, Metadata]:
    """Reads and validates both files of a folder."""
    description = _read(Description, folder / ARCHITECTURE_FILE)
    metadata = _read(Metadata, folder / METADATA_FILE)
    shape = description.input_shape
    if metadata.input_shape != shape:
        raise CorruptFile(f"Expected one input shape in {folder}. Found {shape} and {metadata.input_shape}.")
    if metadata.columns and shape != (len(metadata.columns),):
        raise CorruptFile(f"Expected rows of {len(metadata.columns)} columns in {folder}. Found shape {shape}.")
    _check_task(metadata, folder / METADATA_FILE)
    if metadata.exit_confidence is not None and not description.shared:
        raise CorruptFile(f"Expected members that share one network for exit_confidence in {folder}. Found others.")
    return description, metadata


def _check_task(metadata: Metadata, path: Path) -> None:
    """Refuses a task that does not fit the rest of the file."""
    task = metadata.task
    if task is None:
        if not metadata.classes:
            raise CorruptFile(f"Expected classes or a task in {path}. Found neither.")
        return
    has_classes, has_numbers = task.kind == "classification", task.kind == "regression"
    if metadata.classes != (task.names if has_classes else ()):
        raise CorruptFile(f"Expected the classes in {path} to be those of its task. Found others.")
    if (metadata.sets and not has_classes) or (metadata.intervals and not has_numbers):
        raise CorruptFile(f"Expected sets of classes or intervals of numbers in {path}. Found others.")
    if metadata.intervals and len(metadata.intervals.corrections) != len(task.names):
        raise CorruptFile(
            f"Expected {len(task.names)} corrections of intervals in {path}. "
            f"Found {len(metadata.intervals.corrections)}."
        )


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    return _parse(path)[1]


def _parse(path: Path) -> tuple[bytes, dict[str, Any]]:
    try:
        raw = path.read_bytes()
        content = json.loads(raw)
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptFile(f"Expected {path} to be a JSON file of an artifact. Found: {error}.") from None
    if not isinstance(content, dict):
        raise CorruptFile(f"Expected {path} to hold a JSON object. Found {type(content).__name__}.")
    return raw, content


R = TypeVar("R", bound=Record)


def _read(kind: type[R], path: Path) -> R:
    raw, content = _parse(path)
    if kind is Description and content.get("format") != FORMAT:  # other formats have other keys, so report this first
        raise CorruptFile(f"Expected {path} to have format {FORMAT}. Found {content.get('format')!r}.")
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        place, problem = first_problem(error)
        raise CorruptFile(f"Expected a valid {place} in {path}. Found: {problem}.") from None


def one_line(error: BaseException) -> str:
    """The message without line breaks and full stop, at most 300 characters; the type if there is no message."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]} ..."


def first_problem(error: ValidationError) -> tuple[str, str]:
    """The place of the first invalid value, such as ``members.0.weight``, and what is wrong with it."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    return ".".join(map(str, first["loc"])) or "the content", first["msg"]
