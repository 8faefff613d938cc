"""Run descriptions: reading, writing, overriding, and the sentences for what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polyarch.errors import ConfigError, InvalidInput
from polyarch.plugins import SPACES
from polyarch.runs.settings import RunSettings, parse_assignments, parse_quantity, read_toml, with_overrides


@pytest.mark.parametrize("kind", SPACES)
def test_settings_survive_toml(tmp_path: Path, kind: str) -> None:
    space = {"kind": kind, **({"module": "net:build"} if kind == "module" else {})}
    settings = RunSettings.parse({"space": space, "search": {"max_params": 1e5}, "decisions": ["a"]}, "test")
    settings.write(tmp_path / "config.toml")
    assert RunSettings.read(tmp_path / "config.toml") == settings


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"train": {"epochs": 0}}, "train.epochs"),
        ({"train": {"epoch": 3}}, "train.epoch"),
        ({"space": {"kind": "nb2001"}}, "nb2001"),
        ({"space": {"kind": "nb201", "channels": -1}}, "space.channels"),
        ({"search": {"objectives": []}}, "search.objectives"),
        ({"rank": {"estimators": ["sotll"]}}, "sotll"),
        ({"data": {"validation": 1.5}}, "1.5"),
    ],
)
def test_what_does_not_fit_is_named(content: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words.replace(".", r"\.")):
        RunSettings.parse(content, "test")


def test_unreadable_toml(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("epochs = = 3")
    with pytest.raises(ConfigError, match="to be TOML"):
        read_toml(tmp_path / "bad.toml")
    with pytest.raises(ConfigError, match="no such file"):
        read_toml(tmp_path / "absent.toml")


def test_overrides_leave_the_original_alone() -> None:
    content = {"train": {"epochs": 3}}
    assert with_overrides(content, {"train.epochs": 5, "seed": 1}) == {"train": {"epochs": 5}, "seed": 1}
    assert content == {"train": {"epochs": 3}}
    with pytest.raises(ConfigError, match="to be a section"):
        with_overrides({"seed": 1}, {"seed.x": 2})


def test_assignments_are_toml_or_words() -> None:
    parsed = parse_assignments(["train.epochs=3", "space.kind=chain", "rank.estimators=['sotl']", "data.flip=true"])
    assert parsed == {
        "train.epochs": 3,
        "space.kind": "chain",
        "rank.estimators": ["sotl"],
        "data.flip": True,
    }
    with pytest.raises(ConfigError, match=r"section\.name=value"):
        parse_assignments(["nonsense"])


@pytest.mark.parametrize(("text", "value"), [("100k", 1e5), ("1.5M", 1.5e6), ("42", 42.0), ("2G", 2e9), (None, None)])
def test_quantities(text: str | None, value: float | None) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["many", "-5", "1e", "10 kg", ""])
def test_bad_quantities(text: str) -> None:
    with pytest.raises(InvalidInput, match="Expected a number"):
        parse_quantity(text)
