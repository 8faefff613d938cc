"""Verdicts of the experiments on differentiable search, from made-up courses."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from polyarch.errors import MissingData
from polyarch.plugins import EXPERIMENTS
from polyarch.randomness import generator_at
from polyarch.runs.settings import RunSettings
from polyarch.spaces import nb201_space
from polyarch_experiments.distinct_cells import OTHER_DATA
from polyarch_experiments.training_speed import searched_cells
from polyarch_experiments.training_speed.cell_evaluation import OTHER, content, evaluations
from polyarch_experiments.training_speed.cell_search import items
from polyarch_experiments.training_speed.cell_shape import METHODS, with_convolutions
from polyarch_experiments.training_speed.searched_cells import content_of, ends, growth, values_at, with_accuracies

SEARCH, SHAPE, EVALUATION = (EXPERIMENTS[name] for name in ("cell_search", "cell_shape", "cell_evaluation"))


def course(
    skips: float, accuracy: float, *, growth: float = 1.0, half: float | None = None, epochs: int = 50
) -> dict[str, Any]:
    """The eigenvalue goes from 1 to ``growth``; the accuracy is another one in the first ``half``."""
    rows = [
        {
            "skips": skips, "skip_share": skips / 6, "cell_depth": 2.0, "entropy_share": 0.8,
            "true_accuracy": accuracy if half is None or epoch >= epochs // 2 else half,
            "eigenvalue": 1.0 + (growth - 1) * epoch / (epochs - 1), "true_cifar100": 70.0, "true_imagenet16": 40.0,
        }
        for epoch in range(epochs)
    ]  # fmt: skip
    return {"rows": rows, "architectures": [""] * epochs, "findings": [], "seconds": 60.0}


SEEDS = {**SEARCH.presets["cpu"], "methods": dict.fromkeys(SEARCH.presets["cpu"]["methods"], 3)}
"""The preset with three seeds of every method."""


def verdicts(runs: dict[str, Any]) -> dict[str, str]:
    return {claim.text: claim.verdict for claim in SEARCH.judge(SEEDS, runs)}


DARTS_COLLAPSES = "After 50 epochs DARTS has collapsed to skips."
SOTL_DOES_NOT = "After 50 epochs SoTL-DARTS has not collapsed to skips."
SOVL_COLLAPSES = "The sum of validation losses collapses to skips, too."
BETTER = "After 50 epochs SoTL-DARTS has found better cells than DARTS."
LONGER = "SoTL-DARTS does not get worse when it searches longer: after 50 epochs instead of 25 of the same search."
GROWTH = "Growth of the dominant eigenvalue does not predict failure."


def searches(**ends: dict[str, Any]) -> dict[str, Any]:
    """The same course for every seed of a method; others end well."""
    return {name: ends.get(method.replace("-", "_"), course(1, 93.0)) for name, (method, _) in items(SEEDS).items()}


def test_searches_on_other_data_are_judged_by_their_own_accuracies() -> None:
    runs = searches(darts=course(6, 54.3))
    settings = {**SEEDS, "run": {**SEEDS["run"], "data": {**SEEDS["run"]["data"], "name": "cifar100"}}}
    for one, verdict, shown in ((SEEDS, "holds", "CIFAR-10, those"), (settings, "fails", "CIFAR-100, those")):
        found = {claim.text: claim for claim in SEARCH.judge(one, runs)}
        assert found[BETTER].verdict == verdict  # true_cifar100 is the same in all courses
        assert any(shown in caption for caption in SEARCH.tables(one, runs))
        elsewhere = next(claim for text, claim in found.items() if "when both search on" in text)
        assert elsewhere.verdict == "undecided" and elsewhere.needs == OTHER_DATA


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


def test_two_seeds_that_agree_are_not_sure() -> None:
    """Both have 5 of 6 skips: a third may well have fewer than half; both 6 are too far from that."""
    runs = searches(darts=course(6, 54.3), sovl_darts=course(5, 80.0))
    found = verdicts({name: run for name, run in runs.items() if not name.endswith("seed 2")})
    assert found[DARTS_COLLAPSES] == "holds" and found[SOVL_COLLAPSES] == "undecided"


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
    assert growth(course(0, 0, growth=3.0, epochs=6)["rows"]) == pytest.approx(2.8 / 1.2)
    assert growth([{"loss": 1.0}]) is None


def test_values_after_some_epochs() -> None:
    one = course(1, 92.0, half=90.0)
    assert values_at([one], "true_accuracy", 25) == [90.0] and values_at([one], "true_accuracy", 26) == [92.0]
    assert ends([one], "true_accuracy") == [92.0]


class TestTwoReadings:
    """Preset long: DARTS and SoTL-DARTS search for 150 epochs and are read after 50, too."""

    settings = SEARCH.presets["long"]

    def runs(self) -> dict[str, Any]:
        late = course(6, 60.0, half=93.0, epochs=150)
        for row in late["rows"][:60]:
            row |= {"skips": 1.0, "skip_share": 1 / 6}
        found = {
            "darts": late,
            "sotl-darts": course(1, 92.0, half=90.0, epochs=150),
            "pdarts": course(1, 93, epochs=75),
        }
        return {name: found.get(method, course(6, 54.3)) for name, (method, _) in items(self.settings).items()}

    def test_every_reading_has_its_own_verdict(self) -> None:
        found = SEARCH.judge(self.settings, self.runs())
        assert [(claim.number, claim.supported) for claim in found] == [
            (9, False), (9, True), (9, False), (9, True), (9, True), (9, True), (9, None), (10, True), (11, True),
            (14, found[-1].supported),
        ]  # fmt: skip
        assert "After 50 epochs" in found[0].text and "After 150 epochs" in found[3].text
        assert "after 50 epochs 90.00 +- 0.00 %, after 150 92.00 +- 0.00 %" in found[8].numbers

    def test_the_table_has_a_row_for_each(self) -> None:
        (table,) = SEARCH.tables(self.settings, self.runs()).values()
        rows = {(row[0], row[1]): row for row in table.rows}
        assert {("darts", "50"), ("darts", "150"), ("sotl-darts", "150"), ("pdarts", "75"), ("gdas", "50")} <= set(rows)
        assert rows["darts", "150"][3:6] == ["60.00 +- 0.00", "70.00 +- 0.00", "40.00 +- 0.00"]
        assert rows["sotl-darts", "50"][-1] == "92.66 / 68.13 / 36.60"
        assert rows["sotl-darts", "150"][-1] == "89.89 / 71.03 / 33.75"
        assert all(len(row) == len(table.columns) for row in table.rows)

    def test_what_carries_the_claims_runs_first(self) -> None:
        names = [method for method, _ in items(self.settings).values()]
        assert set(names[:10]) == {"darts", "sotl-darts"} and names[10:13] == ["sovl-darts"] * 3

    @pytest.mark.parametrize("finished", [0, 1, 3, 12])
    def test_a_part_of_the_runs_is_judged(self, finished: int) -> None:
        runs = dict(list(self.runs().items())[:finished])
        assert {claim.number for claim in SEARCH.judge(self.settings, runs)} >= ({9} if finished > 1 else set())
        (table,) = SEARCH.tables(self.settings, runs).values()
        assert bool(table.rows) == bool(finished) and SEARCH.figures(self.settings, runs)


def shapes(skips: dict[str, tuple[float, float]], depths: tuple[float, float], preset: str = "long") -> dict[str, Any]:
    settings = SHAPE.presets[preset]
    runs = {}
    for name, (label, _) in SHAPE.items(settings).items():
        space, _, method = label.rpartition(" ")
        side = METHODS.index(method)
        row = {"skips": skips.get(space, (0.0, 0.0))[side]}
        row |= {"cell_depth": depths[side]} if "1shot1" in space else {"cell_depth_normal": depths[side]}
        runs[name] = {"rows": [row], "seconds": 60.0}
    return runs


@pytest.mark.slow
def test_shapes() -> None:
    settings = SHAPE.presets["long"]
    short, long, nodes = settings["spaces"]
    as_documented = shapes({short: (12.0, 0.0), long: (15.0, 3.0)}, (2.0, 5.0))
    found = SHAPE.judge(settings, as_documented)
    assert [claim.supported for claim in found] == [True, True, None, True, True]  # one seed has no interval
    otherwise = shapes({short: (3.0, 3.0), long: (10.0, 1.0)}, (5.0, 2.0))
    assert [claim.supported for claim in SHAPE.judge(settings, otherwise)] == [False, False, None, False, False]
    (table,) = SHAPE.tables(settings, as_documented).values()
    assert len(table.rows) == 6 and SHAPE.figures(settings, as_documented)
    part = {name: run for name, run in as_documented.items() if nodes not in name and long not in name}
    found = SHAPE.judge(settings, part)
    assert [claim.supported for claim in found] == [True, True, None, True, None]
    assert found[2].numbers == found[4].numbers == "not measured yet"
    (table,) = SHAPE.tables(settings, part).values()
    assert len(table.rows) == 2 and SHAPE.figures(settings, part)
    assert not SHAPE.tables(settings, {}) and not SHAPE.figures(settings, {})


def test_convolutions_of_a_cell_are_counted_in_every_epoch() -> None:
    """Figure 4.14c."""
    cells = ["0|maxpool3x3|0|conv3x3-bn-relu|2", "0|conv3x3-bn-relu|0|conv3x3-bn-relu|2"]
    found = with_convolutions({"rows": [{"skips": 0.0}, {"skips": 0.0}], "architectures": cells})
    assert [row["convolutions"] for row in found["rows"]] == [1, 2]


def test_accuracies_are_read_where_the_benchmark_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    space = nb201_space()
    cells = [space.sample(generator_at(0, "cell", position)) for position in range(2)]
    found = {"rows": [{"skips": 0.0}, {"skips": 0.0}], "architectures": [cell.key for cell in cells]}
    accuracies = {cells[0].key: 90.12345, cells[1].key: 91.0}
    truth = SimpleNamespace(accuracy=lambda cell: accuracies[cell.key])
    monkeypatch.setattr(searched_cells, "truth_for", lambda name, space: truth)
    known = with_accuracies(deepcopy(found), "a benchmark", space)
    assert [row["true_accuracy"] for row in known["rows"]] == [90.123, 91.0]

    def absent(name: str, space: object) -> None:
        raise MissingData("not here")

    monkeypatch.setattr(searched_cells, "truth_for", absent)
    assert with_accuracies(deepcopy(found), "a benchmark", space) == found


def test_shallow_networks_decide_nothing_on_s2() -> None:
    found = SHAPE.judge(SHAPE.presets["cpu"], shapes({}, (2.0, 5.0), "cpu"))
    assert all(claim.needs == "networks of 8 layers or more, as preset long has them" for claim in found[:4])
    assert found[-1].needs is not None and "space 3" in found[-1].needs


def test_the_longer_network_is_searched_once_and_last() -> None:
    settings = SHAPE.presets["long"]
    names = [name for name, _ in SHAPE.items(settings).values()]
    assert names[-2:] == ["S2, 20 layers darts", "S2, 20 layers sotl-darts"] and len(names) == 6 + 6 + 2


@pytest.mark.parametrize("preset", ["quick", "cpu", "long", "paper"])
def test_settings_of_searches_are_whole(preset: str) -> None:
    search, shape = SEARCH.presets[preset], SHAPE.presets[preset]
    for name in search["methods"]:
        parsed = RunSettings.parse(content_of(search["run"], name, search["own"].get(name, {})), "test")
        assert "differentiable" in parsed.sections and parsed.space.kind == "nb201"
        assert max(search["readings"].get(name, [0])) <= parsed.train.epochs
    for space in shape["spaces"].values():
        RunSettings.parse(content_of({**shape["run"], "space": space}, "sotl-darts", {}), "test")


class TestEvaluatedCells:
    """Tables 4.7 and 4.8, from made-up accuracies."""

    settings = EVALUATION.presets["paper"]

    def runs(self, better: tuple[str, ...] = (), seeds: int = 3, known: float | None = None) -> dict[str, Any]:
        found = {}
        for key, (label, seed) in EVALUATION.items(self.settings).items():
            space, _, name = label.partition(": ")
            accuracy = 95.0 + 0.1 * seed + (1.0 if name in better else 0.0)
            depth = "cell_depth_normal" if space == "DARTS" else "cell_depth"
            found[key] = {
                "rows": [{"skips": 2.0, depth: 3.0}], "architectures": [""], "findings": [], "seconds": 60.0,
                "benchmark": known, "alone": dict.fromkeys(self.settings["evaluations"][space], accuracy),
            }  # fmt: skip
        return {key: run for key, run in found.items() if int(key[-1]) < seeds}

    def test_as_the_thesis_has_it(self) -> None:
        nodes = EVALUATION.judge(self.settings, self.runs(("darts", OTHER)))[:6]
        assert [claim.supported for claim in nodes] == [True] * 6
        darts = EVALUATION.judge(self.settings, self.runs(("sotl-darts", "darts-20")))[6:]
        assert [claim.supported for claim in darts] == [True, False, True, True]
        assert "96.10 +- 0.10 % against 95.10 +- 0.10 % (8 layers)" in darts[0].numbers

    def test_small_networks_never_fail_it(self) -> None:
        small = {**self.settings, "run": {**self.settings["run"], "data": {"limit": 1000}}}
        found = EVALUATION.judge(small, self.runs(("darts",)))[6]
        assert (
            found.verdict == "undecided" and found.findings[0].supported is False and "1,000 images" in str(found.needs)
        )

    def test_few_seeds_decide_nothing(self) -> None:
        found = EVALUATION.judge(self.settings, self.runs(("sotl-darts",), seeds=1))
        assert found and all(claim.supported is None and "no interval" in claim.numbers for claim in found)
        assert EVALUATION.judge(self.settings, {}) == []

    def test_tables(self) -> None:
        tables = EVALUATION.tables(self.settings, self.runs())
        assert len(tables) == 4 and all(len(row) == len(t.columns) for t in tables.values() for row in t.rows)
        darts = {row[0]: row for row in list(tables.values())[-1].rows}
        assert darts["sotl-darts-20"][2:5] == ["not here", "95.10 +- 0.10", "95.10 +- 0.10"]
        assert darts["sotl-darts-20"][-1] == "94.21 / 95.53 / 97.28" and len(darts) == 9
        assert list(EVALUATION.figures(self.settings, self.runs())) == ["evaluated_searches", "evaluated_eigenvalues"]
        known = EVALUATION.tables(self.settings, self.runs(known=93.0))
        assert all(row[2] == "93.00 +- 0.00" for table in known.values() for row in table.rows)

    @pytest.mark.parametrize("preset", ["quick", "cpu", "paper"])
    def test_searches_and_evaluations_can_be_described(self, preset: str) -> None:
        settings = EVALUATION.presets[preset]
        for space, methods in settings["methods"].items():
            for name in methods:
                RunSettings.parse(content(settings, space, name), "test")
                for described in evaluations(settings, space, name).values():
                    parsed = RunSettings.parse(described, "test")
                    assert parsed.retrain.clip == 5.0 and parsed.retrain.learning_rate == 0.025
        deepest = content(EVALUATION.presets["paper"], "DARTS", "sotl-darts-20")
        assert deepest["space"]["layers"] == 20
