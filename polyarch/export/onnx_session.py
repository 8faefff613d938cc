"""ONNX programs run by onnxruntime."""

import torch
from torch import Tensor

from polyarch.errors import CorruptFile, MissingExtra
from polyarch.export.records import OUTPUTS, one_line


class OnnxSession:
    """An ONNX program on the CPU, with as many threads as torch uses; ``feature`` names its purpose in errors."""

    def __init__(self, content: bytes, feature: str) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtra(feature, "onnx") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # errors are raised, so they need not be printed
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
        except Exception as error:  # no common base, as above
            raise CorruptFile(
                f"Expected the ONNX program to accept shape {tuple(inputs.shape)}. Found: {one_line(error)}."
            ) from None
        probabilities, entropy, mutual_information = (torch.from_numpy(value) for value in values)
        return probabilities, entropy, mutual_information
