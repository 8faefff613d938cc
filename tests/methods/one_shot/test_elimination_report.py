"""Early elimination in the report."""

from __future__ import annotations

import pytest
from rendered import page_of, section_of
from report_examples import cell_results

from polyarch.methods.one_shot.record import EliminatedArchitecture, EliminationRecord, OneShotRecord
from polyarch.methods.one_shot.report import elimination_rule
from polyarch.results import Results

pytest.importorskip("altair", reason="needs the extra 'report'")


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


def run_with(found: EliminationRecord) -> Results:
    results = cell_results()
    record = results.found(OneShotRecord)
    assert record is not None
    record.elimination = found
    return results


def test_the_report_tells_who_lasted() -> None:
    results = run_with(eliminated(3, [10, 20, 40]))
    section = section_of(results, "elimination", "ranking-trust")
    assert "3 random architectures ranked by training speed; after 10 and 20 steps, the worse half stopped." in section
    assert "300 steps instead of 1,200 (25" in section
    for cell in ("kind1</td>", '<td class="number">2,000</td>', '<td class="number">2.50</td>', ">diverged</td>"):
        assert cell in section
    assert 'href="#elimination"' in page_of(results)
    assert "elimination" not in page_of(cell_results())


@pytest.mark.parametrize(
    ("rungs", "words"),
    [([5], "none had to stop early"), ([5, 9], "after 5 steps, the worse half stopped"),
     ([2, 4, 8, 9], "after 2, 4 and 8 steps, the worse half stopped")],
)  # fmt: skip
def test_the_rule_in_words(rungs: list[int], words: str) -> None:
    found = eliminated(25, rungs)
    assert elimination_rule(found) == words
    section = section_of(run_with(found), "elimination", "ranking-trust")
    assert section.count('<td class="key">') == 20
