"""Programs that run without polyarch: torch.export and ONNX, each verified against the original network."""

import importlib.util
import inspect
import io
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from polyarch.data import Column, Inputs, NamedInputs
from polyarch.data.named_inputs import AnyInputs, cycled, mapped, shape_of, shape_text, type_of
from polyarch.errors import ExportMismatch, InvalidInput, MissingExtra, PolyarchError, UnknownName
from polyarch.export.artifact import Artifact
from polyarch.export.checksums import CHECKSUMS, sha256, write_metadata
from polyarch.export.programs import Forward, OnnxSession, Program, run_program
from polyarch.export.records import METADATA_FILE, PROGRAM_FILES, one_line, read_object
from polyarch.files import write_atomically
from polyarch.tasks import Regression

BATCH_SIZES = (1, 2, 7, 64)
"""Sizes of random batches: a program must not depend on the batch size it was exported with."""


def export_programs(
    folder: Path,
    artifact: Artifact,
    examples: Inputs,
    *,
    formats: Sequence[str] = ("pt2", "onnx"),
    tolerance: float = 1e-4,
) -> dict[str, float]:
    """Adds ``model.pt2`` and ``model.onnx`` to an artifact's folder, with preprocessing, for any batch size.

    Each program is loaded back and compared with the network on the examples and on random inputs; only a program that
    agrees is written. The differences go into the metadata.

    Args:
        folder: where `write_artifact` wrote the artifact.
        examples: (N, *input_shape) real raw examples, or several inputs by name.
        tolerance: the largest accepted difference of any output; numbers are compared in units of their scale.

    Returns:
        File name -> largest absolute difference of all outputs.
    """
    for name in formats:
        if name not in PROGRAM_FILES:
            raise UnknownName("format", name, PROGRAM_FILES)
    if (type_of(examples), shape_of(examples)) != (artifact.input_dtype, artifact.input_shape) or not len(examples):
        raise InvalidInput(
            f"Expected examples of shape (N, *{artifact.input_shape}) as {artifact.input_dtype}. "
            f"Got {shape_text(examples)} as {type_of(examples)}."
        )
    program = Program.of(artifact)
    trials = [examples.cpu(), *random_inputs(artifact, examples.cpu())]
    differences: dict[str, float] = {}
    for name in formats:
        file = PROGRAM_FILES[name]
        _note(folder, file, None)  # an earlier export must not stay beside new weights
        (folder / file).unlink(missing_ok=True)
        try:
            content, forward = _EXPORTERS[name](program, trials[0], list(artifact.task.readouts))
        except PolyarchError:
            raise
        except Exception as error:  # the exporters' exceptions have no common base
            raise InvalidInput(f"Expected networks that {file} can hold. Found: {one_line(error)}.") from error
        differences[file] = _largest_difference(artifact, program, forward, trials, file)
        if not differences[file] <= tolerance:  # so that NaN is a mismatch as well
            raise ExportMismatch(
                f"Expected {file} to agree with its network within {tolerance:g}. "
                f"Found a difference of {differences[file]:g}."
            )
        write_atomically(folder / file, content)
        _note(folder, file, {"largest_difference": differences[file], "tolerance": tolerance}, sha256(content))
    return differences


def random_inputs(artifact: Artifact, examples: AnyInputs) -> Iterator[AnyInputs]:
    """Batches of several sizes in the range of the examples; tables include missing and unknown values."""
    generator = Generator().manual_seed(0)
    for size in BATCH_SIZES:
        yield mapped(lambda tensor, size=size: _random(tensor, size, artifact.columns, generator), examples)  # type: ignore[misc]


def _random(examples: Tensor, size: int, columns: Sequence[Column], generator: Generator) -> Tensor:
    shape = (size, *examples.shape[1:])
    if examples.dtype == torch.uint8:
        return torch.randint(0, 256, shape, generator=generator, dtype=examples.dtype)
    if examples.dtype == torch.int64:  # other tokens may not exist
        return torch.randint(int(examples.min()), int(examples.max()) + 1, shape, generator=generator)
    if examples.dtype == torch.bool:  # a random mask could leave nothing
        return examples[torch.randint(len(examples), (size,), generator=generator)]
    low, high = examples.nan_to_num(torch.inf).amin(0), examples.nan_to_num(-torch.inf).amax(0)
    seen = low <= high  # a column may have no value in the examples
    low, high = torch.where(seen, low, 0.0), torch.where(seen, high, 1.0)
    values = low + (high - low) * torch.rand(shape, generator=generator)
    for index, column in enumerate(columns):
        if column.categories is not None:
            codes = torch.randint(-1, len(column.categories), (size,), generator=generator)
            values[:, index] = codes.float()
        values[torch.rand(size, generator=generator) < 0.1, index] = torch.nan
    return values


def _export_pt2(program: Program, examples: Inputs, readouts: Sequence[str]) -> tuple[bytes, Forward]:
    args, kwargs, dynamic_shapes = _arguments(examples)
    with _quiet():
        exported = torch.export.export(
            _with_signature(program, list(kwargs)), args, kwargs, dynamic_shapes=dynamic_shapes, strict=False
        )
        for node in exported.graph.nodes:  # traces name files of this machine
            node.meta.pop("stack_trace", None)
        buffer = io.BytesIO()
        torch.export.save(exported, buffer)
        # Loading may unpickle. This is the only place that does so, and the bytes are our own.
        loaded = torch.export.load(io.BytesIO(buffer.getvalue())).module()
    return buffer.getvalue(), loaded


def _export_onnx(program: Program, examples: Inputs, readouts: Sequence[str]) -> tuple[bytes, Forward]:
    feature = "Exporting to ONNX"
    if not all(importlib.util.find_spec(package) for package in ("onnx", "onnxscript", "onnxruntime")):
        raise MissingExtra(feature, "onnx")
    args, kwargs, dynamic_shapes = _arguments(examples)
    names = list(kwargs) or ["inputs"]
    with _quiet():
        exported = torch.onnx.export(
            _with_signature(program, list(kwargs)),
            args,
            kwargs=kwargs,
            dynamo=True,
            input_names=names,
            output_names=list(readouts),
            dynamic_shapes=dynamic_shapes,
            verbose=False,
        )
    assert exported is not None
    model = exported.model_proto
    for node in [*model.graph.node, *(node for function in model.functions for node in function.node)]:
        node.ClearField("metadata_props")  # traces that name files of this machine
    content = model.SerializeToString(deterministic=True)
    return content, OnnxSession(content, feature, readouts, names)


_EXPORTERS: dict[str, Callable[[Program, Inputs, Sequence[str]], tuple[bytes, Forward]]] = {
    "pt2": _export_pt2,
    "onnx": _export_onnx,
}


def _arguments(examples: Inputs) -> tuple[tuple[Tensor, ...], dict[str, Tensor], Any]:
    """Positional and named arguments of two examples, and their dimensions that may vary.

    Two, because exporters treat a batch size of 1 as a constant.
    """
    two, batch = cycled(examples, 2), {0: torch.export.Dim("batch")}
    if isinstance(two, NamedInputs):
        return (), dict(two.items()), dict.fromkeys(two.keys(), batch)
    return (two,), {}, (batch,)


def _with_signature(program: Program, names: Sequence[str]) -> nn.Module:
    """The program with these arguments of ``forward``, from which exporters take the names of inputs, if it has any."""
    if not names:
        return program

    class Signed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.program = program
            self.forward = forward

    def forward(**inputs: Tensor) -> Any:
        return program(**inputs)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return Signed().eval()


def _largest_difference(
    artifact: Artifact, program: Program, forward: Forward, trials: Sequence[Inputs], file: str
) -> float:
    """The largest difference over all trials and outputs, NaN if any is NaN; numbers count in units of their scale."""
    largest = 0.0
    task = artifact.task
    scale = torch.tensor(task.scale) if isinstance(task, Regression) else 1.0
    for inputs in trials:
        with torch.no_grad():
            expected = run_program(program, inputs)
            try:
                found = run_program(forward, inputs)
            except Exception as error:  # the runtimes' exceptions have no common base
                raise ExportMismatch(
                    f"Expected {file} to take inputs of shape {shape_text(inputs)}. Found: {one_line(error)}."
                ) from None
        for name, wanted, value in zip(task.readouts, expected, found, strict=True):
            if wanted.shape != value.shape:
                raise ExportMismatch(
                    f"Expected {name} of shape {tuple(wanted.shape)} from {file}. Found {tuple(value.shape)}."
                )
            difference = float(((wanted - value).abs() / scale).max())
            largest = difference if math.isnan(difference) else max(largest, difference)
    return largest


def _note(folder: Path, file: str, record: dict[str, float] | None, checksum: str = "") -> None:
    """Records a program and its checksum in the metadata, or removes both."""
    metadata = read_object(folder / METADATA_FILE)
    exports, checksums = (
        {name: value for name, value in metadata.get(key, {}).items() if name != file} for key in ("exports", CHECKSUMS)
    )
    if record is not None:
        exports[file], checksums[file] = record, checksum
    write_metadata(folder, {**metadata, "exports": exports}, checksums)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses torch's warnings about its own internals, its graph dumps and its remarks on torchvision."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")

    def not_about_torchvision(record: logging.LogRecord) -> bool:
        return "torchvision" not in record.getMessage()

    logger.addFilter(not_about_torchvision)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            for category in (FutureWarning, DeprecationWarning):
                warnings.filterwarnings("ignore", category=category)
            # Several inputs have the same number of rows.
            warnings.filterwarnings("ignore", "# The axis name: batch will not be used", UserWarning)
            yield
    finally:
        logger.removeFilter(not_about_torchvision)
