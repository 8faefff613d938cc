"""Verdicts of the experiments on differentiable search, from made-up courses."""

from __future__ import annotations

from typing import Any

import pytest

from polyarch.plugins import EXPERIMENTS
from polyarch.runs.settings import RunSettings
from polyarch_experiments.training_speed.cell_search import items
from polyarch_experiments.training_speed.cell_shape import METHODS
from polyarch_experiments.training_speed.searched_cells import content_of, ends, growth

SEARCH, SHAPE = EXPERIMENTS["cell_search"], EXPERIMENTS["cell_shape"]


def course(skips: float, accuracy: float, *, growth: float = 1.0, half: float | None = None) -> dict[str, Any]:
    """Six epochs; the eigenvalue goes from 1 to ``growth``."""
    rows = [
        {
            "skips": skips, "skip_share": skips / 6, "cell_depth": 2.0, "entropy_share": 0.8,
            "true_accuracy": accuracy if half is None or epoch >= 3 else half,
            "eigenvalue": 1.0 + (growth - 1) * epoch / 5,
        }
        for epoch in range(6)
    ]  # fmt: skip
    return {"rows": rows, "architectures": [""] * 6, "findings": [], "seconds": 60.0}


def verdicts(runs: dict[str, Any]) -> dict[str, str]:
    return {claim.text: claim.verdict for claim in SEARCH.judge(SEARCH.presets["cpu"], runs)}


DARTS_COLLAPSES = "DARTS collapses to skips."
SOTL_DOES_NOT = "SoTL-DARTS does not collapse to skips."
SOVL_COLLAPSES = "The sum of validation losses collapses to skips, too."
BETTER = "SoTL-DARTS finds better cells than DARTS."
LONGER = "SoTL-DARTS does not get worse when it searches longer."
GROWTH = "Growth of the dominant eigenvalue does not predict failure."


def searches(**ends: dict[str, Any]) -> dict[str, Any]:
    """The same course for every seed of a method; others end well."""
    settings = SEARCH.presets["cpu"]
    return {name: ends.get(method.replace("-", "_"), course(1, 93.0)) for name, (method, _) in items(settings).items()}


def test_a_collapse_of_darts_alone_supports_the_claim() -> None:
    found = verdicts(searches(darts=course(6, 54.3), sovl_darts=course(5, 80.0)))
    for text in (DARTS_COLLAPSES, SOTL_DOES_NOT, SOVL_COLLAPSES, BETTER, LONGER):
        assert found[text] == "holds"


def test_a_collapse_of_both_or_none_does_not() -> None:
    both = verdicts(searches(darts=course(6, 54.3), sotl_darts=course(4, 80.0)))
    assert both[DARTS_COLLAPSES] == "holds" and both[SOTL_DOES_NOT] == "fails"
    none = verdicts(searches())
    assert none[DARTS_COLLAPSES] == none[SOVL_COLLAPSES] == none[BETTER] == "fails"


def test_seeds_that_differ_leave_it_open() -> None:
    runs = searches(darts=course(6, 54.3))
    runs["darts seed 1"] = course(1, 93.0)
    found = verdicts(runs)
    assert found[DARTS_COLLAPSES] == found[BETTER] == "undecided"


def test_getting_worse_is_noticed() -> None:
    assert verdicts(searches(sotl_darts=course(1, 90.0, half=93.0)))[LONGER] == "fails"
    assert verdicts(searches(sotl_darts=course(1, 92.5, half=93.0)))[LONGER] == "holds"


def test_growth_that_predicts_failure_is_noticed() -> None:
    methods = SEARCH.presets["cpu"]["methods"]
    failing = {name.replace("-", "_"): course(1, 94.0 - rank, growth=1.5 + rank) for rank, name in enumerate(methods)}
    assert verdicts(searches(**failing))[GROWTH] == "fails"
    thriving = {name.replace("-", "_"): course(1, 90.0 + rank, growth=1.5 + rank) for rank, name in enumerate(methods)}
    assert verdicts(searches(**thriving))[GROWTH] == "holds"


def test_growth_of_eigenvalues() -> None:
    assert growth(course(0, 0, growth=3.0)["rows"]) == pytest.approx(2.8 / 1.2)
    assert growth([{"loss": 1.0}]) is None


def test_values_at_a_share_of_the_epochs() -> None:
    one = course(1, 92.0, half=90.0)
    assert ends([one], "true_accuracy", at=0.5) == [90.0] and ends([one], "true_accuracy") == [92.0]


def shapes(skips: dict[str, tuple[float, float]], depths: tuple[float, float]) -> dict[str, Any]:
    settings = SHAPE.presets["cpu"]
    runs = {}
    for name, (space, method, _) in SHAPE.items(settings).items():
        side = METHODS.index(method)
        row = {"skips": skips.get(space, (0.0, 0.0))[side]}
        row |= {"cell_depth": depths[side]} if "1shot1" in space else {"cell_depth_normal": depths[side]}
        runs[name] = {"rows": [row], "seconds": 60.0}
    return runs


def test_shapes() -> None:
    settings = SHAPE.presets["cpu"]
    short, long, _ = settings["spaces"]
    as_documented = shapes({short: (12.0, 0.0), long: (10.0, 3.0)}, (2.0, 5.0))
    assert [claim.verdict for claim in SHAPE.judge(settings, as_documented)] == ["holds"] * 5
    otherwise = shapes({short: (3.0, 2.0), long: (10.0, 2.0)}, (5.0, 2.0))
    claims = SHAPE.judge(settings, otherwise)
    assert [claim.verdict for claim in claims] == ["fails"] * 4 + ["undecided"]
    assert claims[-1].needs is not None and "space 3" in claims[-1].needs
    (table,) = SHAPE.tables(settings, as_documented).values()
    assert len(table.rows) == 6 and SHAPE.figures(settings, as_documented)


@pytest.mark.parametrize("preset", ["quick", "cpu", "paper"])
def test_settings_of_searches_are_whole(preset: str) -> None:
    search, shape = SEARCH.presets[preset], SHAPE.presets[preset]
    for method in search["methods"]:
        parsed = RunSettings.parse(content_of(search["run"], method, search["own"].get(method, {})), "test")
        assert "differentiable" in parsed.sections and parsed.space.kind == "nb201"
    for space in shape["spaces"].values():
        RunSettings.parse(content_of({**shape["run"], "space": space}, "sotl-darts", {}), "test")
