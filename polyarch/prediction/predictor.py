"""Predictions with uncertainty from an artifact."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polyarch.data import Column, Inputs, InputShape, InputType, NamedInputs, padded
from polyarch.data.named_inputs import shape_of, shape_text, tensors_of, type_of
from polyarch.errors import CorruptFile, DataError, InvalidInput, NotFiniteError
from polyarch.export import Artifact, OnnxSession, Program, read_records
from polyarch.export.checksums import check_files
from polyarch.export.programs import Forward, run_program
from polyarch.export.records import ARCHITECTURE_FILE, PROGRAM_FILES
from polyarch.nn import Exits
from polyarch.prediction.loading import is_own_module, load_artifact
from polyarch.predictive import EarlyExit
from polyarch.predictive.conformal_sets import ConformalSets
from polyarch.runs.own_module import Builder
from polyarch.tasks import Classification, Task, prediction_sets

MOST_EXAMPLES = 256
MOST_VALUES = 1 << 22
"""Limits of one batch, so that large images do not fill the memory."""


@dataclass(frozen=True)
class Predictions:
    """Predictions for B examples.

    What the task reads is an attribute by its name: ``probabilities`` (B, classes), ``entropy`` (B,) and
    ``mutual_information`` (B,) of classes; ``mean``, ``std``, ``noise_std``, ``disagreement_std``, ``low`` and ``high``
    (B, targets) of numbers; see ``readouts`` of the task.

    Args:
        values: the same by name.
        uncertainty: (B,), how uncertain the prediction is.
        flagged: (B,) bool, whether the uncertainty is above the threshold.
        depths: (B,) int64, the depth that each example used; only with early exit.
    """

    values: Mapping[str, Tensor]
    uncertainty: Tensor
    flagged: Tensor
    depths: Tensor | None = None

    def __len__(self) -> int:
        return len(self.flagged)

    def __getattr__(self, name: str) -> Tensor:
        values = self.__dict__.get("values", {})
        if name not in values:
            raise AttributeError(f"Expected one of {', '.join(values)}, flagged. Got {name!r}.")
        found: Tensor = values[name]
        return found


@dataclass(frozen=True)
class Predictor:
    """An artifact that is ready to predict, on the CPU.

    Args:
        forward: the networks, including preprocessing.
        task: what is predicted.
        columns: of a table; empty for other data.
        input_shape: of one raw example, or of each of its named inputs.
        input_dtype: of raw examples, or of each input: uint8, float32, int64 (tokens) or bool (masks).
        threshold: the uncertainty above which an example is flagged.
        conformal: the values of prediction sets or intervals; empty without any.
        exits: the depths at which examples may leave early; empty without early exit.
        masks: padded input -> the input that is true for its real tokens.
    """

    forward: Forward
    task: Task
    columns: tuple[Column, ...]
    input_shape: InputShape
    input_dtype: InputType
    threshold: float
    conformal: Mapping[str, Any] = field(default_factory=dict)
    exits: tuple[int, ...] = ()
    masks: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(
        cls, folder: str | Path, *, module: Builder | None = None, early_exit: bool | float = False, verify: bool = True
    ) -> "Predictor":
        """Loads the folder of an artifact without importing or unpickling anything that its files name.

        Args:
            module: makes the user's own network; without it such an artifact runs its ``model.onnx``.
            early_exit: whether examples leave a mixture over depths early, which needs members that share one network:
                True at the confidence of the artifact, or a confidence; above 1 no example leaves.
            verify: whether files must have the checksums of the metadata, where it has some.
        """
        folder = Path(folder)
        description, metadata = read_records(folder)
        forward: Forward
        exits: tuple[int, ...] = ()
        if early_exit is not False:
            if not description.shared:
                raise InvalidInput(
                    f"Expected members that share one network for early exit. Found separate networks in {folder}."
                )
            confidence = metadata.exit_confidence if early_exit is True else early_exit
            if confidence is None:
                raise InvalidInput(
                    f"Expected a confidence for early exit. Got none, and found none that was chosen for {folder}."
                )
            forward, exits = _early_exit(load_artifact(folder, module=module, verify=verify), confidence)
        elif is_own_module(description.network) and module is None:
            forward = _onnx_program(folder, metadata.described_task.readouts, metadata.input_shape, verify=verify)
        else:
            forward = Program.of(load_artifact(folder, module=module, verify=verify))
        return cls(
            forward=forward,
            task=metadata.described_task,
            columns=tuple(Column(column.name, column.categories) for column in metadata.columns),
            input_shape=metadata.input_shape,
            input_dtype=metadata.input_dtype,
            threshold=metadata.threshold,
            conformal=metadata.conformal,
            exits=exits,
            masks=metadata.masks,
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names in the order of the probabilities; empty where no classes are predicted."""
        return self.task.names if isinstance(self.task, Classification) else ()

    @property
    def sets(self) -> ConformalSets | None:
        """What makes prediction sets from probabilities; None where there are none."""
        return prediction_sets(self.conformal) if isinstance(self.task, Classification) else None

    @property
    def is_table(self) -> bool:
        """Whether examples are rows of a table with named columns."""
        return bool(self.columns)

    @property
    def is_image(self) -> bool:
        """Whether examples are images (C, H, W)."""
        return isinstance(self.input_shape, tuple) and len(self.input_shape) == 3

    @property
    def batch_size(self) -> int:
        """The number of examples that go through the networks at once."""
        shapes = self.input_shape.values() if isinstance(self.input_shape, dict) else [self.input_shape]
        return max(1, min(MOST_EXAMPLES, MOST_VALUES // max(sum(map(math.prod, shapes)), 1)))

    def __call__(self, inputs: Any, *, names: Sequence[str] | None = None) -> Predictions:
        """Predictions for (B, *input_shape) raw examples of ``input_dtype``; error messages use their names.

        Args:
            inputs: a tensor, a mapping of names to tensors, or sequences of tokens to pad; see `completed`.
        """
        inputs = self.completed(inputs)
        self.check(inputs, names=names)
        if not len(inputs):
            return self._nothing()
        with torch.no_grad():
            outputs = [self._outputs(batch) for batch in inputs.cpu().split(self.batch_size)]
        *read, positions = (torch.cat(parts) for parts in zip(*outputs, strict=True))
        if not self.exits:
            read.append(positions)
        values = dict(zip(self.task.readouts, read, strict=False))
        width = len(self.task.names) or self.task.outputs
        for name, shape in self.task.readouts.items():
            wanted = (len(inputs),) if shape.startswith("(B,)") else (len(inputs), width)
            if name not in values or values[name].shape != wanted:
                found = tuple(values[name].shape) if name in values else "nothing"
                raise CorruptFile(f"Expected {name} of shape {wanted}. Found {found}.")
        finite = torch.stack([value.isfinite().reshape(len(inputs), -1).all(1) for value in values.values()]).all(0)
        if not finite.all():
            raise NotFiniteError(
                f"Expected a finite prediction for every example. Found NaN for {_first(~finite, names)}; "
                "its values may be too large for the network."
            )
        depths = torch.tensor(self.exits)[positions] if self.exits else None
        uncertainty = self.task.uncertainty(read)
        return Predictions(values, uncertainty, uncertainty > self.threshold, depths)

    def _nothing(self) -> Predictions:
        """The predictions for no examples."""
        width, none = len(self.task.names) or self.task.outputs, torch.empty(0)
        shapes = {name: (0,) if shape.startswith("(B,)") else (0, width) for name, shape in self.task.readouts.items()}
        values = {name: torch.empty(shape) for name, shape in shapes.items()}
        return Predictions(values, none, none.bool(), none.long() if self.exits else None)

    def _outputs(self, batch: Inputs) -> Sequence[Tensor]:
        try:
            return run_program(self.forward, batch)
        except (IndexError, CorruptFile) as error:
            if isinstance(error, CorruptFile) and "out of data bounds" not in str(error):
                raise
            raise DataError("Expected tokens that the network has embeddings for. Found a larger one.") from None

    def completed(self, inputs: Any) -> Inputs:
        """The inputs with what follows from them: sequences padded to the length of the network's, and their masks.

        Args:
            inputs: by name, without the masks of sequences that are not padded yet. A network that reads nothing but
                one sequence also takes a list of them.
        """
        if not isinstance(self.input_shape, dict) or isinstance(inputs, NamedInputs):
            found: Inputs = inputs
            return found
        asked = [name for name in self.input_shape if name not in self.masks.values()]
        given = dict(inputs) if isinstance(inputs, Mapping) else {asked[0]: inputs} if len(asked) == 1 else {}
        if not given:
            raise InvalidInput(f"Expected the inputs {', '.join(asked)} by name. Got {type(inputs).__name__}.")
        for name, mask in self.masks.items():
            if name in given and mask not in given:
                (length,) = self.input_shape[name]
                given[name], given[mask] = padded(list(given[name]), repr(name), length=length)
        if given.keys() != self.input_shape.keys():
            raise InvalidInput(f"Expected the inputs {', '.join(asked)}. Got {', '.join(map(str, given))}.")
        return NamedInputs({name: given[name] for name in self.input_shape})

    def predict_proba(self, inputs: Any) -> Tensor:
        """Calibrated probabilities, (B, classes) or (B, labels)."""
        return self(inputs).probabilities

    def predict(self, inputs: Any) -> list[Any]:
        """For every example the name of its class, the names of its labels, or the expected value of every number."""
        return self.task.predicted(list(self(inputs).values.values()))

    def check(self, inputs: Inputs, *, names: Sequence[str] | None = None) -> None:
        """Raises unless these are finite raw examples of the right shape and type; rows of tables may have NaN."""
        if shape_of(inputs) != self.input_shape or type_of(inputs) != self.input_dtype:
            shape = self.input_shape
            wanted = f"(N, {', '.join(map(str, shape))})" if isinstance(shape, tuple) else shape
            raise InvalidInput(
                f"Expected examples of shape {wanted} as {self.input_dtype}. "
                f"Got {shape_text(inputs)} as {type_of(inputs)}."
            )
        for tensor in tensors_of(inputs):
            if tensor.is_floating_point():
                wrong = tensor.isinf() if self.is_table else ~tensor.isfinite()
                if wrong.any():
                    kind = "infinity" if self.is_table else "NaN or infinity"
                    row = _first(wrong.flatten(1).any(1), names)
                    raise DataError(f"Expected finite values. Found {kind} in {row}.")
            elif tensor.dtype == torch.int64 and (tensor < 0).any():
                row = _first((tensor < 0).flatten(1).any(1), names)
                raise DataError(f"Expected tokens of 0 or more. Found a negative one in {row}.")


def _first(rows: Tensor, names: Sequence[str] | None) -> str:
    """The name of the first true row of (B,)."""
    row = int(rows.nonzero()[0])
    return names[row] if names else f"example {row}"


def _onnx_program(folder: Path, readouts: Iterable[str], shape: InputShape, *, verify: bool) -> OnnxSession:
    path = folder / PROGRAM_FILES["onnx"]
    if path.resolve().parent != folder.resolve():
        raise CorruptFile(f"Expected {path} in the folder of the artifact. Found a link to {path.resolve()}.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CorruptFile(
            f"Expected {path}, to run a network of your own without its code. Found: {error.strerror}."
        ) from None
    if verify:
        check_files(folder, (ARCHITECTURE_FILE, PROGRAM_FILES["onnx"]))
    names = list(shape) if isinstance(shape, dict) else ["inputs"]
    return OnnxSession(content, "Running a network of your own without its code", readouts, names)


def _early_exit(artifact: Artifact, confidence: float) -> tuple[Forward, tuple[int, ...]]:
    """The artifact with early exit, and the depths of its exits."""
    if not isinstance(artifact.task, Classification):
        raise InvalidInput(f"Expected classes for early exit. Got the task {artifact.task.kind}.")
    if not isinstance(artifact.networks, Exits):
        raise InvalidInput("Expected a network with exits at several depths for early exit. Got one without.")
    weights = [member.weight for member in artifact.members]
    network = EarlyExit(artifact.networks, weights, confidence, artifact.calibration.temperature)
    depths = tuple(int(option) for member in artifact.members for option in member.architecture.values())
    return Program(artifact.preprocessing, network).eval(), depths
