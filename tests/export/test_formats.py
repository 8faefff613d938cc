"""Exported programs compute what the networks compute, or are not written."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import polyarch
from polyarch.errors import ExportMismatch, InvalidInput, MissingExtra, UnknownName
from polyarch.export import Artifact, Member, OnnxSession, Program, export_programs, weights_of, write_artifact
from polyarch.export.formats import random_inputs
from polyarch.export.weights import distinct_weights_of
from polyarch.nn import StackedNetworks
from polyarch.tasks import Regression


class Whole(NamedTuple):
    """An artifact with its programs in a folder, raw examples, and the differences that were measured."""

    folder: Path
    artifact: Artifact
    inputs: Tensor
    differences: dict[str, float]

    @property
    def scale(self) -> Tensor:
        """What a difference of 1 is: the standard deviation of numbers."""
        task = self.artifact.task
        return torch.tensor(task.scale if isinstance(task, Regression) else (1.0,))


KINDS = ["image ensemble", "table", "vector shared", "numbers ensemble"]
MORE_KINDS = ["image", "image shared", "table ensemble", "vector", "numbers", "labels ensemble"]
"""Every preprocessing with every way of having members, and every task: exporting takes seconds."""


@pytest.fixture(scope="module", params=[*KINDS, *(pytest.param(kind, marks=pytest.mark.slow) for kind in MORE_KINDS)])
def whole(request: pytest.FixtureRequest, examples: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    kind, _, members = request.param.partition(" ")
    if members == "shared":
        artifact = getattr(examples, f"shared_{kind}_artifact")()
    else:
        artifact = getattr(examples, f"{kind}_artifact")(2 if members else 1)
    inputs = {"image": examples.images, "table": examples.rows}.get(kind, examples.vectors)(20, seed=1)
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "_"))
    known = inputs[:1] if kind == "vector" else inputs  # one example is enough
    return Whole(folder, artifact, inputs, examples.write_whole(folder, artifact, known))


def test_programs_agree_with_the_networks(whole: Whole) -> None:
    assert set(whole.differences) == {"model.pt2", "model.onnx"}
    assert max(whole.differences.values()) < 1e-5
    noted = json.loads((whole.folder / "metadata.json").read_text())["exports"]
    assert {name: value["largest_difference"] for name, value in noted.items()} == whole.differences
    assert all(value["tolerance"] == 1e-4 for value in noted.values())
    session = OnnxSession((whole.folder / "model.onnx").read_bytes(), "", whole.artifact.task.readouts)
    with torch.no_grad():
        for size in (1, 3, 20):
            expected = Program.of(whole.artifact)(whole.inputs[:size])
            for found, wanted in zip(session(whole.inputs[:size]), expected, strict=True):
                torch.testing.assert_close(found / whole.scale, wanted / whole.scale, atol=1e-5, rtol=0)


def test_the_onnx_file_is_whole_and_named(whole: Whole) -> None:
    model = onnx.load(whole.folder / "model.onnx", load_external_data=False)
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == ["inputs"]
    assert [value.name for value in model.graph.output] == list(whole.artifact.task.readouts)
    batch = model.graph.input[0].type.tensor_type.shape.dim[0]
    assert batch.dim_param and not batch.dim_value
    assert not any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer)
    files = {"architecture.json", "metadata.json", "weights.safetensors", "model.pt2", "model.onnx"}
    assert {path.name for path in whole.folder.iterdir()} == files


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
        assert (numpy.abs(value - known[name]) / known["scale"]).max() < 1e-5, (program, name)

weights = safetensors.torch.load_file(folder / "weights.safetensors")
for name, value in weights.items():
    assert numpy.array_equal(value.numpy(), known["weights." + name])
assert len(weights) == sum(name.startswith("weights.") for name in known)
assert len(metadata["task"]["names"]) == found["onnx"][0].shape[1]
assert not any(name.partition(".")[0] == "polyarch" for name in sys.modules)
print("agreed on", len(inputs))
"""


@pytest.mark.slow
@pytest.mark.parametrize("whole", ["image shared", "table ensemble", "vector", "numbers"], indirect=True)
def test_programs_run_where_polyarch_cannot_be_imported(whole: Whole, tmp_path: Path) -> None:
    with torch.no_grad():
        outputs = Program.of(whole.artifact)(whole.inputs)
    names = list(whole.artifact.task.readouts)
    known = {name: value.numpy() for name, value in zip(names, outputs, strict=True)} | {"scale": whole.scale.numpy()}
    read = distinct_weights_of if whole.artifact.shared else weights_of
    for name, value in read(whole.artifact.networks).items():
        known[f"weights.{name}"] = value.numpy()
    np.savez(tmp_path / "known.npz", inputs=whole.inputs.numpy(), **known)
    command = [sys.executable, "-I", "-c", STRANGER, str(whole.folder), str(tmp_path / "known.npz")]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == f"agreed on {len(whole.inputs)}\n"


def test_programs_do_not_tell_where_they_were_made(whole: Whole) -> None:
    with zipfile.ZipFile(whole.folder / "model.pt2") as archive:
        contents = [archive.read(name) for name in archive.namelist()]
    contents.append((whole.folder / "model.onnx").read_bytes())
    for place in (Path(polyarch.__file__).parent, Path(torch.__file__).parent, Path.home()):
        assert not any(str(place).encode() in content for content in contents)


def test_the_original_stays_as_it_is(tmp_path: Path, examples: ModuleType) -> None:
    artifact = examples.image_artifact()
    network = artifact.networks[0].train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    write_artifact(tmp_path, artifact)
    export_programs(tmp_path, artifact, examples.images(4), formats=("pt2",))
    assert network.training
    assert network.get_parameter("stem.0.weight").is_contiguous(memory_format=torch.channels_last)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_random_inputs_are_like_the_examples(examples: ModuleType) -> None:
    table, rows = examples.table_artifact(), examples.rows(30)
    rows[:, 2] = torch.nan  # a column without any value
    batches = list(random_inputs(table, rows))
    assert {1, 7} <= {len(batch) for batch in batches}
    values = torch.cat(batches)
    assert values.isnan().any() and not values.isinf().any()
    age = rows[:, 0][~rows[:, 0].isnan()]
    known = values[:, 0][~values[:, 0].isnan()]
    assert age.min() <= known.min() and known.max() <= age.max()
    assert set(values[:, 1][~values[:, 1].isnan()].tolist()) == {-1.0, 0.0, 1.0, 2.0}
    assert all(batch.dtype == torch.uint8 for batch in random_inputs(examples.image_artifact(), examples.images(3)))


class Drifting(nn.Module):
    """Gives something else every time it is copied into a program."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.linear = nn.Linear(2, outputs)

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            return self.linear(1.1 * x)  # type: ignore[no-any-return]
        return self.linear(x)  # type: ignore[no-any-return]


class Branching(nn.Module):
    """Looks at the values to decide what to do."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if float(x.sum()) > 0 else x


class BatchBound(nn.Module):
    """Works for one batch size alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.zeros(2, 2) if len(x) == 2 else x.repeat(1, 1)


def own(examples: ModuleType, network: nn.Module) -> Artifact:
    artifact: Artifact = examples.vector_artifact()
    return replace(
        artifact,
        network={"kind": "module", "module": "x:y"},
        members=(Member({}, 1.0),),
        networks=StackedNetworks([network]),
    )


@pytest.mark.parametrize("name", ["pt2", "onnx"])
def test_a_mismatch_leaves_no_file_and_nothing_is_printed(
    name: str, tmp_path: Path, examples: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    artifact = own(examples, Drifting())
    write_artifact(tmp_path, artifact)
    (tmp_path / f"model.{name}").write_bytes(b"of an earlier time")
    with pytest.raises(ExportMismatch, match=f"model.{name} to agree .* Found a difference"):
        export_programs(tmp_path, artifact, examples.vectors(4), formats=(name,))
    assert {path.name for path in tmp_path.iterdir()} == {"architecture.json", "metadata.json", "weights.safetensors"}
    assert json.loads((tmp_path / "metadata.json").read_text())["exports"] == {}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["pt2", "onnx"])
@pytest.mark.parametrize("network", [Branching(), BatchBound()], ids=lambda network: type(network).__name__)
def test_what_cannot_be_exported_is_one_sentence(
    name: str, network: nn.Module, tmp_path: Path, examples: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    artifact = own(examples, network)
    write_artifact(tmp_path, artifact)
    with pytest.raises((InvalidInput, ExportMismatch), match="Expected") as caught:
        export_programs(tmp_path, artifact, examples.vectors(4), formats=(name,))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / f"model.{name}").exists()


def test_numbers_are_compared_in_units_of_their_scale(tmp_path: Path, examples: ModuleType) -> None:
    """Single precision is good for seven digits: of a price of half a million, the cents are lost."""
    artifact = examples.numbers_artifact()
    write_artifact(tmp_path, artifact)
    found = export_programs(tmp_path, artifact, examples.vectors(4), formats=("onnx",))
    assert found["model.onnx"] < 1e-5
    drifting = replace(artifact, networks=StackedNetworks([Drifting(4)]), members=(Member({}, 1.0),))
    with pytest.raises(ExportMismatch, match="Found a difference"):
        export_programs(tmp_path, drifting, examples.vectors(4), formats=("pt2",))


def test_not_a_number_is_a_mismatch(tmp_path: Path, examples: ModuleType) -> None:
    network = nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.fill_(torch.nan)
    artifact = own(examples, network)
    write_artifact(tmp_path, artifact)
    with pytest.raises(ExportMismatch, match="difference of nan"):
        export_programs(tmp_path, artifact, examples.vectors(4), formats=("pt2",))


def test_examples_and_formats_are_checked(tmp_path: Path, examples: ModuleType) -> None:
    artifact = examples.vector_artifact()
    write_artifact(tmp_path, artifact)
    for wrong in (torch.zeros(3, 4), torch.zeros(3, 2, dtype=torch.float64), torch.zeros(0, 2)):
        with pytest.raises(InvalidInput, match="Expected examples of shape"):
            export_programs(tmp_path, artifact, wrong)
    with pytest.raises(UnknownName, match="Did you mean 'onnx'"):
        export_programs(tmp_path, artifact, examples.vectors(2), formats=("onxx",))


def test_onnx_packages_may_be_missing(tmp_path: Path, examples: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = examples.vector_artifact()
    write_artifact(tmp_path, artifact)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"Exporting to ONNX needs .* 'polyarch\[onnx\]'"):
        export_programs(tmp_path, artifact, examples.vectors(2), formats=("onnx",))
