"""A run whose files were damaged while it stood still resumes to the same bits or is refused in one sentence."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Process
from killing import Search, write_points

Outcome = Callable[[Path], dict[str, Any]]


@pytest.fixture(scope="module")
def stopped(
    tmp_path_factory: pytest.TempPathFactory, preloaded: Path, environment: dict[str, str], outcome: Outcome
) -> tuple[Path, dict[str, Any]]:
    """A search that was killed once it had checkpoints, a journal and a study, and how it would have ended."""
    folder = tmp_path_factory.mktemp("corrupt")
    data = write_points(folder / "points.npz")
    search = Search("one-shot", folder / "run", data, preloaded, environment, programs="[]")
    assert not search.run(0.3, lambda run: (run / "study.db").exists())
    shutil.copytree(folder / "run", folder / "whole")
    whole = Search("one-shot", folder / "whole", data, preloaded, environment, programs="[]")
    assert whole.run()
    return folder / "run", outcome(folder / "whole")


def damaged_files(run: Path) -> list[Path]:
    """All files but the run description: other numbers in it are another run."""
    return sorted(path.relative_to(run) for path in run.rglob("*") if path.is_file() and path.name != "config.toml")


def check(
    name: Path,
    generator: random.Random,
    stopped: tuple[Path, dict[str, Any]],
    outcome: Outcome,
    preloaded: Path,
    environment: dict[str, str],
    tmp_path: Path,
) -> str:
    """Flips a bit of a file of a copy and resumes it."""
    run, expected = stopped
    copy = Path(shutil.copytree(run, tmp_path / f"copy{generator.random()}"))
    content = bytearray((copy / name).read_bytes())
    place = generator.randrange(len(content))
    content[place] ^= 1 << generator.randrange(8)
    (copy / name).write_bytes(content)
    errors = tmp_path / "errors"
    code = Process(preloaded, ["search", "--resume", "--out", str(copy)], environment, errors).wait()
    said = errors.read_text()
    about = f"{name}, byte {place}: exit code {code}, {said}"
    assert code in (0, 2) and "Traceback" not in said, about
    if code == 0:
        assert outcome(copy) == expected, about
    else:
        assert said.startswith("error: ") and said.count("\n") == 1, about
    shutil.rmtree(copy)
    return "identical" if code == 0 else "refused"


Check = Callable[[Path, random.Random], str]


@pytest.fixture
def flip(
    stopped: tuple[Path, dict[str, Any]], outcome: Outcome, preloaded: Path, environment: dict[str, str], tmp_path: Path
) -> Check:
    def run(name: Path, generator: random.Random) -> str:
        return check(name, generator, stopped, outcome, preloaded, environment, tmp_path)

    return run


def test_a_bit_of_a_checkpoint_and_of_a_journal(stopped: tuple[Path, dict[str, Any]], flip: Check) -> None:
    files = damaged_files(stopped[0])
    for suffix in (".ckpt", ".jsonl"):
        flip(next(name for name in files if name.suffix == suffix), random.Random(0))


def test_a_study_that_is_no_database(
    stopped: tuple[Path, dict[str, Any]], preloaded: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(stopped[0], tmp_path / "run"))
    content = (run / "study.db").read_bytes()
    (run / "study.db").write_bytes(content[:100] + bytes(len(content) - 100))
    (run / "study.db-journal").unlink(missing_ok=True)
    words = ["search", "--resume", "--out", str(run)]
    assert Process(preloaded, words, environment, tmp_path / "errors").wait() == 2
    said = (tmp_path / "errors").read_text()
    assert re.fullmatch(r"error: Expected \S*study\.db to be the study 'search' of a search\. Found: .*\.\n", said), (
        said
    )


@pytest.mark.slow
def test_bits_of_every_file(stopped: tuple[Path, dict[str, Any]], flip: Check) -> None:
    generator = random.Random(1)
    for name in damaged_files(stopped[0]):
        ends = [flip(name, generator) for _ in range(3)]
        print(f"{name}: {ends.count('identical')} identical, {ends.count('refused')} refused")
