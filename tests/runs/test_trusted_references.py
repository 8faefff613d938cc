"""Run descriptions are data: code that only a file names is not imported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import polyarch
from polyarch.cli import app
from polyarch.errors import ConfigError
from polyarch.plugins import import_reference, trusting_only
from polyarch.runs.references import PLACES, references_in
from polyarch.runs.settings import with_overrides

NETWORK = (
    "from torch import nn\nfrom polyarch.nn import OneOf\n"
    "def build(input_shape, classes):\n"
    "    return nn.Sequential(OneOf('one', a=nn.Linear(2, 4), b=nn.Linear(2, 4)), nn.Linear(4, classes))\n"
)


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that must not be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"trap_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(NETWORK)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("from_run", [False, True])
def test_no_setting_of_a_file_is_imported(place: str, from_run: bool, trap: str, tmp_path: Path) -> None:
    reference = f"{trap}:build"
    section, _, name = place.rpartition(".")
    value = f"['{reference}']" if name in ("objectives", "estimators") else f"'{reference}'"
    kind = "kind = 'module'\n" if place == "space.module" else ""
    text = f"{f'[{section}]' if section else ''}\n{kind}{name} = {value}\n"
    text = text if place == "method" else f"method = 'one-shot'\n{text}"
    (tmp_path / "run").mkdir()
    path = tmp_path / ("run/config.toml" if from_run else "described.toml")
    path.write_text(text)
    words = ["--resume"] if from_run else ["--config", str(path), "--data", "spirals"]
    words += [] if place.startswith("space.") or from_run else ["--space", "mlp"]
    result = CliRunner().invoke(app, ["search", "--out", str(tmp_path / "run"), *words])
    assert isinstance(result.exception, ConfigError), result.output
    assert f"Got {reference!r} from a file" in str(result.exception)
    assert trap not in sys.modules


SMALL = ["--set", "train.epochs=1", "--set", "data.limit=40", "--workers", "1"]


@pytest.mark.parametrize("words", [["--trust-module"], ["--module", "{reference}"]])
def test_trusted_files_and_references_that_options_repeat_are_imported(
    words: list[str], trap: str, tmp_path: Path
) -> None:
    reference, out = f"{trap}:build", tmp_path / "run"
    path = tmp_path / "described.toml"
    path.write_text(f"[data]\nname = 'spirals'\n[space]\nkind = 'module'\nmodule = '{reference}'\n")
    words = [word.format(reference=reference) for word in words]
    begun = CliRunner().invoke(app, ["train", "--out", str(out), "--config", str(path), *words, *SMALL])
    assert begun.exit_code == 0, begun.exception
    refused = CliRunner().invoke(app, ["train", "--out", str(out), "--resume"])
    assert isinstance(refused.exception, ConfigError) and "--trust-module" in str(refused.exception)
    again = CliRunner().invoke(app, ["train", "--out", str(out), "--resume", *words])
    assert again.exit_code == 0, again.exception


def test_python_imports_what_its_arguments_name(trap: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text(f"[space]\nkind = 'module'\nmodule = '{trap}:build'\n")
    with pytest.raises(ConfigError, match="trust_module=True"):
        polyarch.search("spirals", out=tmp_path / "run", resume=True, quiet=True)
    assert trap not in sys.modules


def test_references_are_found_wherever_they_may_stand() -> None:
    lists = ("search.objectives", "rank.estimators")
    values: dict[str, Any] = {place: [f"a:{place}"] if place in lists else f"a:{place}" for place in PLACES}
    content = with_overrides({}, {**values, "rank.truth": "nb201:cifar10", "data.name": "C:folder"})
    assert references_in(content) == {f"a:{place}": place for place in PLACES}
    with trusting_only(["json:dumps"]):
        assert callable(import_reference("json:dumps"))
        with pytest.raises(ConfigError, match="Got 'json:loads' from a file"):
            import_reference("json:loads")
    assert callable(import_reference("json:loads"))
