"""Every block of code in README and docs is run, page by page, as a reader would."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import polyarch.facade
import polyarch.scikit
from polyarch.errors import PolyarchError

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
NEEDS_REAL_DATA = {"predictions.md": "fashion_mnist", "RESULTS.md": "cifar10"}
NEEDS_CURL = ("predictions.md",)
LONG = (
    "channels.md",
    "front.md",
    "race.md",
    "commands.md",
    "depth.md",
    "differentiable-search.md",
    "index.md",
    "loading.md",
    "predictions.md",
    "RESULTS.md",
    "README.md",
    "supernets.md",
    "wirings.md",
    "your-network.md",
)
"""Pages with many runs, with programs of their networks, or with thousands of files."""


FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    language: str
    text: str
    shown: str | None = None


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page; ``shown`` is a block of text right behind one of code: what the code prints."""
    content = page.read_text()
    found = list(FENCED.finditer(content))
    for block, following in zip_longest(found, found[1:]):
        beside = following is not None and not content[block.end() : following.start()].strip()
        shown = following[2] if beside and following[1] == "text" else None
        yield Block(block[1], block[2], shown)


@pytest.fixture(scope="module")
def helpers() -> ModuleType:
    """The reader of documents."""
    return importlib.import_module("document_reader")


@pytest.fixture
def user_folder(
    tmp_path: Path, helpers: ModuleType, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The current folder, with everything that pages tell the user to have, and a `polyarch.search` that is quick."""
    folder = tmp_path / "user"
    folder.mkdir()
    helpers.write_customers(folder)
    helpers.write_photos(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("POLYARCH_DATA", environment["POLYARCH_DATA"])
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "net", raising=False)
    tiny = helpers.TinySearch(polyarch.facade.search)
    monkeypatch.setattr(polyarch, "search", tiny)  # the name is kept once it was asked for, and must be given back
    monkeypatch.setattr(polyarch.facade, "search", tiny)
    monkeypatch.setattr(polyarch.scikit, "search", tiny)
    return folder


@pytest.fixture
def reader_of(
    user_folder: Path,
    preloaded: Path,
    helpers: ModuleType,
    environment: dict[str, str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Path], Any]]:
    """Makes the reader of a page."""
    programs = tmp_path / "bin"
    programs.mkdir()
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if base.name.startswith("popen-") else base) / "searches"  # one for all xdist workers
    cache.mkdir(exist_ok=True)
    readers: list[Any] = []

    def make(page: Path) -> Any:
        path = f"{programs}:{environment['PATH']}"
        (programs / "polyarch").write_text(helpers.shim(preloaded, page))
        (programs / "polyarch").chmod(0o755)
        readers.append(helpers.Reader(page, user_folder, {**environment, "PATH": path}, cache))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()


def with_code() -> list[Path]:
    return [page for page in PAGES if "\n```" in page.read_text()]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] if page.name in LONG else [])
        for page in with_code()
    ],
)
def test_blocks_run(page: Path, reader_of: Callable[[Path], Any], request: pytest.FixtureRequest) -> None:
    needed = NEEDS_REAL_DATA.get(page.name)
    if needed and not (request.getfixturevalue("data_root") / needed).is_dir():
        pytest.skip(f"needs the real data set {needed}")
    if page.name in NEEDS_CURL and not shutil.which("curl"):
        pytest.skip("needs curl, as the reader of the page does")
    follow(page, reader_of(page))


def follow(page: Path, reader: Any) -> None:
    """Runs every block and compares what it prints with what the page shows, except where that has a line of dots."""
    for block in blocks(page):
        printed = reader.run(block.language, block.text)
        if block.shown and block.language != "text":
            for piece in re.split(r"^\.\.\.$", block.shown, flags=re.MULTILINE):
                assert " ".join(piece.split()) in " ".join(printed.split()), f"{page.name} shows what was not printed"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("```ruby\nputs 1\n```", "a block of ruby, which no test understands"),
        ("```\nputs 1\n```", "a block of no language"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```", "shows what was not printed"),
        ("```python\nimport no_such_module\n```", "no_such_module"),
        ("```sh\nls no_such_file\n```", "no_such_file"),
        ("```sh\npolyarch data info no_such_data\n```", "Expected a data set out of"),
        ("```sh\nmake tea\n```", "tea"),
        ("```sh\npip install -e '.[tea]'\n```", "tea"),
        ("```sh\npolyarch data download tea\n```", "tea"),
        ("```toml\nepoch = 3\n```", "epoch"),
    ],
    ids=lambda value: value.split("\n")[1] if "\n" in value else "",
)
def test_the_check_itself(content: str, words: str, reader_of: Callable[[Path], Any], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(content)
    with pytest.raises((AssertionError, ImportError, PolyarchError), match=re.escape(words)):
        follow(page, reader_of(page))
