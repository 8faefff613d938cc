"""Artifacts survive the disk, and damaged ones are recognised."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from polyarch.errors import CorruptFile, InvalidInput
from polyarch.export import Artifact, Member, Program, write_artifact
from polyarch.jobs.loading import load_artifact, load_network
from polyarch.jobs.space_settings import SPACES
from polyarch.nn import Exits, Stacked


@pytest.fixture
def written(tmp_path: Path, examples: ModuleType) -> tuple[Path, Artifact]:
    artifact = examples.image_artifact(2)
    write_artifact(tmp_path / "artifact", artifact)
    return tmp_path / "artifact", artifact


def test_round_trip(written: tuple[Path, Artifact], examples: ModuleType) -> None:
    folder, artifact = written
    read = load_artifact(folder)
    same = [name for name in Artifact.__dataclass_fields__ if name != "networks"]
    assert [getattr(read, name) for name in same] == [getattr(artifact, name) for name in same]
    inputs = examples.images(9)
    with torch.no_grad():
        for found, expected in zip(Program.of(read)(inputs), Program.of(artifact)(inputs), strict=True):
            assert torch.equal(found, expected)
        x = artifact.preprocessing(inputs)
        torch.testing.assert_close(load_network(folder)(x), artifact.networks.eval()(x)[0])


def test_tables_round_trip(tmp_path: Path, examples: ModuleType) -> None:
    artifact = examples.table_artifact()
    write_artifact(tmp_path, artifact)
    read = load_artifact(tmp_path)
    assert read.columns == artifact.columns and read.preprocessing == artifact.preprocessing
    assert read.classes == artifact.classes and read.input_dtype == torch.float32


def test_the_same_weights_give_the_same_bytes(tmp_path: Path, examples: ModuleType) -> None:
    artifact = examples.image_artifact(2)
    for name in ("first", "second"):
        write_artifact(tmp_path / name, artifact)
        artifact = load_artifact(tmp_path / name)  # contiguous this time, not channels-last
    for file in ("weights.safetensors", "architecture.json", "metadata.json"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


def test_what_others_read(written: tuple[Path, Artifact]) -> None:
    folder, artifact = written
    description = json.loads((folder / "architecture.json").read_text())
    assert description["format"] == 2 and description["input_shape"] == [3, 8, 8]
    assert description["members"][1] == {"architecture": artifact.members[1].architecture, "weight": 2.0}
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["classes"] == list("abcde") and metadata["input"] == {"shape": [3, 8, 8], "dtype": "uint8"}
    assert metadata["temperature"] == 1.3 and metadata["threshold"] == 1.2 and metadata["exports"] == {}
    assert set(metadata["outputs"]) == {"probabilities", "entropy", "mutual_information"}
    assert set(metadata["versions"]) == {"polyarch", "torch", "python"}
    names = load_file(folder / "weights.safetensors").keys()
    assert {name.split(".")[0] for name in names} == {"0", "1"}


def test_loading_uses_no_random_numbers(written: tuple[Path, Artifact]) -> None:
    before = torch.get_rng_state()
    load_artifact(written[0])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", sorted(set(SPACES) - {"auto", "module"}))
def test_every_space_loads(kind: str, tmp_path: Path, examples: ModuleType) -> None:
    small: dict[str, dict[str, Any]] = {
        "nb201": {"channels": 4},
        "nb101": {"channels": 2, "cells": 1},
        "darts": {"layers": 3, "channels": 2},
        "macro": {"channels": 4, "head_channels": 8},
        "depth_cnn": {"max_depth": 2, "channels": 4, "inner_channels": 2},
    }
    settings: Any = SPACES[kind](**small.get(kind, {}))
    net = settings.build((3, 8, 8), 5)
    architecture = net.space.sample(torch.Generator().manual_seed(1))
    network = net.extract(architecture)
    artifact = replace(
        examples.image_artifact(),
        network=settings.model_dump(mode="json"),
        members=(Member(architecture.to_dict(), 1.0),),
        networks=Stacked([network]),
    )
    write_artifact(tmp_path, artifact)
    x = torch.randn(3, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(load_network(tmp_path)(x), network.eval()(x))


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(format=1),
        lambda content: content.update(format=[2]),
        lambda content: content.update(members=[]),
        lambda content: content["members"].pop(),
        lambda content: content["members"][0].update(architecture={}),
        lambda content: content["members"][0].update(architecture={"0->1": 3}),
        lambda content: content["members"][0].update(weight=-1.0),
        lambda content: content["members"][0].update(weight=float("nan")),
        lambda content: content["members"][0].update(weight="1"),
        lambda content: content.update(network={"kind": "?"}),
        lambda content: content.update(network={"kind": "auto"}),
        lambda content: content.update(network={"kind": "module", "module": "os:getcwd"}),
        lambda content: content["network"].update(channels=8),
        lambda content: content["network"].update(channels=1 << 60),
        lambda content: content["network"].update(cells=1 << 40),
        lambda content: content["network"].update(operations=["none"] * 5),
        lambda content: content.update(input_shape=[3, 8]),
        lambda content: content.update(input_shape=[]),
        lambda content: content.update(input_shape=[3, -8, 8]),
        lambda content: content.pop("network"),
    ],
)
def test_wrong_descriptions_are_one_sentence(written: tuple[Path, Artifact], change: Change) -> None:
    _damage(written[0], "architecture.json", change)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(preprocessing={"kind": "?"}),
        lambda content: content.update(preprocessing={"kind": "normalisation"}),
        lambda content: content["preprocessing"].update(mean=["a", "b", "c"]),
        lambda content: content["preprocessing"].update(mean=[0.5] * 7),
        lambda content: content["preprocessing"].update(mean=3),
        lambda content: content.update(preprocessing={"kind": "table", "columns": 3}),
        lambda content: content.update(classes=["a"]),
        lambda content: content.update(classes=[]),
        lambda content: content.update(classes=[1, 2, 3, 4, 5]),
        lambda content: content.update(temperature=0.0),
        lambda content: content.update(temperature=float("inf")),
        lambda content: content.update(threshold="often"),
        lambda content: content["input"].update(dtype="object"),
        lambda content: content["input"].update(shape=[3, 9, 9]),
        lambda content: content.update(columns=[{"name": "a", "categories": None}]),
        lambda content: content.clear(),
    ],
)
def test_wrong_metadata_is_one_sentence(written: tuple[Path, Artifact], change: Change) -> None:
    _damage(written[0], "metadata.json", change)


def _damage(folder: Path, name: str, change: Change) -> None:
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(json.dumps(content))
    _assert_refused(folder)


def _assert_refused(folder: Path) -> None:
    with pytest.raises(CorruptFile, match="Expected") as caught:
        load_artifact(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


@pytest.mark.parametrize("name", ["architecture.json", "metadata.json", "weights.safetensors"])
def test_damaged_files_are_one_sentence(written: tuple[Path, Artifact], name: str) -> None:
    path = written[0] / name
    whole = path.read_bytes()
    pickled = pickle.dumps(print)
    for content in (b"", b"\x00" * 20, whole[: len(whole) // 2], b"[" * 100_000, b"null", pickled, b"\xff" * 9):
        path.write_bytes(content)
        _assert_refused(written[0])
    path.unlink()
    _assert_refused(written[0])
    path.mkdir()
    _assert_refused(written[0])


def test_random_damage_never_crashes(written: tuple[Path, Artifact]) -> None:
    _damage_at_random(written[0], times=60)


def _damage_at_random(folder: Path, *, times: int) -> None:
    generator = random.Random(0)
    for name in ("architecture.json", "metadata.json", "weights.safetensors"):
        whole = (folder / name).read_bytes()
        for _ in range(times):
            content = bytearray(whole)
            for _ in range(3):
                content[generator.randrange(min(len(content), 2000))] = generator.randrange(32, 127)
            (folder / name).write_bytes(content)
            try:
                load_artifact(folder)
            except CorruptFile as error:
                assert "\n" not in str(error)
        (folder / name).write_bytes(whole)


def test_foreign_weights_are_one_sentence(written: tuple[Path, Artifact]) -> None:
    folder, _ = written
    path = folder / "weights.safetensors"
    weights = load_file(path)
    first = next(iter(weights))
    for changed in (
        {**weights, "7.extra": torch.zeros(1)},
        {**weights, "0.extra": torch.zeros(1)},
        {name: value for name, value in weights.items() if name != first},
        {**weights, first: torch.zeros(1, 2, 3)},
        {name: value.double() if value.is_floating_point() else value for name, value in weights.items()},
    ):
        save_file(changed, path)
        _assert_refused(folder)


def test_an_unfinished_folder_is_no_artifact(
    tmp_path: Path, examples: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing over another artifact never leaves old words beside new weights."""
    write_artifact(tmp_path, examples.image_artifact(1))
    (tmp_path / "model.onnx").write_bytes(b"old")

    def killed(path: Path, value: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polyarch.export.artifact.write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        write_artifact(tmp_path, examples.image_artifact(2))
    assert not (tmp_path / "model.onnx").exists()
    _assert_refused(tmp_path)


class WordyLinear(torch.nn.Linear):
    def get_extra_state(self) -> Any:
        return "text"


def test_states_other_than_tensors_are_not_written(tmp_path: Path, examples: ModuleType) -> None:
    write_artifact(tmp_path, examples.image_artifact())
    with pytest.raises(InvalidInput, match="whose state is tensors"):
        write_artifact(tmp_path, replace(examples.image_artifact(), networks=Stacked([WordyLinear(2, 2)])))
    load_artifact(tmp_path)  # what was there is still there


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"members": (), "networks": WordyLinear(2, 2)}, "members"),
        ({"members": (Member({}, 1.0),) * 2}, "a network for each of 2 members. Got 1"),
        ({"temperature": 0.0}, "temperature"),
        ({"threshold": float("nan")}, "threshold"),
        ({"input_dtype": torch.int64}, "uint8 or float32"),
        ({"classes": ()}, "classes"),
        ({"classes": tuple("aacde")}, "a name occurs twice"),
        ({"metrics": {"accuracy": float("nan")}}, "that JSON can hold"),
        ({"metrics": {"accuracy": torch.zeros(1)}}, "that JSON can hold"),
    ],
)
def test_wrong_artifacts_are_not_written(
    change: dict[str, Any], words: str, tmp_path: Path, examples: ModuleType
) -> None:
    with pytest.raises(InvalidInput, match=words):
        write_artifact(tmp_path / "artifact", replace(examples.image_artifact(), **change))
    assert not (tmp_path / "artifact").exists()


class TestSharedNetworks:
    """Members that are exits of one network."""

    @pytest.fixture(params=["image", "vector"])
    def shared(self, request: pytest.FixtureRequest, tmp_path: Path, examples: ModuleType) -> tuple[Path, Artifact]:
        artifact = getattr(examples, f"shared_{request.param}_artifact")()
        write_artifact(tmp_path / "artifact", artifact)
        return tmp_path / "artifact", artifact

    def test_round_trip(self, shared: tuple[Path, Artifact], examples: ModuleType) -> None:
        folder, artifact = shared
        read = load_artifact(folder)
        same = [name for name in Artifact.__dataclass_fields__ if name != "networks"]
        assert [getattr(read, name) for name in same] == [getattr(artifact, name) for name in same]
        assert read.shared and isinstance(read.networks, Exits) and not read.networks.training
        inputs = (examples.images if artifact.input_dtype == torch.uint8 else examples.vectors)(9)
        with torch.no_grad():
            for found, expected in zip(Program.of(read)(inputs), Program.of(artifact)(inputs), strict=True):
                assert torch.equal(found, expected)

    def test_the_same_weights_give_the_same_bytes(self, shared: tuple[Path, Artifact]) -> None:
        folder, _ = shared
        write_artifact(folder.with_name("second"), load_artifact(folder))
        for file in ("weights.safetensors", "architecture.json", "metadata.json"):
            assert (folder / file).read_bytes() == (folder.with_name("second") / file).read_bytes()

    def test_weights_are_shared_in_the_file_and_after_it(self, shared: tuple[Path, Artifact]) -> None:
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

    def test_what_others_read(self, shared: tuple[Path, Artifact]) -> None:
        folder, artifact = shared
        description = json.loads((folder / "architecture.json").read_text())
        assert description["format"] == 2 and description["shared"] is True
        assert [member["architecture"]["depth"] for member in description["members"]] == ["0", "1", "2"]
        assert json.loads((folder / "metadata.json").read_text())["exit_confidence"] == artifact.exit_confidence

    def test_separate_networks_are_written_as_before(self, written: tuple[Path, Artifact]) -> None:
        assert "shared" not in json.loads((written[0] / "architecture.json").read_text())
        assert "exit_confidence" not in json.loads((written[0] / "metadata.json").read_text())

    def test_a_confidence_may_be_missing(self, shared: tuple[Path, Artifact]) -> None:
        folder, artifact = shared
        write_artifact(folder, replace(artifact, exit_confidence=None))
        assert load_artifact(folder).exit_confidence is None

    def test_there_is_no_network_of_one_member(self, shared: tuple[Path, Artifact]) -> None:
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
    def test_wrong_descriptions_are_one_sentence(self, shared: tuple[Path, Artifact], change: Change) -> None:
        _damage(shared[0], "architecture.json", change)

    @pytest.mark.parametrize("value", [0.0, -0.5, 1.5, float("nan"), float("inf"), "0.9", True, [0.9]])
    def test_wrong_confidences_are_one_sentence(self, shared: tuple[Path, Artifact], value: object) -> None:
        _damage(shared[0], "metadata.json", lambda content: content.update(exit_confidence=value))

    def test_separate_networks_have_no_confidence_and_share_nothing(self, written: tuple[Path, Artifact]) -> None:
        folder, artifact = written
        with pytest.raises(InvalidInput, match="members that share one network for exit_confidence"):
            write_artifact(folder.with_name("other"), replace(artifact, exit_confidence=0.5))
        whole = (folder / "architecture.json").read_text()
        _damage(folder, "architecture.json", lambda content: content.update(shared=True))
        (folder / "architecture.json").write_text(whole)
        _damage(folder, "metadata.json", lambda content: content.update(exit_confidence=0.5))

    def test_foreign_weights_are_one_sentence(self, shared: tuple[Path, Artifact]) -> None:
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
            _assert_refused(folder)

    def test_random_damage_never_crashes(self, shared: tuple[Path, Artifact]) -> None:
        _damage_at_random(shared[0], times=30)
