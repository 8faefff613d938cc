"""What an artifact holds can be used by somebody who has never heard of polyarch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyarch.export import Program, weights_of

STRANGER = """
import importlib.abc, json, pathlib, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "polyarch":
            raise ImportError("not here")

sys.meta_path.insert(0, Blocked())
try:
    import polyarch
except ImportError:
    pass
else:
    raise SystemExit("polyarch can be imported")

import numpy, onnxruntime, safetensors.torch, torch

folder = pathlib.Path(sys.argv[1])
known = numpy.load(sys.argv[2])
metadata = json.loads((folder / "metadata.json").read_text())
inputs = known["inputs"]
assert list(inputs.shape[1:]) == metadata["input"]["shape"] and str(inputs.dtype) == metadata["input"]["dtype"]
names = list(metadata["outputs"])

exported = torch.export.load(folder / "model.pt2")
with torch.no_grad():
    found = {"pt2": [value.numpy() for value in exported.module()(torch.from_numpy(inputs))]}
session = onnxruntime.InferenceSession(folder / "model.onnx")
found["onnx"] = session.run(names, {"inputs": inputs})
for program, values in found.items():
    for name, value in zip(names, values, strict=True):
        assert value.shape == known[name].shape, (program, name)
        assert numpy.abs(value - known[name]).max() < 1e-5, (program, name)

weights = safetensors.torch.load_file(folder / "weights.safetensors")
for name, value in weights.items():
    assert numpy.array_equal(value.numpy(), known["weights." + name])
assert len(weights) == sum(name.startswith("weights.") for name in known)
assert len(metadata["classes"]) == found["onnx"][0].shape[1]
assert not any(name.partition(".")[0] == "polyarch" for name in sys.modules)
print("agreed on", len(inputs))
"""


def test_programs_run_where_polyarch_cannot_be_imported(whole: Any, tmp_path: Path) -> None:
    with torch.no_grad():
        outputs = Program.of(whole.artifact)(whole.inputs)
    names = ("probabilities", "entropy", "mutual_information")
    known = {name: value.numpy() for name, value in zip(names, outputs, strict=True)}
    for index, member in enumerate(whole.artifact.members):
        for name, value in weights_of(member.network).items():
            known[f"weights.{index}.{name}"] = value.numpy()
    np.savez(tmp_path / "known.npz", inputs=whole.inputs.numpy(), **known)  # type: ignore[arg-type]
    command = [sys.executable, "-I", "-c", STRANGER, str(whole.folder), str(tmp_path / "known.npz")]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == f"agreed on {len(whole.inputs)}\n"
