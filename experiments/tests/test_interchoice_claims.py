"""What experiments on inter-choice weights make of runs: claims, tables, figures and costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from polyarch.plugins import EXPERIMENTS
from polyarch.runs.settings import RunSettings
from polyarch.spaces import NB201_CONVOLUTIONS, nb201_space
from polyarch_experiments.interchoice.chain_networks import alone
from polyarch_experiments.interchoice.interchoice_figures import improvement_rows
from polyarch_experiments.interchoice.training_costs import cost_table, saved_bytes
from polyarch_experiments.interchoice.weighted_supernets import SPACES, random_networks, settings_of, weights_of
from polyarch_experiments.results import Claim

N = 12
TRUTH = [80.0 + position for position in range(N)]


def costs(settings: dict[str, Any]) -> dict[str, Any]:
    """A bias takes 2 % more time and others 10 %; all take 5 % more memory."""
    kinds = weights_of(settings)
    seconds = {kind: {"base": 1.0, "bias": 1.02}.get(kind, 1.1) for kind in kinds}
    return {"seconds": seconds, "bytes": {kind: 100 if kind == "base" else 105 for kind in kinds}}


def guesses(seed: int, knows: bool) -> list[float]:
    """The truth, or a random order."""
    shuffled = np.random.default_rng(seed).permutation(N)
    return [float(position) if knows else float(shuffled[position]) for position in range(N)]


def cell_runs(
    better: str, preset: str = "cpu", knowing: str = "bias", name: str = "interchoice_ranking"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs in which one kind of weights knows the truth in one space, and all others guess."""
    experiment = EXPERIMENTS[name]
    settings = experiment.presets[preset]
    runs: dict[str, Any] = {}
    for key, (space, kind, seed) in experiment.items(settings).items():
        predicted = guesses(seed, space == better and kind == knowing)
        ranked = {"truth": TRUTH, "val_acc": predicted, "params": predicted, "parameters": 10}
        runs[key] = costs(settings) if kind == "cost" else ranked
    return settings, runs


def by_number(claims: list[Claim]) -> dict[int | None, Claim]:
    """The first claim of every number."""
    return {claim.number: claim for claim in reversed(claims)}


def test_extra_weights_that_help_where_all_are_convolutions() -> None:
    experiment = EXPERIMENTS["interchoice_ranking"]
    settings, runs = cell_runs("only conv")
    claims = experiment.judge(settings, runs)
    assert by_number(claims)[1].supported
    assert [claim.supported for claim in claims if claim.number == 3] == [True, True]
    assert "bias +2 %" in claims[2].numbers and "split +5 %" in claims[3].numbers
    settings, runs = cell_runs("all")
    assert not by_number(experiment.judge(settings, runs))[1].supported
    ranked, agreement, cost = experiment.tables(settings, runs).values()
    assert len(ranked.rows) == len(cost.rows) == 12 and len(agreement.rows) == 3  # one space has two seeds
    assert experiment.figures(settings, runs)


def test_costs_above_the_limits() -> None:
    settings, runs = cell_runs("only conv")
    runs["all, cost"]["seconds"]["bias"] = 1.3
    runs["no zero, cost"]["bytes"]["split"] = 113
    claims = EXPERIMENTS["interchoice_ranking"].judge(settings, runs)
    assert [claim.supported for claim in claims if claim.number == 3] == [False, False]
    runs["macro, cost"]["bytes"]["split"] = 900  # a chain says nothing on the claim
    runs["no zero, cost"]["bytes"]["split"] = 112
    assert EXPERIMENTS["interchoice_ranking"].judge(settings, runs)[3].supported
    small = {**settings, "cost_run": settings["run"]}  # no fair test of the memory
    assert EXPERIMENTS["interchoice_ranking"].judge(small, runs)[3].supported is None


def test_several_biases_and_splits() -> None:
    """Any of them may be the one that helps, and all are told."""
    experiment = EXPERIMENTS["interchoice_ranking"]
    settings, runs = cell_runs("only conv", "paper", "split at 200")
    claims = by_number(experiment.judge(settings, runs))
    assert claims[1].supported
    assert "split at 175 +10 %" in claims[3].numbers and "bias D=3: agreement" in claims[2].numbers
    table = next(iter(experiment.tables(settings, runs).values()))
    assert [row[1] for row in table.rows] == list(weights_of(settings)) * 4
    assert experiment.figures(settings, runs)


def test_seeds_that_are_missing_are_left_out() -> None:
    settings, runs = cell_runs("only conv", "long")
    first = {key: run for key, run in runs.items() if not key.endswith(("seed 1", "seed 2"))}
    experiment = EXPERIMENTS["interchoice_ranking"]
    assert by_number(experiment.judge(settings, first))[1].supported
    assert {row[-1] for row in next(iter(experiment.tables(settings, first).values())).rows} == {"1"}
    assert experiment.figures(settings, first)


@pytest.mark.parametrize("name", ["interchoice_ranking", "interchoice_kinds"])
def test_settings_of_runs_are_whole(name: str) -> None:
    for settings in EXPERIMENTS[name].presets.values():
        for space in SPACES if "macro_run" in settings else settings["spaces"]:
            for kind in weights_of(settings):
                parsed = RunSettings.parse(settings_of(settings, space, kind), "test")
                assert parsed.space.kind == ("macro" if space == "macro" else "nb201")


@pytest.mark.parametrize(
    ("knowing", "supported"), [("bias", [True, False, False]), ("shared bias", [False, False, False])]
)
def test_other_kinds(knowing: str, supported: list[bool]) -> None:
    """With the bias best; attention as good as none is no better than none."""
    experiment = EXPERIMENTS["interchoice_kinds"]
    settings, runs = cell_runs("only conv", knowing=knowing, name="interchoice_kinds")
    runs["only conv, cost"]["seconds"]["attention"] = 1.0
    assert [claim.supported for claim in experiment.judge(settings, runs)] == supported
    runs["only conv, cost"]["seconds"]["attention"] = 1.03
    for seed in range(2):
        runs[f"only conv, attention, seed {seed}"]["val_acc"] = [*reversed(TRUTH[:3]), *TRUTH[3:]]
    claims = experiment.judge(settings, runs)
    assert claims[1].supported == (knowing == "bias") and claims[2].supported
    assert len(experiment.tables(settings, runs)["What training costs"].rows) == 10
    assert experiment.figures(settings, runs)


class TestChain:
    """Six networks trained twice, two seeds of every supernet."""

    experiment = EXPERIMENTS["interchoice_chain"]
    settings = experiment.presets["quick"]

    def runs(self, **scores: list[float]) -> dict[str, Any]:
        """The truth is 1, 2, ..., 6; supernets score in this order, but for those named, whose second seed differs."""
        found: dict[str, Any] = {"cost": costs(self.settings)}
        for key, (kind, name, seed) in self.experiment.items(self.settings).items():
            if kind == "supernet":
                right = [float(position) for position in range(1, 9)]
                values = scores.get(name.split()[0], right) if seed else right
                reset = [] if name in ("bias", "split at 1") else right[:6]
                found[key] = {"val_acc": values, "reset": reset, "parameters": 5}
            elif kind == "alone":
                numbers = [1.0, 2.0, 3.0, 4.0, 5.0] if name == "0" else [6.0]
                test = [value + (1.5 if seed and value == 3 else 0) for value in numbers]
                found[key] = {"train": [7.0 - value for value in numbers], "test": test, "params": numbers}
        return found

    def test_truth(self) -> None:
        test = alone(self.settings, self.runs(), "test")
        assert test.tolist() == [[1, 2, 3, 4, 5, 6], [1, 2, 4.5, 4, 5, 6]]

    def test_claims(self) -> None:
        """Both kinds of weights agree less and select no better; the training accuracy tells the test accuracy."""
        mixed = [2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0, 8.0]
        claims = self.experiment.judge(self.settings, self.runs(bias=mixed, split=mixed))
        assert [claim.supported for claim in claims] == [True, False, False, False, False]
        tau = 1 - 4 / 28  # two of 28 pairs are the other way around
        assert f"base 1.000, bias {tau:.3f}, split at 1 {tau:.3f}" in claims[0].numbers
        assert "Kendall's tau -1.00 (-1.00 to -1.00)" in claims[3].numbers
        cheap = self.runs()
        cheap["cost"]["seconds"]["split at 1"] = 1.05
        assert [claim.supported for claim in self.experiment.judge(self.settings, cheap)][:3] == [False, False, True]

    def test_selection_and_statistics(self) -> None:
        runs = self.runs(base=[6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 7.0, 8.0])
        for key in ("base, seed 0", "1 epoch, seed 0", "1 epoch, seed 1"):
            runs[key]["reset"] = [2.0, 1.0, 3.0, 4.0, 6.0, 5.0]
        claims = self.experiment.judge(self.settings, runs)
        assert "worse in 3 of 4 supernets" in claims[4].numbers

    def test_figures_and_tables(self) -> None:
        runs = self.runs()
        figures = self.experiment.figures(self.settings, runs)
        assert list(figures) == [
            "chain_improvement", "chain_truth", "chain_baselines", "chain_improvement_of_all", "chain_agreement",
        ]  # fmt: skip
        panel = figures["chain_truth"]["concat"][1]
        single = panel["data"]["values"]
        tau = stats.kendalltau([1, 2, 3, 4, 5, 6], [1, 2, 3.75, 4, 5, 6]).statistic
        assert [row["y"] for row in single] == [1, 2, 3.75, 4, 5, 6] and f"KT {tau:.2f}" in panel["title"]
        assert len(figures["chain_agreement"]["concat"]) == 3
        last = figures["chain_improvement_of_all"]["concat"][0]["data"]["values"][5]
        assert (last["x"], last["mean"]) == (1, 6)
        ranked, agreement, cost = self.experiment.tables(self.settings, runs).values()
        assert [row[0] for row in ranked.rows] == ["base", "bias", "split at 1", "1 epoch"]
        assert agreement.columns[2:] == ["Kendall", "Pearson", "Spearman"] and len(cost.rows) == 3

    def test_items_of_all_networks(self) -> None:
        items = self.experiment.items(self.experiment.presets["paper"])
        assert sum(kind == "alone" for kind, _, _ in items.values()) == 2 * 50 / 5
        assert sum(kind == "supernet" for kind, _, _ in items.values()) == 3 * (4 + 3)

    @pytest.mark.slow
    def test_real_runs(self, tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("POLYARCH_DATA", str(data_root))
        items = self.experiment.items(self.settings)
        base = self.experiment.task(self.settings, items["base, seed 0"], tmp_path)
        assert (len(base["val_acc"]), len(base["reset"])) == (8, 6)
        share = self.experiment.task(self.settings, items["alone 1, seed 0"], tmp_path)
        assert {name: len(values) for name, values in share.items()} == {"train": 1, "test": 1, "params": 1}
        cost = self.experiment.task(self.settings, items["cost"], tmp_path)
        assert cost["bytes"]["base"] < cost["bytes"]["bias"] < cost["bytes"]["split at 1"]


def test_curves_are_means_over_all_seeds() -> None:
    """Of one seed that knows the truth and one that has it the other way around."""
    series = {"both": [{"val_acc": TRUTH, "truth": TRUTH}, {"val_acc": TRUTH[::-1], "truth": TRUTH}]}
    rows = improvement_rows(series, "mean_truth", least=1)
    assert [row["x"] for row in rows] == list(range(N, 0, -1))
    assert all(row["mean"] == pytest.approx(85.5) for row in rows)
    assert rows[-1]["high"] - rows[-1]["mean"] == pytest.approx(np.std([80, 91], ddof=1))
    assert [row["x"] for row in improvement_rows(series, "kendall", least=1)][-1] == 2  # of one there is none


def test_random_networks() -> None:
    space = nb201_space()
    drawn = random_networks(space, 40)
    assert len({architecture.canonical() for architecture in drawn}) == 40 and drawn == random_networks(space, 40)
    assert len(random_networks(nb201_space(NB201_CONVOLUTIONS), 100)) == 64


class TestSavedBytes:
    """What autograd keeps for the backward pass, counted by hand."""

    def test_a_layer_keeps_its_input_and_an_exponential_its_output(self) -> None:
        layer = nn.Linear(3, 4, bias=False).double()
        x = torch.ones(5, 3, dtype=torch.float64)
        found = saved_bytes(lambda: layer(x).exp().sum().backward(), besides=layer.parameters())
        assert found == 8 * (5 * 3 + 5 * 4)

    def test_every_storage_counts_once(self) -> None:
        x = torch.ones(6, dtype=torch.float64, requires_grad=True)
        assert saved_bytes(lambda: (x * x + x[:3].sum() * x).sum().backward()) == 8 * (6 + 1)

    def test_nothing_without_gradients(self) -> None:
        assert saved_bytes(lambda: torch.ones(9).exp().sum()) == 0


def test_costs_in_a_table() -> None:
    table = cost_table({"all": {"seconds": {"base": 0.01, "bias": 0.012}, "bytes": {"base": 2e6, "bias": 2.1e6}}})
    assert table.rows == [
        ["all", "base", "10.0", "+0 %", "2.0", "+0 %"],
        ["all", "bias", "12.0", "+20 %", "2.1", "+5 %"],
    ]
