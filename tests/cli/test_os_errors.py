"""What the operating system refuses is one sentence and exit code 2, found before data are loaded where it can be."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from polyarch import cli
from polyarch.errors import ConfigError, CorruptFile
from polyarch.runs.settings import read_toml
from polyarch.searchers.searcher import reading_study

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with what can be in the way."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "deep.toml").write_text("x = " + 5000 * "[" + 5000 * "]")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--out", "{place}/file"], "Not a directory"),
        (["--out", "{place}/file/run"], "Not a directory"),
        (["--out", "{place}/dangling"], "No such file"),
        (["--out", "{place}/dangling/run"], "No such file"),
        (["--out", "{place}/loop/run"], "No such file|Too many levels"),
        (["--out", "{place}/" + 300 * "n"], "name too long"),
    ],
)
def test_out_is_checked_before_data_are_loaded(place: Path, polyarch: Command, words: list[str], found: str) -> None:
    """The data are missing, which is what loading them would say."""
    failed = polyarch("search", "--data", "nowhere.csv", *(word.format(place=place) for word in words))
    assert failed.returncode == 2 and "nowhere.csv" not in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1
    assert pd.Series([failed.stderr]).str.contains(found)[0], failed.stderr


@pytest.mark.parametrize(
    ("name", "found"),
    [("folder", "Is a directory"), ("file/x.toml", "Not a directory"), ("deep.toml", "nested too deeply")],
)
def test_run_descriptions_that_cannot_be_read(place: Path, name: str, found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        read_toml(place / name)


def test_a_full_disk_is_a_sentence(
    table: pd.DataFrame, tmp_path: Path, folders: dict[str, Path], polyarch: Command
) -> None:
    table.to_csv(tmp_path / "rows.csv", index=False)
    failed = polyarch("predict", str(folders["table"]), str(tmp_path / "rows.csv"), "--out", "/dev/full")
    assert failed.returncode == 2
    assert "No space left" in failed.stderr and "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
            "No space left on device; make room and go on with --resume",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "x/y.ckpt"), "files at x/y.ckpt. Found: Permission denied"),
    ],
)
def test_other_errors_of_the_system_are_sentences(
    error: OSError, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(sys, "argv", ["polyarch"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2 and sentence in capsys.readouterr().err


def test_a_damaged_study_is_a_sentence(tmp_path: Path) -> None:
    import optuna

    (tmp_path / "study.db").write_bytes(b"no data base, but long enough" * 100)
    sentence = r"study\.db to be a readable .* not a database; if it is damaged, remove"
    with pytest.raises(CorruptFile, match=sentence), reading_study(tmp_path / "study.db"):
        optuna.create_study(storage=f"sqlite:///{tmp_path / 'study.db'}")
