"""Changed bits in the files of an artifact are noticed before anything is predicted."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from typer.testing import CliRunner

from polyarch.cli import app
from polyarch.errors import CorruptFile
from polyarch.export import Artifact, OnnxSession, export_programs, verify_artifact
from polyarch.prediction.loading import load_artifact
from polyarch.prediction.predictor import Predictor

FILES = ["architecture.json", "metadata.json", "weights.safetensors"]


def flip(path: Path, generator: random.Random) -> bytes:
    """Changes one bit; returns the content from before."""
    whole = path.read_bytes()
    content = bytearray(whole)
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    path.write_bytes(content)
    return whole


def refused_flips(folder: Path, name: str, count: int) -> int:
    """Flips so many bits of a file, one at a time, each of which must be refused or change no prediction."""
    shape = load_artifact(folder).input_shape
    assert isinstance(shape, tuple)
    inputs = torch.randint(0, 256, (4, *shape), dtype=torch.uint8)
    expected = Predictor.load(folder)(inputs)
    generator, refused = random.Random(0), 0
    for _ in range(count):
        whole = flip(folder / name, generator)
        try:
            if name not in FILES:
                verify_artifact(folder)
            found = Predictor.load(folder)(inputs)
        except CorruptFile as error:
            assert "\n" not in str(error)
            refused += 1
        else:
            assert all(torch.equal(found.values[key], expected.values[key]) for key in expected.values)
        (folder / name).write_bytes(whole)
    return refused


@pytest.mark.parametrize("name", FILES)
def test_no_flipped_bit_changes_predictions_silently(name: str, written: tuple[Path, Artifact]) -> None:
    """The bits of white space, and of the name of the checksums themselves, mean nothing."""
    assert refused_flips(written[0], name, 40) >= (40 if name != "metadata.json" else 30)


@pytest.mark.slow
def test_500_flipped_bits(written: tuple[Path, Artifact], examples: ModuleType) -> None:
    folder, artifact = written
    export_programs(folder, artifact, examples.images(4))
    refused = {name: refused_flips(folder, name, 100) for name in (*FILES, "model.pt2", "model.onnx")}
    print(f"refused of 100 each: {refused}; the others changed nothing")
    assert all(count == 100 for name, count in refused.items() if name != "metadata.json")


def test_who_must_can_load_it_nevertheless_and_earlier_artifacts_load(written: tuple[Path, Artifact]) -> None:
    folder, _ = written
    content = bytearray((folder / "weights.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "weights.safetensors").write_bytes(content)
    with pytest.raises(CorruptFile, match=r"weights\.safetensors to have its SHA-256 .* --no-verify"):
        Predictor.load(folder)
    Predictor.load(folder, verify=False)
    metadata = json.loads((folder / "metadata.json").read_text())
    del metadata["checksums"]
    (folder / "metadata.json").write_text(json.dumps(metadata))
    Predictor.load(folder)
    with pytest.raises(CorruptFile, match="Expected checksums"):
        verify_artifact(folder)


def test_programs_have_checksums_and_the_command_compares_all_files(written: tuple[Path, Artifact]) -> None:
    folder, artifact = written
    shape = (2, *artifact.input_shape)
    export_programs(folder, artifact, torch.randint(0, 256, shape, dtype=torch.uint8), formats=("pt2",))
    found = CliRunner().invoke(app, ["verify", str(folder)])
    assert found.exit_code == 0
    assert all(name in found.output.replace("\n", "") for name in [*FILES, "model.pt2"])
    with (folder / "model.pt2").open("ab") as file:
        file.write(b"more")
    with pytest.raises(CorruptFile, match=r"model\.pt2"):
        verify_artifact(folder)
    (folder / "model.pt2").unlink()
    with pytest.raises(CorruptFile, match=r"model\.pt2.*No such file"):
        verify_artifact(folder)
    Predictor.load(folder)  # which does not need the program


def test_a_program_that_is_not_listed_is_noticed(written: tuple[Path, Artifact]) -> None:
    folder, _ = written
    (folder / "model.onnx").write_bytes(b"another program")
    with pytest.raises(CorruptFile, match=r"model\.onnx"):
        verify_artifact(folder)


def external_program(location: str) -> bytes:
    """A program whose only tensor lies in a file."""
    tensor = onnx.numpy_helper.from_array(np.zeros((1, 3), dtype=np.float32), "weight")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    inputs = helper.make_tensor_value_info("inputs", TensorProto.FLOAT, ["batch", 3])
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", 3])
    node = helper.make_node("Add", ["inputs", "weight"], ["out"])
    model = helper.make_model(helper.make_graph([node], "graph", [inputs], [output], [tensor]))
    content: bytes = model.SerializeToString()
    return content


def test_programs_with_external_data_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_bytes(b"x" * 12)
    with pytest.raises(CorruptFile, match=r"without external data\. Found a tensor in 'secret'"):
        OnnxSession(external_program("secret"), "the test", ["out"])


def test_programs_of_own_networks_are_read_in_the_folder_only(written: tuple[Path, Artifact], tmp_path: Path) -> None:
    folder, _ = written
    for name, key in (("architecture.json", "network"), ("metadata.json", "checksums")):
        content = json.loads((folder / name).read_text())
        content[key] = {"kind": "module", "module": "own:net"} if key == "network" else {}
        (folder / name).write_text(json.dumps(content))
    (tmp_path / "outside.onnx").write_bytes(external_program("secret"))
    (folder / "model.onnx").symlink_to(tmp_path / "outside.onnx")
    with pytest.raises(CorruptFile, match=r"in the folder of the artifact\. Found a link"):
        Predictor.load(folder)
