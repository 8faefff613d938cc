"""Whatever options and run descriptions say, a command works or ends with one sentence and exit code 2."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import typer.main
from commands import KILLED, Process
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from killing import METHODS, write_points

from polyarch.cli import app
from polyarch.errors import ConfigError
from polyarch.runs.settings import RunSettings

MANY = settings(suppress_health_check=list(HealthCheck), database=None, phases=[Phase.generate])
EXAMPLES = int(os.environ.get("FUZZED", "300"))
"""Of command lines and of run descriptions in the slow tests."""
SEED = int(os.environ.get("SEED", "0"))
"""Others than 0 make other ones."""
SECONDS = 10
"""Commands that still run then are fine, and killed."""
ENDS = {0: "worked", 2: "were refused", KILLED: "still ran"}
LEFT_OUT = {("data", "download"), ("experiment", "run"), ("experiment", "page")}
"""Commands that use the network, take hours or write into the repository."""

VALUES = st.sampled_from([
    "", "0", "1", "-1", "2", "nan", "inf", "-inf", "1e308", "1e-308", str(10**30), "abc", "é", "x" * 300, "[", "{}",
    "[]", "none", "5M",
]) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)  # fmt: skip
KNOWN = st.sampled_from([
    "{points}", "{table}", "{folder}", "{missing}", "{artifact}", "{toml}", "digits", "spirals", "nb201", "mlp", "x",
    "one-shot", "race", "single_path", "val_acc", "random", "target", "classification", "regression", "accuracy", "cpu",
    "cuda", "train.epochs=1", "train.rate=nan", "space.width=0", "a.b.c=1", "seed", "=", "train=1", "programs=[]",
    "data.limit=-5", "train.batch_size=1", "os:system", "polyarch.cli:app",
])  # fmt: skip


@pytest.fixture(scope="module")
def given_files(tmp_path_factory: pytest.TempPathFactory, folders: dict[str, Path]) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "table.csv").write_text("a,b,target\n" + "1,2,x\n2,3,y\n" * 20)
    (folder / "run.toml").write_text('method = "one-shot"\n[train]\nepochs = 1\n')
    return {
        "points": write_points(folder / "points.npz"),
        "table": folder / "table.csv",
        "folder": folder,
        "missing": folder / "missing",
        "artifact": folders["vector"],
        "toml": folder / "run.toml",
    }


@pytest.fixture(scope="module")
def settle(
    preloaded: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[list[str]], int | None]:
    """Runs a command and checks how it ends."""
    errors = tmp_path_factory.mktemp("errors") / "errors"

    def run(words: list[str]) -> int | None:
        process = Process(preloaded, words, environment, errors)
        if not process.ends_within(SECONDS):
            process.kill()
        code = process.wait()
        said = errors.read_text()
        assert code in (0, 2, KILLED), (words, said)
        assert "Traceback" not in said, (words, said)
        if code == 2:
            last = said.strip().splitlines()
            assert len([line for line in last if line.startswith("error: ")]) == 1 or "Usage:" in said, (words, said)
        return code

    return run


def commands() -> list[tuple[tuple[str, ...], list[str], int]]:
    """Every command with its options and the number of its arguments."""
    found: list[tuple[tuple[str, ...], list[str], int]] = []

    def visit(command: Any, words: tuple[str, ...]) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            visit(inner, (*words, name))
        if not hasattr(command, "commands") and words not in LEFT_OUT:
            options = [option for one in command.params for option in one.opts if option.startswith("--")]
            found.append((words, options, sum(not one.opts[0].startswith("--") for one in command.params)))

    visit(typer.main.get_command(app), ())
    return found


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command, its arguments and up to four of its options, each with a value that may be anything."""
    words, options, arguments = draw(st.sampled_from(commands()))
    line = [*words, *(draw(KNOWN | VALUES) for _ in range(arguments))]
    if "--data" in options:
        line += ["--data", draw(st.sampled_from(["{points}", "{table}"])), "--set", "train.epochs=1"]
    for option in draw(st.lists(st.sampled_from(options), max_size=4)) if options else []:
        line += [option, draw(KNOWN | VALUES)]
    return line


def check_lines(count: int, settle: Callable[[list[str]], int | None], given_files: dict[str, Path]) -> None:
    ends: Counter[str] = Counter()

    @seed(SEED)
    @settings(MANY, max_examples=count)
    @given(line=command_lines())
    def run(line: list[str]) -> None:
        out = [] if "--out" in line else ["--out", str(given_files["folder"] / f"out{ends.total()}")]
        asks = "--data" in line or line[0] in ("predict", "extract")
        named = {f"{{{name}}}": str(path) for name, path in given_files.items()}
        ends[ENDS[settle([named.get(word, word) for word in line] + (out if asks else []))]] += 1

    run()
    print(f"command lines of seed {SEED}: {dict(ends)}")


def test_command_lines(
    settle: Callable[[list[str]], int | None], given_files: dict[str, Path], monkeypatch: Any
) -> None:
    monkeypatch.chdir(given_files["folder"])
    check_lines(10, settle, given_files)


@pytest.mark.slow
def test_many_command_lines(
    settle: Callable[[list[str]], int | None], given_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(given_files["folder"])
    check_lines(EXAMPLES, settle, given_files)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = " + "[" * 5000, "nested too deeply"),
        ("a = {" + "a={" * 5000, "nested too deeply"),
        (None, "Is a directory"),
    ],
)
def test_descriptions_that_ended_with_a_traceback(text: str | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path
    if text is not None:
        path = tmp_path / "run.toml"
        path.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as caught:
        RunSettings.read(path)
    assert "\n" not in str(caught.value)


SCALARS = (
    st.sampled_from([0, 1, -1, 2, 1e308, -1e308, float("nan"), float("inf"), True, "", "auto", "mlp", "nb201", 10**18])
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=5)
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
)


@st.composite
def descriptions(draw: st.DrawFn) -> str:
    """A run description of any method with a few values replaced, or its text with a few characters replaced."""
    method = draw(st.sampled_from(sorted(METHODS)))
    content: dict[str, Any] = {"method": method, "programs": []}
    for name, value in METHODS[method].items():
        section, _, key = name.rpartition(".")
        (content.setdefault(section, {}) if section else content)[key] = value
    for _ in range(draw(st.integers(0, 3))):
        section = draw(st.sampled_from(sorted(content)))
        into = content[section] if isinstance(content[section], dict) and draw(st.booleans()) else content
        key = draw(
            st.sampled_from(sorted(into)) | st.sampled_from(["seed", "task", "x", "data", "space", "search", "rate"])
        )
        into[key] = draw(ANYTHING)
    text = tomli_w.dumps(content)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        text = (
            text[:place]
            + draw(st.sampled_from(["", "[", "]", '"', "=", "\n", "-", "9", "[" * 5000, "\0", "é"]))
            + text[place + 1 :]
        )
    return text


def check_descriptions(count: int, settle: Callable[[list[str]], int | None], given_files: dict[str, Path]) -> None:
    ends: Counter[str] = Counter()

    @seed(SEED)
    @settings(MANY, max_examples=count)
    @given(text=descriptions())
    def run(text: str) -> None:
        path = given_files["folder"] / "fuzzed.toml"
        path.write_text(text)
        out = given_files["folder"] / f"described{ends.total()}"
        words = ["search", "--config", str(path), "--data", str(given_files["points"]), "--out", str(out)]
        ends[ENDS[settle(words)]] += 1

    run()
    print(f"run descriptions of seed {SEED}: {dict(ends)}")


def test_descriptions(settle: Callable[[list[str]], int | None], given_files: dict[str, Path]) -> None:
    check_descriptions(8, settle, given_files)


@pytest.mark.slow
def test_many_descriptions(settle: Callable[[list[str]], int | None], given_files: dict[str, Path]) -> None:
    check_descriptions(EXAMPLES, settle, given_files)
