"""Early elimination in the report."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from polyarch.methods.one_shot.elimination_report import SHOWN, elimination_part
from polyarch.reports.html import render
from polyarch.results import EliminatedArchitecture, EliminationRecord


def eliminated(count: int, rungs: list[int]) -> EliminationRecord:
    """The last one diverged."""
    architectures = [
        EliminatedArchitecture(
            architecture={"layer": f"kind{place}"}, parameters=1000 * place, steps=rungs[-1] if place < 2 else rungs[0],
            value=None if place == count - 1 else -1.5 - place,
        )
        for place in range(count)
    ]  # fmt: skip
    return EliminationRecord(rungs=rungs, architectures=architectures, spent=300, full_steps=1200)


def test_the_report_tells_who_lasted() -> None:
    examples: Any = importlib.import_module("report_examples")
    page = " ".join(render(examples.cell_results(elimination=eliminated(3, [10, 20, 40]))).split())
    section = page[page.index('id="elimination"') : page.index('id="ranking-trust"')].replace("\u00a0", " ")
    assert "3 random architectures ranked by training speed; after 10 and 20 steps the worse half stopped." in section
    assert "300 steps instead of 1,200 (25" in section
    for cell in ("kind1</td>", '<td class="number">2,000</td>', '<td class="number">2.50</td>', ">diverged</td>"):
        assert cell in section
    assert 'href="#elimination"' in page
    assert "elimination" not in render(examples.cell_results())


@pytest.mark.parametrize(
    ("rungs", "words"),
    [([5], "nobody had to stop early"), ([5, 9], "after 5 steps the worse half stopped"),
     ([2, 4, 8, 9], "after 2, 4 and 8 steps the worse half stopped")],
)  # fmt: skip
def test_the_rule_in_words(rungs: list[int], words: str) -> None:
    part = elimination_part(eliminated(SHOWN + 5, rungs))
    assert part is not None and part.rule == words
    assert len(part.lines) == SHOWN
    assert elimination_part(None) is None
