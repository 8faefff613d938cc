"""Every experiment runs its quick preset from the command line, goes on after a kill, and starts its paper preset."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from polyarch.data import data_root as data_path
from polyarch.data import load
from polyarch.errors import ConfigError, CorruptFile, MissingData, UnknownName
from polyarch.methods.depth.search import RULES
from polyarch.plugins import EXPERIMENTS
from polyarch.runs.display import Quiet
from polyarch.training import StopRequest
from polyarch_experiments import PRESETS, Experiment
from polyarch_experiments.depth.depth_functions import SMALL
from polyarch_experiments.depth.image_depth import run as run_images
from polyarch_experiments.depth.planes import SIDE
from polyarch_experiments.depth.spiral_depth import run as run_spirals
from polyarch_experiments.depth.spirals import network, problem
from polyarch_experiments.measures import rank_correlation, scores
from polyarch_experiments.ranked_supernets import trial_of
from polyarch_experiments.results import Claim, ExperimentResults

Command = Callable[..., subprocess.CompletedProcess[str]]
AKIN = (
    "spiral_width", "spiral_rotation", "spiral_points", "fine_tuning", "cell_shape", "supernet_recipe",
    "space_ranking", "guided_families", "spiral_max_depth", "spiral_noise", "image_max_depth", "wiring_ensemble",
    "wiring_consistency", "interchoice_kinds", "guided_settings", "constant_decay",
)  # fmt: skip
"""They share all but their settings with another experiment that is run."""
LONG = (
    "strategy_ranking", "interchoice_ranking", "cell_search", "depth_functions", "fourier_degree", "guided_draws",
    "guided_limits", "cell_evaluation", "interchoice_chain", "annealing", "interchoice_costs", "equal_operations",
    "gradient_sums", "shared_wirings",
)  # fmt: skip
"""They take longest, and other tests run parts of them."""
OURS = [
    entry.name for entry in entry_points(group=EXPERIMENTS.group) if entry.module.startswith("polyarch_experiments.")
]
"""Other packages may register experiments, too."""
TINY_SPIRALS = {**EXPERIMENTS["spiral_depth"].presets["paper"], "epochs": 3, "seeds": 2}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in AKIN + LONG else []) for name in OURS]
)
def test_quick_preset(name: str, tmp_path: Path, polyarch: Command, data_root: Path) -> None:
    out = tmp_path / "run"
    words = ["experiment", "run", name, "--preset", "quick", "--out", str(out), "--workers", "1"]
    finished = polyarch(*words)
    assert finished.returncode == 0, finished.stderr
    results = ExperimentResults.model_validate(json.loads((out / "results.json").read_text()))
    assert results.experiment == name and results.claims and results.runs
    assert set(results.runs) == set(EXPERIMENTS[name].items(results.settings))
    assert all(claim.text.endswith(".") and claim.numbers and claim.document for claim in results.claims)
    figures = set(EXPERIMENTS[name].figures(results.settings, results.runs))
    assert figures
    pictures = list((out / "figures").glob("*.png"))
    assert {path.stem for path in pictures} == figures
    for path in pictures:
        with Image.open(path) as picture:
            assert picture.width > 200 and len(picture.convert("RGB").getcolors(1 << 20) or ()) > 10  # not blank

    # runs that are in the journal are not run again; a torn last line counts as not run
    journal = out / "runs.jsonl"
    before = journal.read_bytes()
    journal.write_bytes(before + b'{"key": "seed 0", "va')
    assert polyarch(*words).returncode == 0
    again = ExperimentResults.model_validate(json.loads((out / "results.json").read_text()))
    assert again == results
    assert journal.read_bytes().startswith(before)

    other = polyarch("experiment", "run", name, "--preset", "cpu", "--out", str(out))
    assert other.returncode == 2
    assert "choose another --out" in other.stderr


@pytest.mark.parametrize("name", OURS)
def test_presets(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert list(experiment.presets) == [name for name in PRESETS if name in experiment.presets]
    assert set(PRESETS) - set(experiment.presets) <= {"long"}
    assert experiment.document and experiment.claim.endswith(".")
    for settings in experiment.presets.values():
        assert experiment.items(settings)
        assert json.loads(json.dumps(settings)) == settings


def one_number(settings: dict[str, Any], item: str, folder: Path) -> dict[str, Any]:
    return {"value": settings["value"]}


def numbers(value: int) -> Experiment:
    """An experiment that takes no time."""
    presets: dict[str, dict[str, Any]] = {preset: {"value": value} for preset in PRESETS}
    return Experiment("numbers", "none", "None.", presets, lambda settings: {"a": "a"}, one_number, lambda *found: [])


def number_if_there(settings: dict[str, Any], item: str, folder: Path) -> dict[str, Any]:
    if item == "b" and not (folder / "there").exists():
        raise MissingData(f"Expected numbers at {data_path()}/b. Found none.")
    return {"value": settings["value"]}


class TestMissingData:
    """Claims on data that are not there are left open, and judged once they are."""

    def made(self, *, partial: bool) -> Experiment:
        def judge(settings: dict[str, Any], runs: dict[str, Any]) -> list[Claim]:
            return [Claim(text=f"{', '.join(runs)}.", supported=True, numbers="1")]

        return replace(
            numbers(1), items=lambda settings: {"a": "a", "b": "b"}, task=number_if_there, judge=judge,
            partial=partial,
        )  # fmt: skip

    @pytest.mark.parametrize(("partial", "verdicts"), [(False, [None]), (True, [True, None])])
    def test_what_is_there_is_judged(self, tmp_path: Path, partial: bool, verdicts: list[bool | None]) -> None:
        experiment = self.made(partial=partial)
        found = experiment.run("quick", tmp_path, Quiet(), StopRequest(), workers=1)
        assert [claim.supported for claim in found.claims] == verdicts and list(found.runs) == ["a"]
        assert found.claims[-1].numbers == "Expected numbers at the data folder/b. Found none."
        (tmp_path / "there").touch()
        again = experiment.run("quick", tmp_path, Quiet(), StopRequest(), workers=1)
        assert [claim.text for claim in again.claims] == ["a, b."] and list(again.runs) == ["a", "b"]


def test_settings_of_a_preset_can_be_changed(tmp_path: Path) -> None:
    found = numbers(1).run("quick", tmp_path / "one", Quiet(), StopRequest(), workers=1, changes={"value": 7})
    assert found.settings == {"value": 7} and found.runs == {"a": {"value": 7}}
    assert numbers(1).presets["quick"] == {"value": 1}
    with pytest.raises(UnknownName, match="setting of numbers out of value"):
        numbers(1).run("quick", tmp_path / "two", Quiet(), StopRequest(), changes={"valeu": 7})
    assert not (tmp_path / "two").exists()


class TestFolders:
    """A folder belongs to one experiment with one set of settings."""

    def test_runs_of_other_settings_are_not_mixed_in(self, tmp_path: Path) -> None:
        first = numbers(1).run("quick", tmp_path, Quiet(), StopRequest(), workers=1)
        assert numbers(1).run("quick", tmp_path, Quiet(), StopRequest(), workers=1) == first
        with pytest.raises(ConfigError, match=r"of 'numbers', preset 'quick': not the same settings;"):
            numbers(2).run("quick", tmp_path, Quiet(), StopRequest(), workers=1)
        with pytest.raises(ConfigError, match=r"not the same preset; choose another --out"):
            numbers(1).run("cpu", tmp_path, Quiet(), StopRequest(), workers=1)
        assert first.runs == {"a": {"value": 1}}

    def test_what_has_arrived_is_stored(self, tmp_path: Path) -> None:
        """Before every item of an experiment that judges gradually, with what there is by then."""
        seen: list[list[str]] = []

        def look(settings: dict[str, Any], item: str, folder: Path) -> dict[str, Any]:
            path = folder / "results.json"
            seen.append(list(json.loads(path.read_text())["runs"]) if path.exists() else [])
            return {"value": item}

        gradual = replace(numbers(1), items=lambda settings: {"a": "a", "b": "b"}, task=look, partial=True)
        results = gradual.run("quick", tmp_path, Quiet(), StopRequest(), workers=1)
        assert seen == [[], ["a"]] and list(results.runs) == ["a", "b"]
        assert set(results.processor_seconds) == {"a", "b"} and min(results.processor_seconds.values()) >= 0
        assert gradual.run("quick", tmp_path, Quiet(), StopRequest(), workers=1) == results  # what it took is kept

    @pytest.mark.parametrize("content", ["{", "[1]"])
    def test_a_damaged_mark_is_said(self, content: str, tmp_path: Path) -> None:
        (tmp_path / "experiment.json").write_text(content)
        with pytest.raises(CorruptFile, match="Expected the experiment of a folder"):
            numbers(1).run("quick", tmp_path, Quiet(), StopRequest(), workers=1)


def test_spirals_of_learned_depth(tmp_path: Path) -> None:
    settings = {**TINY_SPIRALS, "max_depth": 3}
    found = run_spirals(settings, None, tmp_path)["seeds"]
    assert len(found) == 2 and found[0] != found[1]
    for one in found:
        assert one["iterations"] == 3 and len(one["q"]) == 4
        assert sum(one["q"]) == pytest.approx(1, abs=1e-5)
        assert set(one["depths"]) == set(one["learned_depths"]) == set(RULES)
        assert sum(one["exact"]) == pytest.approx(1, abs=1e-5) and one["kl"] > 0
        assert one["pruned"] == one["mixtures"][max(one["valid"], key=lambda name: one["valid"][name])]
        for measured in (one["unpruned"], one["pruned"], one["alone"], *one["mixtures"].values()):
            assert 0 < measured["mean_p"] < 1 and measured["mean_log_p"] < 0
            assert measured["mean_p"] >= torch.tensor(measured["mean_log_p"]).exp().item() - 1e-6  # Jensen
    assert run_spirals(settings, None, tmp_path)["seeds"] == found
    assert found[0] == run_spirals({**settings, "seeds": 1}, None, tmp_path)["seeds"][0]


def test_spirals_of_fixed_depth(tmp_path: Path) -> None:
    found = run_spirals(TINY_SPIRALS, 2, tmp_path)["seeds"]
    assert [one["iterations"] for one in found] == [3, 3]
    noise = {f"calibration_{name}" for name in ("error", "floor", "low", "high")}
    assert found[0] != found[1] and set(found[0]["test"]) == {"mean_log_p", "mean_p", "accuracy"} | noise
    assert all(one["valid"] < 0 and one["valid"] != one["test"]["mean_log_p"] for one in found)


def test_every_seed_has_its_own_data_and_weights() -> None:
    first, second = (problem(TINY_SPIRALS, seed) for seed in (0, 1))
    assert not first.inputs.equal(second.inputs)
    assert not first.examples.inputs.equal(first.inputs[: len(first.examples)])  # test points are others
    (batch,) = first.train.epoch(0)
    assert batch.inputs.mean(0).abs().max() < 1e-5 and batch.inputs.std(0, correction=0).sub(1).abs().max() < 1e-4
    nets = [network(TINY_SPIRALS, seed, 2, name) for seed, name in ((0, "learned"), (1, "learned"), (0, 2))]
    weights = [net.head.weight for net in nets]
    assert not weights[0].equal(weights[1]) and not weights[0].equal(weights[2])


def test_scores_by_hand() -> None:
    log_probs = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]]).log()
    found = scores(log_probs, torch.tensor([0, 0, 1]))
    assert found["mean_p"] == pytest.approx((0.9 + 0.4 + 0.5) / 3)
    assert found["mean_log_p"] == pytest.approx(float(torch.tensor([0.9, 0.4, 0.5]).log().mean()))
    assert found["accuracy"] == pytest.approx(1 / 3)


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 3], [5, 5, 5]) == 0


def test_functions_of_every_depth(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["depth_functions"]
    settings = {**experiment.presets["quick"], "epochs": 3, "max_depth": 2, "shown": [0, 2]}
    runs: dict[str, Any] = {
        name: experiment.task(settings, item, tmp_path) for name, item in experiment.items(settings).items()
    }
    learned, fixed = (runs[name]["seeds"] for name in ("learned", "fixed"))
    for one in (*learned, *fixed):
        assert len(one["changes"]) == len(one["accuracy"]) == 3 and len(one["updates"]) == 2
    assert all(len(one["rings"]) == 6 and all(0 <= depth <= 2 for depth in one["rings"]) for one in learned)
    for pictures, side in (
        ([*learned[0]["pictures"], learned[0]["mixture"], *fixed[0]["pictures"]], SIDE),
        ([*runs["rotation 360"]["pictures"], *runs["train 50"]["pictures"]], SMALL),
    ):
        for picture in map(base64.b64decode, pictures):
            assert len(picture) == side**2 and 0 <= min(picture) <= max(picture) <= 100
    assert "pictures" not in learned[1] and "mixture" not in learned[1]  # only one seed is drawn
    assert all(claim.numbers for claim in experiment.judge(settings, runs))


@pytest.mark.slow
def test_paper_spirals_start(tmp_path: Path) -> None:
    learned = run_spirals(TINY_SPIRALS, None, tmp_path)["seeds"]
    assert [len(one["q"]) for one in learned] == [51, 51] and learned[0]["iterations"] == 3
    assert run_spirals(TINY_SPIRALS, 50, tmp_path)["seeds"][0]["iterations"] == 3


@pytest.mark.slow
def test_paper_images_start(tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of the document, on few images."""
    monkeypatch.setenv("POLYARCH_DATA", str(data_root))
    paper = EXPERIMENTS["image_depth"].presets["paper"]
    settings = {**paper, "max_depth": 3, "train": 600, "valid": 100, "batch_size": 300, "epochs": 1}
    found = run_images(settings, ("mnist", 0), tmp_path)
    assert len(found["q"]) == len(found["alone"]) == 4
    assert found["epochs"] == {"learned": 1, "fixed": 1, "full": 1}
    assert set(found["test"]) == {"unpruned", "fixed depth", "full depth", *(f"pruned {rule}" for rule in RULES)}
    assert len(load("mnist").test) == 10_000


@pytest.mark.slow
def test_paper_ranking_starts(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYARCH_DATA", str(data_root))
    run = trial_of(EXPERIMENTS["strategy_ranking"].presets["paper"]["run"])
    strategy = run.method.training(run).strategy
    batches = run.feed.training_batches(run.settings.train.batch_size).epoch(0)
    losses = [strategy.step([next(batches)], generator=torch.Generator())["loss"] for _ in range(2)]
    assert all(0 < loss < 10 for loss in losses)
