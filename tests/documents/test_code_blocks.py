"""Every block of code in README and docs is run, page by page, as a reader would."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
NEEDS_REAL_DATA = ("predictions.md",)
NEEDS_CURL = ("predictions.md",)


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


def with_code() -> list[Path]:
    return [page for page in PAGES if "\n```" in page.read_text()]


@pytest.mark.parametrize("page", with_code(), ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page: Path, reader_of: Callable[[Path], Any], request: pytest.FixtureRequest) -> None:
    if page.name in NEEDS_REAL_DATA:
        request.getfixturevalue("data_root")
    if page.name in NEEDS_CURL and not shutil.which("curl"):
        pytest.skip("needs curl, as the reader of the page does")
    reader = reader_of(page)
    for block in blocks(page):
        printed = reader.run(block.language, block.text)
        if block.language in ("python", "sh") and block.shown:
            for piece in re.split(r"^\.\.\.$", block.shown, flags=re.MULTILINE):
                assert " ".join(piece.split()) in " ".join(printed.split()), f"{page.name} shows what was not printed"
