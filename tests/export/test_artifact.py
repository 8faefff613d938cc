"""Artifacts survive the disk, and damaged ones are recognised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from polyarch.errors import CorruptFile
from polyarch.export import Artifact, read_artifact, write_artifact
from polyarch.export.artifact import weights_of
from polyarch.jobs.loading import load_network
from polyarch.jobs.settings import CellSettings


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, torch.nn.Module]:
    settings = CellSettings(channels=4)
    net = settings.build((3, 8, 8), 5)
    architecture = net.space.sample(torch.Generator().manual_seed(3))
    network = net.extract(architecture).eval()
    artifact = Artifact(
        architecture=architecture.to_dict(),
        network=settings.model_dump(mode="json"),
        preprocessing={"mean": [0.5] * 3, "std": [0.2] * 3},
        input_shape=(3, 8, 8),
        classes=tuple("abcde"),
        weights=weights_of(network),
    )
    write_artifact(tmp_path / "artifact", artifact)
    return tmp_path / "artifact", network


def test_round_trip(written: tuple[Path, torch.nn.Module]) -> None:
    folder, network = written
    artifact = read_artifact(folder)
    assert artifact.classes == tuple("abcde") and artifact.input_shape == (3, 8, 8)
    x = torch.randn(4, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(load_network(folder)(x), network(x))


def test_damage_is_recognised(written: tuple[Path, torch.nn.Module]) -> None:
    folder, _ = written
    description = folder / "architecture.json"
    content = json.loads(description.read_text())
    for broken in ({**content, "format": 9}, {**content, "architecture": {}}, {**content, "network": {"kind": "?"}}):
        description.write_text(json.dumps(broken))
        with pytest.raises(CorruptFile, match="Expected"):
            load_network(folder)
    description.write_text(json.dumps(content))
    (folder / "weights.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(CorruptFile, match="to hold weights"):
        load_network(folder)
