"""The page of a document: claims, verdicts and figures from results files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyarch.errors import ConfigError, CorruptFile
from polyarch.plugins import EXPERIMENTS as REGISTERED
from polyarch_experiments.accounts import ACCOUNTS
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import summary, with_spread
from polyarch_experiments.page import AGAIN, BY_MEANS, EARLIER, THEN, page, results_of, write_page
from polyarch_experiments.papers import Account
from polyarch_experiments.prices import MINUTES, kind_of, priced_preset, prices
from polyarch_experiments.results import Claim, ExperimentResults, Finding
from polyarch_experiments.verdict import claim


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    return [
        Claim(
            text="It is large.",
            supported=runs["a"] > 1,
            numbers=f"{runs['a']}",
            number=2,
            document="about 5",
            ours="1 is large",
            needs="never shown, because it is decided",
        ),
        Claim(text="It is odd.", supported=None, numbers="nobody knows", needs="a scale"),
        Claim(text="It is there.", supported=False, numbers="gone", number=1),
    ]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Any]:
    return {"sizes": with_spread([{"x": 1, **summary([runs["a"], 3.0])}], "x", "size")}


def experiment(name: str, document: str) -> Experiment:
    presets = {preset: {"seeds": 2, "values": [1, 2]} for preset in ("quick", "cpu", "paper")}
    return Experiment(
        name=name,
        document=document,
        claim="Sizes.",
        presets=presets,
        items=lambda settings: {},
        task=lambda settings, item, folder: {},
        judge=judge,
        figures=figures,
    )


EXPERIMENTS = {"one": experiment("one", "toys"), "other": experiment("other", "tools")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in EXPERIMENTS:
        ExperimentResults(
            polyarch="0", torch="0", experiment=name, preset="cpu", settings={"seeds": 2, "values": [1, 2]}, claims=[],
            runs={"a": 2.0},
        ).write(tmp_path / f"{name}.json")  # fmt: skip
    return tmp_path


def test_claims_in_order_with_verdicts(folder: Path) -> None:
    text = page(["toys"], results_of(["toys"], EXPERIMENTS, folder), "pictures")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[0] for row in rows] == ["| 1", "| 2", "| beyond"]
    assert [row.split("**")[1] for row in rows] == ["fails", "holds", "undecided"]
    assert "- **It is large.** Holds.\n    - paper: about 5\n    - here: 2.0" in text
    assert "threshold: ours, 1 is large" in text and "a fair test would take: a scale" in text
    assert BY_MEANS in text
    assert "Of 3 claims 1 hold, 1 fail and 1 are undecided." in text
    assert "not in the paper" in text and "seeds 2, values (1, 2)" in text
    assert "polyarch experiment run one --preset cpu --out runs/one" in text
    assert "(pictures/sizes.png)" in text and "other" not in text


def test_the_takeaway_is_first_and_choices_are_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = results_of(["toys"], EXPERIMENTS, folder)
    assert "How these settings" not in page(["toys"], kept, "pictures")
    monkeypatch.setitem(ACCOUNTS, "toys", Account("Toys are small. Tools are not.", "- By eye."))
    lines = page(["toys"], kept, "pictures").splitlines()
    assert lines[:3] == ["# Toys", "", "Toys are small. Tools are not."]
    assert lines[-3:] == ["## How these settings were chosen", "", "- By eye."]


def test_parts_of_a_claim_have_verdicts_of_their_own(folder: Path) -> None:
    parts = [
        Finding(name="a", value=1, low=1, high=1, above=0), Finding(name="b", value=None),
        Finding(name="c", value=0, low=-1, high=1, above=0),
    ]  # fmt: skip
    several = replace(EXPERIMENTS["one"], judge=lambda *found: [claim("All are large.", parts)])
    text = page(["toys"], results_of(["toys"], {"one": several}, folder), "pictures")
    assert "| **undecided**: a holds, b not run, c undecided |" in text


def some_items(preset: str, ran: Mapping[str, float | None]) -> tuple[Experiment, ExperimentResults]:
    """An experiment of two seeds of three kinds, and results of some; the processor seconds of some are known."""
    items = {f"{kind} seed {seed}": 0 for seed in range(2) for kind in ("x", "y", "z")}
    one = replace(experiment("one", "toys"), items=lambda settings: items)
    one.presets["long"] = one.presets["cpu"]
    results = ExperimentResults(
        polyarch="0", torch="0", experiment="one", preset=preset, settings={}, claims=[],
        runs={name: {} for name in ran},
        processor_seconds={name: value for name, value in ran.items() if value is not None},
    )  # fmt: skip
    return one, results


class TestPrices:
    """What results took, and what the rest would take."""

    def test_of_items_like_those_that_ran(self) -> None:
        told = list(prices(*some_items("long", {"x seed 0": 600.0, "x seed 1": 1200.0, "y seed 0": 60.0})))
        assert told[0] == "3 items took 31 min of one core."
        assert told[1] == (
            "3 of 6 items have run; 1 item would take about 1 min of one core (y 1 min each); the price of 2 items "
            "more is not measured and would be 21 min at the mean of those that were."
        )

    def test_of_timed_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(MINUTES, "one", {"x": 0.5, "y": 120.0, "z": 3.0})
        (told,) = prices(*some_items("long", {"x seed 0": None}))
        assert told.startswith(
            "1 of 6 items have run; 5 items would take about 4.1 h of one core (y 2.0 h, z 3 min, x 30 s"
        )

    def test_of_results_of_other_settings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An experiment without the preset long is priced at cpu, and again once its settings are others."""
        one, results = some_items("cpu", dict.fromkeys(f"{kind} seed {seed}" for kind in "xyz" for seed in (0, 1)))
        del one.presets["long"]
        monkeypatch.setitem(MINUTES, "one", {"x": 6.0, "y": 12.0, "z": 3.0})
        assert next(iter(prices(one, results))).startswith("Of the preset `cpu`, 6 items would take about 42 min")
        assert not list(prices(one, results.model_copy(update={"settings": one.presets["cpu"]})))

    def test_of_the_long_preset(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one, results = some_items("cpu", dict.fromkeys(f"{kind} seed {seed}" for kind in "xyz" for seed in (0, 1)))
        assert not list(prices(one, results))
        monkeypatch.setitem(MINUTES, "one", {"x": 6.0, "y": 12.0, "z": 3.0})
        assert list(prices(one, results)) == [
            "Of the preset `long`, 6 items would take about 42 min of one core (x 6 min, y 12 min, z 3 min each)."
        ]


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ("fair seed 1", "fair"), ("all, base, seed 0", "all, base"), ("seed 2", "seed"), ("alone 3, seed 1", "alone"),
        ("NB101-1, truth 12", "NB101-1, truth"), ("fair paths, 16 epochs seed 0", "fair paths, 16 epochs"),
    ],
)  # fmt: skip
def test_items_that_cost_the_same(item: str, kind: str) -> None:
    assert kind_of(item) == kind


def test_timed_items_are_items_of_the_experiments() -> None:
    for name, pieces in MINUTES.items():
        one = REGISTERED[name]
        assert pieces.keys() <= {kind_of(item) for item in one.items(one.presets[priced_preset(one)])}


def test_experiments_without_results_are_listed_with_their_price(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other.json").unlink()
    waiting = replace(experiment("other", "toys"), items=lambda settings: {"x seed 0": 0, "x seed 1": 0})
    monkeypatch.setitem(MINUTES, "other", {"x": 30.0})
    write_page(["toys"], {"one": EXPERIMENTS["one"], "other": waiting}, folder, folder / "toys.md")
    text = (folder / "toys.md").read_text()
    assert "1 experiment has [not run yet](#not-run-yet)." in text
    assert "| `other` | Sizes. | Of the preset `cpu`, 2 items would take about 60 min of one core" in text
    assert "not run yet" not in page(["toys"], results_of(["toys"], EXPERIMENTS, folder), "pictures")


def test_earlier_settings_are_said(folder: Path) -> None:
    assert EARLIER not in page(["toys"], results_of(["toys"], EXPERIMENTS, folder), "pictures")
    changed = experiment("one", "toys")
    changed.presets["cpu"] = {"seeds": 3, "values": [1]}
    assert EARLIER in page(["toys"], results_of(["toys"], {"one": changed}, folder), "pictures")


def test_results_that_lack_values_decide_nothing(folder: Path) -> None:
    then = Claim(text="It was large.", supported=False, numbers="1", number=1)
    ExperimentResults(
        polyarch="0", torch="0", experiment="one", preset="cpu", settings={}, claims=[then], runs={"b": 2.0}
    ).write(folder / "one.json")  # fmt: skip
    text = page(["toys"], results_of(["toys"], EXPERIMENTS, folder), "pictures")
    assert "- **It was large.** Undecided." in text and AGAIN in text and THEN in text


def test_the_page_and_its_figures_are_written(folder: Path) -> None:
    write_page(["toys"], EXPERIMENTS, folder, folder / "out" / "toys.md")
    assert (folder / "out" / "toys.md").read_text().startswith("# Toys\n")
    assert (folder / "out" / "toys" / "sizes.png").read_bytes().startswith(b"\x89PNG")


def test_refusals(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"a document out of \['tools', 'toys'\].*Found none of 'trees'"):
        results_of(["trees"], EXPERIMENTS, folder)
    (folder / "one.json").write_text('{"experiment": "one"}')
    with pytest.raises(CorruptFile, match=r"one\.json to fit an experiment"):
        results_of(["toys"], EXPERIMENTS, folder)


def test_from_the_command_line(tmp_path: Path, polyarch: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    words = ["experiment", "page", "variational depth", "--results", str(tmp_path), "--out", str(tmp_path / "page.md")]
    finished = polyarch(*words)
    assert finished.returncode == 2 and "Found none of 'variational depth'" in " ".join(finished.stderr.split())
