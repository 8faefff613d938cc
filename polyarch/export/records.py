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

from polyarch.data import InputShape, InputType
from polyarch.errors import CorruptFile

FORMAT: Final = 2

ARCHITECTURE_FILE = "architecture.json"
METADATA_FILE = "metadata.json"
WEIGHTS_FILE = "weights.safetensors"
PROGRAM_FILES = {"pt2": "model.pt2", "onnx": "model.onnx"}

OUTPUTS = {
    "probabilities": "(B, classes): the probability of every class, in the order of `classes`; a row sums to 1.",
    "entropy": "(B,): how unsure the prediction is, in nats; 0 is sure, log(classes) knows nothing.",
    "mutual_information": "(B,): how far the members disagree, in nats; 0 for one member.",
}

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


class ExportRecord(Record):
    """The largest difference of any output between an exported program and its networks."""

    largest_difference: NonNegative
    tolerance: NonNegative


class Metadata(Record):
    """``metadata.json``: everything needed to use the programs without polyarch; see `Artifact`."""

    input: InputRecord | None = None
    inputs: tuple[NamedInputRecord, ...] = ()
    outputs: dict[str, str] = OUTPUTS
    classes: Annotated[tuple[str, ...], Field(min_length=1)]
    columns: tuple[ColumnRecord, ...] = ()
    preprocessing: dict[str, Any]
    temperature: Positive
    threshold: NonNegative
    exit_confidence: Share | None = None
    metrics: dict[str, Any] = {}
    versions: dict[str, str] = {}
    exports: dict[str, ExportRecord] = {}

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
    if metadata.exit_confidence is not None and not description.shared:
        raise CorruptFile(f"Expected members that share one network for exit_confidence in {folder}. Found others.")
    return description, metadata


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
