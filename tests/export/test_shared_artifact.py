"""Artifacts whose members are exits of one network."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from artifact_damage import Change, assert_refused, damage, damage_at_random
from safetensors.torch import load_file, save_file

from polyarch.errors import InvalidInput
from polyarch.export import Artifact, Program, write_artifact
from polyarch.nn import Exits
from polyarch.prediction.loading import load_artifact, load_network


@pytest.fixture(scope="module", params=["image", "vector"])
def kept(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, examples: ModuleType
) -> tuple[Path, Artifact]:
    """An artifact and its folder; tests read them only."""
    folder, artifact = tmp_path_factory.mktemp("shared"), getattr(examples, f"shared_{request.param}_artifact")()
    write_artifact(folder, artifact)
    return folder, artifact


@pytest.fixture
def shared(kept: tuple[Path, Artifact], tmp_path: Path) -> tuple[Path, Artifact]:
    """The same in a folder of its own."""
    return Path(shutil.copytree(kept[0], tmp_path / "artifact")), kept[1]


def test_round_trip(shared: tuple[Path, Artifact], examples: ModuleType) -> None:
    folder, artifact = shared
    read = load_artifact(folder)
    same = [name for name in Artifact.__dataclass_fields__ if name != "networks"]
    assert [getattr(read, name) for name in same] == [getattr(artifact, name) for name in same]
    assert read.shared and isinstance(read.networks, Exits) and not read.networks.training
    inputs = (examples.images if artifact.input_dtype == torch.uint8 else examples.vectors)(9)
    with torch.no_grad():
        for found, expected in zip(Program.of(read)(inputs), Program.of(artifact)(inputs), strict=True):
            assert torch.equal(found, expected)


def test_the_same_weights_give_the_same_bytes(shared: tuple[Path, Artifact]) -> None:
    folder, _ = shared
    write_artifact(folder.with_name("second"), load_artifact(folder))
    for file in ("weights.safetensors", "architecture.json", "metadata.json"):
        assert (folder / file).read_bytes() == (folder.with_name("second") / file).read_bytes()


def test_weights_are_shared_in_the_file_and_after_it(shared: tuple[Path, Artifact]) -> None:
    """Every tensor once: the head of the first exit is that of all."""
    folder, artifact = shared
    parameters = sum(value.numel() for value in artifact.networks.parameters())
    buffers = sum(value.numel() for value in artifact.networks.buffers())
    stored = load_file(folder / "weights.safetensors").values()
    assert sum(value.numel() for value in stored) == parameters + buffers
    read = load_artifact(folder).networks
    assert sum(value.numel() for value in read.parameters()) == parameters
    with torch.no_grad():
        name = next(name for name, _ in read.named_parameters() if name.startswith("heads.0"))
        read.get_parameter(name).fill_(7.0)
    assert bool((read.get_parameter(name.replace("heads.0", "heads.2")) == 7).all())


def test_what_others_read(shared: tuple[Path, Artifact]) -> None:
    folder, artifact = shared
    description = json.loads((folder / "architecture.json").read_text())
    assert description["format"] == 2 and description["shared"] is True
    assert [member["architecture"]["depth"] for member in description["members"]] == ["0", "1", "2"]
    assert json.loads((folder / "metadata.json").read_text())["exit_confidence"] == artifact.exit_confidence


def test_separate_networks_are_written_as_before(written: tuple[Path, Artifact]) -> None:
    assert "shared" not in json.loads((written[0] / "architecture.json").read_text())
    assert "exit_confidence" not in json.loads((written[0] / "metadata.json").read_text())


def test_a_confidence_may_be_missing(shared: tuple[Path, Artifact]) -> None:
    folder, artifact = shared
    write_artifact(folder, replace(artifact, exit_confidence=None))
    assert load_artifact(folder).exit_confidence is None


def test_there_is_no_network_of_one_member(shared: tuple[Path, Artifact]) -> None:
    with pytest.raises(InvalidInput, match="a network for every member"):
        load_network(shared[0])


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(shared=False),
        lambda content: content.update(shared=1),
        lambda content: content.update(shared="true"),
        lambda content: content.update(shared=None),
        lambda content: content["members"].reverse(),
        lambda content: content["members"].pop(),
        lambda content: content["members"].append(content["members"][0]),
        lambda content: content["members"].append({"architecture": {"depth": "3"}, "weight": 1.0}),
        lambda content: content["members"].append({"architecture": {"depth": "4"}, "weight": 1.0}),
        lambda content: content["members"][0].update(architecture={"depth": 0}),
        lambda content: content["members"][0].update(weight=0.0),
        lambda content: content["network"].update(max_depth=1),
        lambda content: content["network"].update(max_depth=1 << 40),
        lambda content: content["network"].update(kind="mlp"),
        lambda content: content.update(network={"kind": "module", "module": "os:getcwd"}),
    ],
)
def test_wrong_descriptions_are_one_sentence(shared: tuple[Path, Artifact], change: Change) -> None:
    damage(shared[0], "architecture.json", change)


@pytest.mark.parametrize("value", [0.0, -0.5, 1.5, float("nan"), float("inf"), "0.9", True, [0.9]])
def test_wrong_confidences_are_one_sentence(shared: tuple[Path, Artifact], value: object) -> None:
    damage(shared[0], "metadata.json", lambda content: content.update(exit_confidence=value))


def test_separate_networks_have_no_confidence_and_share_nothing(written: tuple[Path, Artifact]) -> None:
    folder, artifact = written
    with pytest.raises(InvalidInput, match="members that share one network for exit_confidence"):
        write_artifact(folder.with_name("other"), replace(artifact, exit_confidence=0.5))
    whole = (folder / "architecture.json").read_text()
    damage(folder, "architecture.json", lambda content: content.update(shared=True))
    (folder / "architecture.json").write_text(whole)
    damage(folder, "metadata.json", lambda content: content.update(exit_confidence=0.5))


def test_foreign_weights_are_one_sentence(shared: tuple[Path, Artifact]) -> None:
    folder, _ = shared
    path = folder / "weights.safetensors"
    weights = load_file(path)
    first = next(name for name in weights if name.startswith("heads.0"))
    for changed in (
        {**weights, "heads.7.weight": torch.zeros(1)},
        {name: value for name, value in weights.items() if name != first},
        {**weights, first: torch.zeros(1, 2, 3)},
        {f"0.{name}": value for name, value in weights.items()},
    ):
        save_file(changed, path)
        assert_refused(folder)


def test_random_damage_never_crashes(shared: tuple[Path, Artifact]) -> None:
    damage_at_random(shared[0], times=30)
