"""Run descriptions: reading, writing, overriding, and the sentences for what does not fit."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from polyarch.errors import ConfigError, InvalidInput
from polyarch.methods.depth.settings import DepthSettings
from polyarch.methods.stochastic.settings import StochasticSettings
from polyarch.plugins import SPACES
from polyarch.runs.settings import (
    RunSettings,
    parse_assignments,
    parse_quantity,
    read_toml,
    resumed_settings,
    with_overrides,
)


@pytest.mark.parametrize("kind", SPACES)
def test_settings_survive_toml(tmp_path: Path, kind: str) -> None:
    space = {"kind": kind, **({"module": "net:build"} if kind == "module" else {})}
    settings = RunSettings.parse({"space": space, "search": {"max_params": 1e5}, "decisions": ["a"]}, "test")
    settings.write(tmp_path / "config.toml")
    assert RunSettings.read(tmp_path / "config.toml") == settings


@pytest.mark.parametrize(
    ("content", "method"),
    [
        ({}, "race"),
        ({"search": {"max_params": 1e5}, "data": {"limit": 10}}, "race"),
        ({"train": {"epochs": 3}}, "one-shot"),
        ({"search": {"budget": 10}}, "one-shot"),
        ({"method": "gdas", "train": {"epochs": 3}}, "gdas"),
    ],
)
def test_a_run_that_names_no_method_races_unless_it_speaks_of_a_supernet(content: dict[str, Any], method: str) -> None:
    assert RunSettings.parse(content, "test").method == method


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
    assert parsed == {"train.epochs": 3, "space.kind": "chain", "rank.estimators": ["sotl"], "data.flip": True}
    with pytest.raises(ConfigError, match=r"section\.name=value"):
        parse_assignments(["nonsense"])


@pytest.mark.parametrize(("text", "value"), [("100k", 1e5), ("1.5M", 1.5e6), ("42", 42.0), ("2G", 2e9), (None, None)])
def test_quantities(text: str | None, value: float | None) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["many", "-5", "1e", "10 kg", ""])
def test_bad_quantities(text: str) -> None:
    with pytest.raises(InvalidInput, match="Expected a number"):
        parse_quantity(text)


SECTIONS = {
    "depth": {"rule": "95%", "prior": [1.0, 2.0]},
    "stochastic": {"members": 3},
    "guided": {"drop": 0.2},
    "differentiable": {"stages": []},
}


class TestSections:
    """Settings of methods stand beside the shared ones, also those of methods that the run does not use."""

    @pytest.mark.parametrize("method", ["one-shot", "variational-depth", "stochastic"])
    def test_sections_of_several_methods_survive_toml(self, method: str, tmp_path: Path) -> None:
        settings = RunSettings.parse({"method": method, "train": {"epochs": 7}, **SECTIONS}, "test")
        settings.write(tmp_path / "config.toml")
        content = tomllib.loads((tmp_path / "config.toml").read_text())
        assert content["depth"]["rule"] == "95%" and content["stochastic"]["members"] == 3
        assert "sections" not in content
        again = RunSettings.read(tmp_path / "config.toml")
        assert again == settings and again.train.epochs == 7
        assert again.section(DepthSettings).prior == (1.0, 2.0)
        assert again.section(StochasticSettings).members == 3

    def test_defaults_stand_in_for_what_is_not_there(self) -> None:
        plain = RunSettings.parse({"method": "one-shot"}, "test")
        own = RunSettings.parse({"method": "variational-depth"}, "test")
        assert plain.sections == {} and own.sections == {"depth": DepthSettings()}
        assert plain.section(DepthSettings) == own.section(DepthSettings) == DepthSettings()

    def test_changes_reach_shared_sections_and_those_of_methods(self) -> None:
        settings = RunSettings.parse(SECTIONS, "test")
        changed = settings.changed({"train": {"epochs": 3}, "stochastic": {"members": 9}})
        assert (changed.train.epochs, changed.section(StochasticSettings).members) == (3, 9)
        assert settings.section(StochasticSettings).members == 3
        assert changed.section(DepthSettings) is settings.section(DepthSettings)

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            ({"dept": {"rule": "95%"}}, r"sections that polyarch or method 'race' has\. Got 'dept'"),
            ({"sections": {}}, r"sections that polyarch or method 'race' has\. Got 'sections'"),
            ({"depth": {"rul": "95%"}}, r"depth\.rul"),
            ({"depth": 3}, "Expected depth in test to fit"),
            ({"method": "variational-depth", "depth": {"rule": "best"}}, r"depth\.rule"),
            ({"method": "variational"}, r"Expected a method out of .* Got 'variational'\. Did you mean"),
            ({"data": {"outside": "digits"}}, r"Expected data\.ood in test\. Got data\.outside, its name before"),
        ],
    )
    def test_what_is_unknown_is_one_sentence(self, content: dict[str, Any], sentence: str) -> None:
        with pytest.raises(InvalidInput, match=sentence) as caught:
            RunSettings.parse(content, "test")
        assert "\n" not in str(caught.value)


class TestResumed:
    """A resumed run keeps its settings."""

    def test_what_is_given_again_must_be_the_same(self) -> None:
        settings = RunSettings.parse({"train": {"epochs": 7}, "workers": 1, **SECTIONS}, "test")
        for content in (None, {"train": {"epochs": 7}, "workers": 1, **SECTIONS}):
            assert resumed_settings(settings, content, {"train.epochs": 7}, "test") == settings
            assert resumed_settings(settings, content, {"workers": 2}, "test").workers == 2
            with pytest.raises(ConfigError, match=r"'train' is .* there and .* now"):
                resumed_settings(settings, content, {"train.epochs": 8}, "test")

    def test_sections_that_one_side_does_not_name_have_their_defaults(self) -> None:
        plain = RunSettings.parse({"workers": 1}, "test")
        whole = RunSettings.parse({"workers": 1, "depth": {}, "stochastic": {}}, "test")
        assert resumed_settings(plain, {"workers": 1, "depth": {"rule": "argmax"}}, {}, "test") == plain
        assert resumed_settings(whole, {"workers": 1}, {}, "test") == whole
        with pytest.raises(ConfigError, match=r"'depth' is .*argmax.* there and .*95%.* now"):
            resumed_settings(plain, None, {"depth.rule": "95%"}, "test")
        given = RunSettings.parse({"workers": 1, "depth": {"rule": "95%"}}, "test")
        with pytest.raises(ConfigError, match=r"'depth' is .*95%.* there and .*argmax.* now"):
            resumed_settings(given, {"workers": 1}, {}, "test")
