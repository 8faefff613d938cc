"""What a reader finds in a rendered report: text, charts, snippets, sections."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

from polyarch.reports.page import render
from polyarch.results import Results


def plain(text: str) -> str:
    """With ordinary spaces, single ones."""
    return " ".join(text.replace("\u00a0", " ").split())


def without_intervals(text: str) -> str:
    """Without the brackets behind numbers, and with ordinary spaces."""
    return re.sub(r" \[-?[\d.]+, -?[\d.]+\]", "", plain(text))


def page_of(results: Results) -> str:
    """The whole page in one line."""
    return plain(render(results))


def section_of(results: Results, first: str, last: str) -> str:
    """The page from one section up to another, by their ids."""
    page = page_of(results)
    return page[page.index(f'<section id="{first}"') : page.index(f'<section id="{last}"')]


def text_of(page: str) -> str:
    """What is read, without scripts, styles and tags."""
    page = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return plain(unescape(re.sub(r"<[^>]+>", " ", page)))


def sections(page: str) -> list[str]:
    """The ids of the sections in order."""
    return re.findall(r'<section id="([\w-]+)"', page)


def charts_of(results: Results) -> dict[str, Any]:
    """The specifications that the page draws."""
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', render(results))
    assert found is not None
    charts: dict[str, Any] = json.loads(found[1])
    return charts


def rows(spec: dict[str, Any], *keys: str) -> list[tuple[Any, ...]]:
    """These values of all rows that have them, in every data set of a chart."""
    every = [row for values in spec["datasets"].values() for row in values]
    return [tuple(row[key] for key in keys) for row in every if all(key in row for key in keys)]


def snippets(page: str) -> dict[str, str]:
    """Headings and code to copy."""
    found = re.findall(r'<div class="snippet"><header><h3>(.*?)</h3>.*?<code>(.*?)</code>', page, flags=re.DOTALL)
    return {unescape(heading): unescape(code) for heading, code in found}


def read_again(results: Results, folder: Path) -> Results:
    """What comes back from the file."""
    results.write(folder / "results.json")
    return Results.read(folder / "results.json")
