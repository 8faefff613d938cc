"""Code in README and docs is run, and links lead somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from polyarch.jobs.settings import RunSettings

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def test_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    exec(compile(example, "README.md", "exec"), {})
    assert '"space": "nb201"' in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_run_descriptions_are_valid(page: Path) -> None:
    for block in blocks(page, "toml"):
        RunSettings.parse(tomllib.loads(block), page.name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
