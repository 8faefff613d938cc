"""Choices made for the user fit the data and the limits, give way to what was asked, and are always the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import torch

from polyarch.data import Column, Dataset, TableData, TensorData
from polyarch.randomness import generator_at
from polyarch.runs.settings import RunSettings
from polyarch.runs.suggestion import merged, suggest


@cache
def images(side: int, *, channels: int = 3, name: str = "photos", count: int = 40) -> Dataset:
    inputs = torch.randint(256, (count, channels, side, side), generator=generator_at(0, "images"), dtype=torch.uint8)
    part = TensorData(inputs, torch.arange(count) % 2, 2)
    return Dataset(name, part, part, ("cat", "dog"))


def table(count: int = 200) -> Dataset:
    inputs = torch.randn(count, 3, generator=generator_at(0, "table"))
    part = TableData(inputs, torch.arange(count) % 2, 2)
    return Dataset("table", part, part, ("no", "yes"), tuple(Column(name, None) for name in "abc"))


def asked(**content: Any) -> RunSettings:
    return RunSettings.parse({"space": {"kind": "auto"}, **content}, "the test")


def suggested(settings: RunSettings, data: Dataset) -> tuple[Mapping[str, Any], list[str]]:
    found = suggest(settings, data)
    return found.settings, found.reasons


@pytest.mark.parametrize(("data", "kind"), [(images(16), "nb201"), (images(48), "chain"), (table(), "mlp")])
def test_the_space_fits_the_data(data: Dataset, kind: str) -> None:
    found, reasons = suggested(asked(), data)
    assert found["space"]["kind"] == kind
    assert reasons[0].startswith(f"space {kind}: ")
    RunSettings.parse(found, "the suggestion")  # every key is a setting


def test_the_same_data_get_the_same_choices() -> None:
    assert suggested(asked(), images(16)) == suggested(asked(), images(16))


def test_limits_make_networks_narrow() -> None:
    free, _ = suggested(asked(), images(32))
    tight, reasons = suggested(asked(search={"max_params": 20_000}), images(32))
    assert tight["space"]["channels"] < free["space"]["channels"] == 16
    assert "keep the limits" in reasons[0]


def test_what_was_asked_for_stays() -> None:
    found, reasons = suggested(asked(data={"flip": False, "shift": 0}), images(16))
    settings = RunSettings.parse(merged(found, {"data": {"flip": False, "shift": 0}, "seed": 3}), "the test")
    assert not settings.data.flip and not settings.data.shift
    assert settings.seed == 3
    assert settings.train.epochs == found["train"]["epochs"]
    assert not any("augmentation" in reason for reason in reasons)
    _, reasons = suggested(asked(train={"epochs": 7}), images(16))
    assert "schedule: 7 epochs for the supernet" in reasons[1]


def test_only_photographs_are_mirrored() -> None:
    assert suggested(asked(), images(16))[0]["data"]["flip"]
    assert not suggested(asked(), images(16, channels=1))[0]["data"]["flip"]
    assert not suggested(asked(), images(16, name="svhn"))[0]["data"]["flip"]
    assert "flip" not in suggested(asked(), table())[0]["data"]
    assert "flip" not in suggested(asked(retrain={"epochs": 5}), images(16))[0]["data"]  # too short to need it


def test_more_examples_take_fewer_epochs() -> None:
    few, _ = suggested(asked(), images(32, count=400))
    many, _ = suggested(asked(), images(32, count=4000))
    assert many["train"]["epochs"] < few["train"]["epochs"]
    assert many["retrain"]["epochs"] <= few["retrain"]["epochs"]


def test_fair_paths_where_they_are_defined() -> None:
    """The passes stay the same: epochs go by the paths that see a batch."""
    fair, reasons = suggested(asked(), images(32, count=4000))
    assert fair["train"]["strategy"] == "fair" and "by strategy fair" in reasons[1]
    single, _ = suggested(asked(train={"strategy": "single_path"}), images(32, count=4000))
    assert single["train"]["strategy"] == "single_path"
    assert abs(single["train"]["epochs"] - 5 * fair["train"]["epochs"]) <= 3
    several, _ = suggested(asked(train={"strategy": "multi_path", "paths": 2}), images(32, count=4000))
    assert abs(single["train"]["epochs"] - 2 * several["train"]["epochs"]) <= 1
    limited, _ = suggested(asked(search={"max_params": 50_000}), images(32))
    assert limited["train"]["strategy"] == "single_path"  # fair paths use every operation, also the largest
    assert suggested(asked(), images(48))[0]["train"]["strategy"] == "single_path"  # layers with and without a skip
