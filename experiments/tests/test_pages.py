"""The page of a document: claims, verdicts and figures from results files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyarch.errors import ConfigError, CorruptFile
from polyarch_experiments.accounts import ACCOUNTS
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import summary, with_spread
from polyarch_experiments.page import AGAIN, BY_MEANS, EARLIER, THEN, page, results_of, write_page
from polyarch_experiments.papers import Account
from polyarch_experiments.results import Claim, ExperimentResults


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
