"""Artifacts survive the disk, and damaged ones are recognised."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from artifact_damage import Change, assert_refused, damage, damage_at_random
from artifact_examples import INTERVALS, SETS
from safetensors.torch import load_file, save_file

from polyarch.errors import InvalidInput
from polyarch.export import Artifact, Member, Program, write_artifact
from polyarch.nn import StackedNetworks
from polyarch.plugins import SPACES
from polyarch.prediction.loading import load_artifact, load_network
from polyarch.tasks import Calibration, Classification


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
    assert read.task == artifact.task and read.input_dtype == torch.float32


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_other_tasks_round_trip(kind: str, tmp_path: Path, examples: ModuleType) -> None:
    artifact = getattr(examples, f"{kind}_artifact")(2)
    write_artifact(tmp_path, artifact)
    read = load_artifact(tmp_path)
    assert (read.task, read.calibration) == (artifact.task, artifact.calibration)
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    assert metadata["classes"] == [] and list(metadata["outputs"]) == list(artifact.task.readouts)
    with torch.no_grad():
        for found, expected in zip(
            Program.of(read)(examples.vectors(5)), Program.of(artifact)(examples.vectors(5)), strict=True
        ):
            assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(classes=["weight", "=price"]),
        lambda content: content.update(sets=SETS),
        lambda content: content["task"].update(scale=[1.0]),
        lambda content: content["task"].update(scale=[1.0, 0.0]),
        lambda content: content["task"].update(location=[1.0, float("nan")]),
        lambda content: content["task"].update(names=["weight"]),
        lambda content: content["intervals"].update(corrections=[1.0]),
        lambda content: content["intervals"].update(corrections=[1.0, float("inf")]),
        lambda content: content["intervals"].update(coverage=1.0),
    ],
)
def test_wrong_metadata_of_numbers_is_one_sentence(tmp_path: Path, examples: ModuleType, change: Change) -> None:
    write_artifact(tmp_path, examples.numbers_artifact())
    load_artifact(tmp_path)
    damage(tmp_path, "metadata.json", change)


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
    assert metadata["task"]["kind"] == "classification" and metadata["task"]["names"] == list("abcde")
    assert metadata["sets"] == SETS and metadata["intervals"] is None
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
        "enas": {"width": 2, "stages": 1},
        "multi_branch": {"width": 2, "stages": 2},
        "inflated_resnet": {"width": 2, "blocks": (1, 1)},
        "densenet": {"growth": 2, "layers": (2, 1)},
    }
    settings: Any = SPACES[kind](**small.get(kind, {}))
    net = settings.build((3, 8, 8), 5)
    architecture = net.space.sample(torch.Generator().manual_seed(1))
    network = net.extract(architecture)
    artifact = replace(
        examples.image_artifact(),
        network=settings.model_dump(mode="json"),
        members=(Member(architecture.to_dict(), 1.0),),
        networks=StackedNetworks([network]),
    )
    write_artifact(tmp_path, artifact)
    x = torch.randn(3, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(load_network(tmp_path)(x), network.eval()(x))


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
    damage(written[0], "architecture.json", change)


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
        lambda content: content.update(classes=list("abcdf")),
        lambda content: content["task"].update(names=["a"]),
        lambda content: content["task"].update(kind="?"),
        lambda content: content["task"].update(kind="multi-label"),
        lambda content: content["task"].update(kind="regression", location=[0.0] * 5, scale=[1.0] * 5),
        lambda content: content["task"].update(coverage=1.5),
        lambda content: content.update(task=None, classes=[]),
        lambda content: content["sets"].update(method="?"),
        lambda content: content["sets"].update(threshold=float("nan")),
        lambda content: content.update(sets={"corrections": [1.0]}),
        lambda content: content.update(intervals=INTERVALS),
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
    damage(written[0], "metadata.json", change)


@pytest.mark.parametrize("name", ["architecture.json", "metadata.json", "weights.safetensors"])
def test_damaged_files_are_one_sentence(written: tuple[Path, Artifact], name: str) -> None:
    path = written[0] / name
    whole = path.read_bytes()
    pickled = pickle.dumps(print)
    for content in (b"", b"\x00" * 20, whole[: len(whole) // 2], b"[" * 100_000, b"null", pickled, b"\xff" * 9):
        path.write_bytes(content)
        assert_refused(written[0])
    path.unlink()
    assert_refused(written[0])
    path.mkdir()
    assert_refused(written[0])


def test_random_damage_never_crashes(written: tuple[Path, Artifact]) -> None:
    damage_at_random(written[0], times=40)


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
        assert_refused(folder)


def test_an_unfinished_folder_is_no_artifact(
    tmp_path: Path, examples: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing over another artifact never leaves old words beside new weights."""
    write_artifact(tmp_path, examples.image_artifact(1))
    (tmp_path / "model.onnx").write_bytes(b"old")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polyarch.export.artifact.write_metadata", killed)
    with pytest.raises(KeyboardInterrupt):
        write_artifact(tmp_path, examples.image_artifact(2))
    assert not (tmp_path / "model.onnx").exists()
    assert_refused(tmp_path)


class WordyLinear(torch.nn.Linear):
    def get_extra_state(self) -> Any:
        return "text"


def test_states_other_than_tensors_are_not_written(tmp_path: Path, examples: ModuleType) -> None:
    write_artifact(tmp_path, examples.image_artifact())
    with pytest.raises(InvalidInput, match="whose state is tensors"):
        write_artifact(tmp_path, replace(examples.image_artifact(), networks=StackedNetworks([WordyLinear(2, 2)])))
    load_artifact(tmp_path)  # what was there is still there


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"members": (), "networks": WordyLinear(2, 2)}, "members"),
        ({"members": (Member({}, 1.0),) * 2}, "a network for each of 2 members. Got 1"),
        ({"calibration": Calibration(temperature=0.0)}, "temperature"),
        ({"calibration": Calibration(threshold=float("nan"))}, "threshold"),
        ({"calibration": Calibration(conformal={"method": "?"})}, "sets"),
        ({"input_dtype": torch.float64}, "type uint8, float32, int64, bool"),
        ({"task": Classification()}, "size"),
        ({"task": Classification(tuple("aacde"))}, "a name occurs twice"),
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
