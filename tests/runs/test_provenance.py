"""Resumed runs notice that data or code changed, and results say what they come from."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

import polyarch
from polyarch.data import Dataset, NamedInputs, TensorData, load
from polyarch.data.examples import NamedData
from polyarch.data.fingerprint import fingerprint, names_fingerprint
from polyarch.data.image_files import ImageFiles, ImagePaths
from polyarch.errors import ConfigError, CorruptFile
from polyarch.reports.page import render
from polyarch.results import Results
from polyarch.runs.display import Quiet
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.stage import perform
from polyarch.runs.start import Beginning
from polyarch.training import StopRequest

TINY: dict[str, Any] = {
    "method": "one-shot", "space.kind": "mlp", "space.width": 8, "train.epochs": 1, "train.batch_size": 16,
    "workers": 1,
}  # fmt: skip


class Listening(Quiet):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def say(self, message: Any) -> None:
        self.said.append(message)


def write_table(path: Path, *, swapped: bool = False, shift: float = 0.0) -> None:
    rows = [f"{number + shift},{-number % 7},{'ab'[(number + swapped) % 2]}" for number in range(60)]
    path.write_text("\n".join(["x,z,label", *rows]) + "\n")


@pytest.fixture
def trained(tmp_path: Path) -> tuple[Path, Path]:
    """A run that has trained its supernet on a table, and the table."""
    table, out = tmp_path / "table.csv", tmp_path / "run"
    write_table(table)
    asked = RunSettings.parse(with_overrides({}, {**TINY, "data.name": str(table)}), "the test")
    perform(Beginning(out, Quiet(), StopRequest(), until="train").start(asked))
    return out, table


def resumed(out: Path, **options: Any) -> Results:
    return perform(Beginning(out, Quiet(), StopRequest(), until="train", **options).resume(None, {}, "the test"))


def test_the_same_data_go_on_and_stand_in_the_results(trained: tuple[Path, Path]) -> None:
    out, table = trained
    before = Results.read(out / "results.json").provenance
    assert before is not None and before.polyarch == [polyarch.__version__] and not before.changes
    write_table(table)  # written anew, with the same rows
    assert resumed(out).provenance == before
    assert all(len(digest) == 64 for digest in before.data.values()) and len(before.data) == 4


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda table: write_table(table, swapped=True), "training examples changed"),
        (lambda table: write_table(table, shift=0.5), "test examples changed"),
        (lambda table: table.write_text(table.read_text().replace("a\n", "c\n")), "names of classes"),
        (lambda table: table.write_text(table.read_text().replace("x,z", "w,z")), "names of classes and columns"),
    ],
)
def test_changed_data_are_refused_or_accepted_and_noted(
    trained: tuple[Path, Path], change: Callable[[Path], None], what: str
) -> None:
    out, table = trained
    change(table)
    with pytest.raises(ConfigError, match=rf"Found that .*{what}.*--accept-changes") as caught:
        resumed(out)
    assert "\n" not in str(caught.value)
    results = resumed(out, accept_changes=True)
    assert results.provenance is not None and any(what in change for change in results.provenance.changes)
    assert Results.read(out / "results.json").provenance == results.provenance
    assert what in render(results)
    assert resumed(out).provenance == results.provenance  # accepted once is enough


def test_settings_of_data_that_were_edited_in_the_folder_are_refused(trained: tuple[Path, Path]) -> None:
    out, _ = trained
    text = (out / "config.toml").read_text()
    (out / "config.toml").write_text(text.replace("validation = 0.25", "validation = 0.5"))
    with pytest.raises(ConfigError, match="settings of data, task and seed changed"):
        resumed(out)


def test_another_version_warns_and_both_are_recorded(
    trained: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = trained
    monkeypatch.setattr(polyarch, "__version__", "99.0")
    listening = Listening()
    results = perform(Beginning(out, listening, StopRequest(), until="train").resume(None, {}, "the test"))
    assert any("goes on with 99.0" in str(one) for one in listening.said)
    assert results.provenance is not None and results.provenance.polyarch[1:] == ["99.0"]


def test_a_run_without_fingerprints_has_them_from_now_on(trained: tuple[Path, Path]) -> None:
    out, table = trained
    (out / "provenance.json").unlink()
    resumed(out)
    write_table(table, swapped=True)
    with pytest.raises(ConfigError, match="training examples changed"):
        resumed(out)
    (out / "provenance.json").write_text("{}")
    with pytest.raises(CorruptFile, match=r"provenance\.json to hold the fingerprints"):
        resumed(out)


def test_changed_modules_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "own_net_to_change.py"
    source.write_text(
        "from torch import nn\nfrom polyarch.nn import OneOf\n"
        "def build(input_shape, classes):\n"
        "    return nn.Sequential(OneOf('one', a=nn.Linear(2, 4), b=nn.Linear(2, 4)), "
        "nn.Linear(4, classes))\n"
    )
    values = {**TINY, "data.name": "spirals", "space.kind": "module", "space.module": "own_net_to_change:build"}
    del values["space.width"]
    asked = RunSettings.parse(with_overrides({}, values), "the test")
    out = tmp_path / "run"
    perform(Beginning(out, Quiet(), StopRequest(), until="train").start(asked))
    resumed(out)
    source.write_text(source.read_text() + "# another line\n")
    with pytest.raises(ConfigError, match="source of own_net_to_change:build changed"):
        resumed(out)


def test_artifacts_carry_the_fingerprints(tmp_path: Path) -> None:
    settings = {
        "space.width": 8, "train.epochs": 1, "scores.steps": 1, "rank.architectures": 0, "search.budget": 2,
        "search.window": 2, "search.population": 2, "search.tournament": 2, "retrain.epochs": 1, "retrain.seeds": 1,
        "retrain.members": 1, "retrain.random_architectures": 0, "programs": [], "data.limit": 40,
    }  # fmt: skip
    options: dict[str, Any] = {"method": "one-shot", "space": "mlp", "quiet": True, "report": False}
    found = polyarch.search("spirals", out=tmp_path / "run", settings=settings, **options)
    metadata = json.loads((tmp_path / "run" / "artifact" / "metadata.json").read_text())
    assert found.results.provenance is not None
    assert metadata["provenance"] == found.results.provenance.model_dump(mode="json")


def changed(tensor: torch.Tensor) -> torch.Tensor:
    other = tensor.clone()
    other.view(-1)[-1] += 1
    return other


def test_fingerprints_see_one_value_and_the_order() -> None:
    inputs, targets = torch.rand(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    data = TensorData(inputs, targets, 3)
    others = [
        replace(data, inputs=changed(inputs)),
        replace(data, targets=targets.flip(0)),
        data.subset([1, 0, 2, 3, 4, 5]),
        replace(data, inputs=inputs.double()),
        replace(data, inputs=inputs.view(6, 3, 1)),
    ]
    assert len({fingerprint(one) for one in (data, *others)}) == 6
    assert fingerprint(TensorData(inputs.clone(), targets.clone(), 3)) == fingerprint(data)


def test_fingerprints_of_named_inputs_see_the_names() -> None:
    first, second, targets = torch.rand(2, 3), torch.zeros(2, 3, dtype=torch.bool), torch.tensor([0, 1])
    one = NamedData(NamedInputs({"a": first, "b": second}), targets, 2)
    other = NamedData(NamedInputs({"c": first, "b": second}), targets, 2)
    assert fingerprint(one) != fingerprint(other)
    names = Dataset("d", one, one, ("x", "y")), Dataset("d", one, one, ("x", "z"))
    assert names_fingerprint(names[0]) != names_fingerprint(names[1])


def test_fingerprints_of_images_in_files_are_of_their_bytes(tmp_path: Path) -> None:
    paths = tuple(str(tmp_path / f"{number}.png") for number in range(3))
    for number, path in enumerate(paths):
        Image.fromarray(np.full((4, 4), 40 * number, dtype=np.uint8)).save(path)
    images = ImageFiles(ImagePaths(paths), torch.arange(3), torch.tensor([0, 1, 1]), 2, (1, 4, 4))
    before = fingerprint(images)
    assert fingerprint(images) == before
    Image.fromarray(np.full((4, 4), 41, dtype=np.uint8)).save(paths[1])
    assert fingerprint(images) != before


def test_fingerprints_of_loaders_are_of_their_inputs() -> None:
    inputs, labels = torch.rand(40, 2), torch.arange(40) % 2

    def read(values: torch.Tensor) -> str:
        return fingerprint(load(DataLoader(TensorDataset(values, labels), batch_size=8, shuffle=True)).train)

    assert read(inputs) == read(inputs) != read(changed(inputs))


def test_a_fingerprint_of_mnist_takes_well_under_a_second() -> None:
    data = TensorData(torch.zeros(60_000, 1, 28, 28, dtype=torch.uint8), torch.zeros(60_000, dtype=torch.int64), 10)
    started = time.process_time()
    fingerprint(data)
    assert time.process_time() - started < 0.5
