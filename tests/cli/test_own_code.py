"""Errors of code that users named are the lines of their code and one sentence; running out of memory is a sentence."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyarch import cli
from polyarch.cli.memory import limit_memory
from polyarch.errors import InvalidInput
from polyarch.plugins import import_reference

BROKEN = """
def build():
    return helper({})


def helper(sizes):
    return sizes["width"]
"""


@pytest.fixture
def complaint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Any], list[str]]:
    """What the command line says after an error, line by line."""

    def run(command: Callable[[], object]) -> list[str]:
        monkeypatch.setattr(cli, "app", command)
        monkeypatch.setenv("COLUMNS", "300")
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        return capsys.readouterr().err.splitlines()

    return run


def test_their_lines_and_our_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: Callable[[Any], list[str]]
) -> None:
    (tmp_path / "broken_net.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    said = complaint(lambda: import_reference("broken_net:build")())
    assert [line.strip() for line in said] == [
        f'File "{tmp_path}/broken_net.py", line 3, in build',
        "return helper({})",
        f'File "{tmp_path}/broken_net.py", line 7, in helper',
        'return sizes["width"]',
        "error: Expected your own code to run. Found: KeyError: 'width'.",
    ]


def test_modules_that_fail_when_they_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: Callable[[Any], list[str]]
) -> None:
    (tmp_path / "broken_import.py").write_text("x = 1 / 0\n")
    (tmp_path / "broken_syntax.py").write_text("x = (\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    said = complaint(lambda: import_reference("broken_import:build"))
    assert said[0].strip() == f'File "{tmp_path}/broken_import.py", line 1, in <module>'
    assert said[-1] == (
        "error: Expected 'broken_import:build' to be importable. Found: ZeroDivisionError: division by zero."
    )
    said = complaint(lambda: import_reference("broken_syntax:build"))
    assert len(said) == 1 and "SyntaxError: '(' was never closed (broken_syntax.py, line 1)" in said[0]


def test_defects_of_ours_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: dict[str, int] = {}
    monkeypatch.setattr(cli, "app", lambda: nothing["defect"])
    with pytest.raises(KeyError, match="defect"):
        cli.main()


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")]
)
def test_too_little_memory(error: Exception, complaint: Callable[[Any], list[str]]) -> None:
    def fail() -> None:
        raise error

    assert complaint(fail)[0].startswith("error: Expected enough memory. Found that some could not be allocated; ")


def test_limits_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda *values: set_to.append(values))
    limit_memory("1.5G")
    assert [(kind, soft) for kind, (soft, _) in set_to] == [(resource.RLIMIT_DATA, 1_500_000_000)]
    for text in ("10M", "-1", "lots"):
        with pytest.raises(InvalidInput, match="Expected"):
            limit_memory(text)
