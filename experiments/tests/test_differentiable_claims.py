"""Verdicts of the experiments on differentiable search, from made-up courses."""

from __future__ import annotations

from typing import Any

import pytest

from polyarch.plugins import EXPERIMENTS
from polyarch.runs.settings import RunSettings
from polyarch_experiments.results import Claim
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


def claims(runs: dict[str, Any]) -> dict[int | None, Claim]:
    return {claim.number: claim for claim in SEARCH.judge(SEARCH.presets["cpu"], runs)}


def searches(**ends: dict[str, Any]) -> dict[str, Any]:
    """The same course for every seed of a method; others end well."""
    settings = SEARCH.presets["cpu"]
    return {name: ends.get(method.replace("-", "_"), course(1, 93.0)) for name, (method, _) in items(settings).items()}


def test_a_collapse_of_darts_alone_supports_the_claim() -> None:
    found = claims(searches(darts=course(6, 54.3), sovl_darts=course(5, 80.0)))
    assert found[9].supported and found[10].supported and found[11].supported
    assert "darts: 6.0 +- 0.0 of 6 skips, 54.30 +- 0.00 %" in found[9].numbers


def test_a_collapse_of_both_or_none_does_not() -> None:
    assert not claims(searches(darts=course(6, 54.3), sotl_darts=course(4, 80.0)))[9].supported
    found = claims(searches())
    assert not found[9].supported and not found[10].supported


def test_getting_worse_is_noticed() -> None:
    assert not claims(searches(sotl_darts=course(1, 90.0, half=93.0)))[11].supported
    assert claims(searches(sotl_darts=course(1, 92.5, half=93.0)))[11].supported


def test_growth_that_predicts_failure_is_noticed() -> None:
    methods = SEARCH.presets["cpu"]["methods"]
    failing = {name.replace("-", "_"): course(1, 94.0 - rank, growth=1.5 + rank) for rank, name in enumerate(methods)}
    assert not claims(searches(**failing))[14].supported
    thriving = {name.replace("-", "_"): course(1, 90.0 + rank, growth=1.5 + rank) for rank, name in enumerate(methods)}
    assert claims(searches(**thriving))[14].supported


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
    assert [claim.supported for claim in SHAPE.judge(settings, as_documented)] == [True, True]
    otherwise = shapes({short: (3.0, 0.0), long: (10.0, 3.0)}, (5.0, 2.0))
    assert [claim.supported for claim in SHAPE.judge(settings, otherwise)] == [False, False]
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
