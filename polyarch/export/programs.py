"""What runs raw examples: preprocessing and networks in one program, and ONNX programs."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.data import Inputs, NamedInputs, Preprocessing
from polyarch.data.named_inputs import shape_text
from polyarch.errors import CorruptFile, MissingExtra
from polyarch.export.artifact import Artifact
from polyarch.export.records import one_line
from polyarch.nn.channel_selection import with_planes
from polyarch.predictive import EarlyExit, Mixture

Forward = Callable[..., Sequence[Tensor]]
"""Raw examples (B, ...), or several inputs by name -> the readouts of the task and, with early exit, the exits used."""


class OnnxSession:
    """An ONNX program on the CPU, with as many threads as torch uses.

    Args:
        feature: its purpose, for errors.
        readouts: the names of its outputs.
        names: of its inputs.
    """

    def __init__(
        self, content: bytes, feature: str, readouts: Iterable[str], names: Sequence[str] = ("inputs",)
    ) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtra(feature, "onnx") from None
        _refuse_external_data(content, feature)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # errors are raised, so they need not be printed
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            inputs = [value.name for value in self._session.get_inputs()]
            outputs = [value.name for value in self._session.get_outputs()]
        except Exception as error:  # onnxruntime's own exceptions have no common base
            raise CorruptFile(f"Expected an ONNX program. Found: {one_line(error)}.") from None
        self._readouts = list(readouts)
        if inputs != list(names) or outputs != self._readouts:
            raise CorruptFile(
                f"Expected an ONNX program from {', '.join(names)} to {', '.join(self._readouts)}. "
                f"Found {inputs}, {outputs}."
            )

    def __call__(self, inputs: Tensor | None = None, /, **named: Tensor) -> tuple[Tensor, ...]:
        """(B, ...) raw examples, or several inputs by name -> the readouts."""
        tensors = named if inputs is None else {"inputs": inputs}
        try:
            values = self._session.run(self._readouts, {name: tensor.numpy() for name, tensor in tensors.items()})
        except Exception as error:  # no common base, as above
            shape = shape_text(NamedInputs.unchecked(named) if inputs is None else inputs)
            raise CorruptFile(f"Expected the ONNX program to accept shape {shape}. Found: {one_line(error)}.") from None
        return tuple(torch.from_numpy(value) for value in values)


def _refuse_external_data(content: bytes, feature: str) -> None:
    """Refuses programs whose tensors lie in other files: a program may read nothing but itself."""
    try:
        import onnx
    except ImportError:
        raise MissingExtra(feature, "onnx") from None

    def places(message: Any) -> Iterator[str]:
        if isinstance(message, onnx.TensorProto):
            if message.data_location == onnx.TensorProto.EXTERNAL:
                yield next((entry.value for entry in message.external_data if entry.key == "location"), "")
            return
        for field, value in message.ListFields():
            if field.message_type is not None:
                for part in value if isinstance(value, Sequence) else [value]:
                    yield from places(part)

    try:
        place = next(places(onnx.ModelProto.FromString(content)), None)
    except Exception as error:  # protobuf's own
        raise CorruptFile(f"Expected an ONNX program. Found: {one_line(error)}.") from None
    if place is not None:
        raise CorruptFile(f"Expected an ONNX program without external data. Found a tensor in {place!r}.")


class Program(nn.Module):
    """Preprocesses raw examples (B, ...) and applies the mixture; with early exit it also returns the exits used."""

    def __init__(self, preprocessing: Preprocessing, mixture: Mixture | EarlyExit) -> None:
        super().__init__()
        self.preprocessing = preprocessing
        self.mixture = mixture

    @classmethod
    def of(cls, artifact: Artifact) -> "Program":
        """A program of copied networks on the CPU, in evaluation mode and in the contiguous memory format."""
        weights = [member.weight for member in artifact.members]
        networks = with_planes(copy.deepcopy(artifact.networks))
        calibration = artifact.calibration
        read = artifact.task.reading(calibration.conformal)
        mixture = Mixture(networks, weights, temperature=calibration.temperature, read=read)
        program = (
            NamedProgram(artifact.preprocessing, mixture)
            if isinstance(artifact.input_shape, dict)
            else cls(artifact.preprocessing, mixture)
        )
        # Channels-last strides would become constants of the exported graph.
        return program.to("cpu").to(memory_format=torch.contiguous_format).eval()  # type: ignore[call-overload, no-any-return]

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """(B, ...) raw examples -> the readouts of the task and, with early exit, the exits used."""
        outputs: tuple[Tensor, ...] = self.mixture(self.preprocessing(inputs))
        return outputs


class NamedProgram(Program):
    """The same for several inputs, which are arguments by name: program(image=..., table=...)."""

    def forward(self, **inputs: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        """Named raw examples (B, ...) each -> what a `Program` returns."""
        outputs: tuple[Tensor, ...] = self.mixture(self.preprocessing(NamedInputs.unchecked(inputs)))
        return outputs


def run_program(forward: Forward, inputs: Inputs) -> Sequence[Tensor]:
    """The outputs of a program for raw examples."""
    return forward(**inputs) if isinstance(inputs, NamedInputs) else forward(inputs)
