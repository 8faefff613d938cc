"""Running an ONNX program."""

from __future__ import annotations

import torch
from torch import Tensor

from polyarch.errors import CorruptFile, MissingExtra
from polyarch.export.records import OUTPUTS
from polyarch.export.sentences import one_line


class OnnxSession:
    """A program in onnxruntime, on the CPU, with as many threads as torch has.

    Args:
        content: the bytes of ``model.onnx``.
        feature: what the user wants it for, should onnxruntime be missing.
    """

    def __init__(self, content: bytes, feature: str) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtra(feature, "onnx") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # what goes wrong is raised, no need to print it too
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            inputs = [value.name for value in self._session.get_inputs()]
            outputs = [value.name for value in self._session.get_outputs()]
        except Exception as error:  # onnxruntime's own exceptions have no common base
            raise CorruptFile(f"Expected an ONNX program. Found: {one_line(error)}.") from None
        if inputs != ["inputs"] or outputs != list(OUTPUTS):
            raise CorruptFile(
                f"Expected an ONNX program from inputs to {', '.join(OUTPUTS)}. Found {inputs}, {outputs}."
            )

    def __call__(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, ...) raw examples -> probabilities (B, C), entropy (B,), mutual information (B,)."""
        try:
            values = self._session.run(list(OUTPUTS), {"inputs": inputs.numpy()})
        except Exception as error:  # see above
            raise CorruptFile(
                f"Expected the ONNX program to take {tuple(inputs.shape)}. Found: {one_line(error)}."
            ) from None
        probabilities, entropy, mutual_information = (torch.from_numpy(value) for value in values)
        return probabilities, entropy, mutual_information
