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
from polyarch_experiments.interchoice.interchoice_claims import agreement_change
from polyarch_experiments.interchoice.interchoice_figures import improvement_rows
from polyarch_experiments.interchoice.training_costs import cost_table, saved_bytes
from polyarch_experiments.interchoice.weighted_supernets import SPACES, random_networks, settings_of, weights_of
from polyarch_experiments.results import Claim

N = 12
TRUTH = [80.0 + position for position in range(N)]


def costs(settings: dict[str, Any]) -> dict[str, Any]:
    """A bias takes 2 % more time, give or take 1 %, and others 10 %; all take 5 % more memory."""
    kinds = weights_of(settings)
    seconds = {kind: {"base": 1.0, "bias": 1.02}.get(kind, 1.1) for kind in kinds}
    steps = {kind: [seconds[kind] + change for change in (-0.01, 0.0, 0.01) * 4] for kind in kinds}
    return {"seconds": seconds, "bytes": {kind: 100 if kind == "base" else 105 for kind in kinds}, "steps": steps}


def guesses(seed: int, knows: bool) -> list[float]:
    """The truth, or a random order."""
    shuffled = np.random.default_rng(seed).permutation(N)
    return [float(position) if knows else float(shuffled[position]) for position in range(N)]


def cell_runs(
    better: str, preset: str = "cpu", knowing: str = "bias", name: str = "interchoice_ranking", seeds: int = 2
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs in which one kind of weights knows the truth in one space, and all others guess."""
    experiment = EXPERIMENTS[name]
    settings = {**experiment.presets[preset]}
    settings["spaces"] = dict.fromkeys(settings["spaces"], seeds)
    runs: dict[str, Any] = {}
    for key, (space, kind, seed) in experiment.items(settings).items():
        predicted = guesses(seed, space == better and kind == knowing)
        ranked = {"truth": TRUTH, "val_acc": predicted, "params": predicted, "parameters": 10}
        runs[key] = ranked
    return settings, runs


def by_text(name: str, settings: dict[str, Any], runs: dict[str, Any]) -> dict[str, Claim]:
    return {claim.text: claim for claim in EXPERIMENTS[name].judge(settings, runs)}


def test_extra_weights_that_help_where_all_are_convolutions() -> None:
    experiment = EXPERIMENTS["interchoice_ranking"]
    settings, runs = cell_runs("only conv")
    found = by_text("interchoice_ranking", settings, runs)
    helps = found["Inter-choice weights help in the space 'only conv'."]
    bias, split = helps.findings
    assert bias.supported and bias.value is not None and split.value == 0
    assert helps.verdict == "fails"  # a split does nothing
    assert found["Inter-choice weights can hurt in the space 'all'."].verdict == "fails"
    ranked, agreement = experiment.tables(settings, runs).values()
    assert len(ranked.rows) == len(agreement.rows) == 12
    assert experiment.figures(settings, runs)


def test_weights_can_hurt_if_one_kind_does() -> None:
    """With all operations one kind is enough; without zero a gain is no failure."""
    settings, runs = cell_runs("no zero", seeds=3)
    for key, run in runs.items():
        if key.startswith("all, base") or key.startswith("all, split"):
            run["val_acc"] = guesses(int(key[-1]), True)
    found = by_text("interchoice_ranking", settings, runs)
    hurt = found["Inter-choice weights can hurt in the space 'all'."]
    assert [part.supported for part in hurt.findings] == [True, False] and hurt.verdict == "holds"
    neutral = found["Inter-choice weights do not hurt in the space 'no zero'."]
    assert neutral.findings[0].value is not None and neutral.findings[0].value > 0.1 and neutral.verdict == "holds"


class TestAgreementOfSeeds:
    """Its interval is over architectures and seeds."""

    def test_two_seeds_have_none(self) -> None:
        one, other = ([{"val_acc": guesses(seed, False)} for seed in seeds] for seeds in ((0, 1), (2, 3)))
        found = agreement_change(one, other)
        assert found.value is not None and found.low is None

    def test_it_is_the_jackknife_where_architectures_are_many(self) -> None:
        """Without an error of architectures, half its length is t times the error that leaving seeds out shows."""
        generator = np.random.default_rng(0)
        truth = generator.normal(size=400)
        noisy = [[{"val_acc": (truth + scale * generator.normal(size=400)).tolist()} for scale in scales]
                 for scales in ((0.1, 0.5, 3.0), (0.1, 0.1, 0.1))]  # fmt: skip
        rows = [np.array([run["val_acc"] for run in side]) for side in noisy]
        pairs = [
            [stats.kendalltau(side[one], side[other]).statistic for one, other in ((1, 2), (0, 2), (0, 1))]
            for side in rows
        ]
        differences = np.array(pairs[0]) - np.array(pairs[1])
        error = np.sqrt(2 / 3 * ((differences - differences.mean()) ** 2).sum())
        found = agreement_change(*noisy)
        assert found.value == pytest.approx(differences.mean())
        assert found.high is not None and found.high - differences.mean() == pytest.approx(4.3027 * error, rel=0.02)


def test_one_seed_of_extra_weights_decides_nothing() -> None:
    settings, runs = cell_runs("only conv", seeds=1)
    claims = [claim for claim in EXPERIMENTS["interchoice_ranking"].judge(settings, runs) if claim.number == 1]
    assert [claim.verdict for claim in claims] == ["undecided"] * 3


@pytest.mark.slow
def test_several_biases_and_splits() -> None:
    """All are told."""
    experiment = EXPERIMENTS["interchoice_ranking"]
    settings, runs = cell_runs("only conv", "paper", "split at 200")
    claims = experiment.judge(settings, runs)
    helped = {found.name: found.supported for found in claims[0].findings}
    assert helped == {kind: kind == "split at 200" for kind in weights_of(settings) if kind != "base"}
    assert "bias D=3 in macro" in claims[3].numbers
    table = next(iter(experiment.tables(settings, runs).values()))
    assert [row[1] for row in table.rows] == list(weights_of(settings)) * 4
    assert experiment.figures(settings, runs)


@pytest.mark.slow
def test_runs_that_have_arrived_are_judged() -> None:
    settings, runs = cell_runs("only conv", "long", seeds=3)
    experiment = EXPERIMENTS["interchoice_ranking"]
    assert experiment.partial
    for count in range(len(runs)):
        some = dict(list(runs.items())[:count])
        claims = experiment.judge(settings, some)
        assert len(claims) == 5
    few = {key: run for key, run in runs.items() if key.endswith("seed 0")}
    assert {row[-1] for row in next(iter(experiment.tables(settings, few).values())).rows} == {"1"}
    assert experiment.figures(settings, few) and experiment.figures(settings, {}) and experiment.tables(settings, {})


@pytest.mark.parametrize("name", ["interchoice_ranking", "interchoice_kinds"])
def test_settings_of_runs_are_whole(name: str) -> None:
    for settings in EXPERIMENTS[name].presets.values():
        for space in SPACES if "macro_run" in settings else settings["spaces"]:
            for kind in weights_of(settings):
                parsed = RunSettings.parse(settings_of(settings, space, kind), "test")
                assert parsed.space.kind == ("macro" if space == "macro" else "nb201")


def test_other_kinds() -> None:
    """Of a bias that knows the truth and others that guess alike."""
    experiment = EXPERIMENTS["interchoice_kinds"]
    settings, runs = cell_runs("only conv", name="interchoice_kinds")
    shared, attention, beats = experiment.judge(settings, runs)
    assert shared.findings[0].value == attention.findings[0].value and (shared.findings[0].value or 0) < 0
    assert [found.value for found in beats.findings] == [0, 0]
    settings, runs = cell_runs("only conv", knowing="attention", name="interchoice_kinds")
    found = experiment.judge(settings, runs)[2].findings
    assert found[0].supported and not found[1].supported
    assert experiment.figures(settings, runs)


class TestCosts:
    """Of made-up steps in all spaces; attention is as fast as a bias in one of them."""

    experiment = EXPERIMENTS["interchoice_costs"]

    def judged(self, preset: str = "cpu", **memory: int) -> tuple[list[Claim], dict[str, Any]]:
        settings = self.experiment.presets[preset]
        runs = {space: costs(settings) for space in self.experiment.items(settings)}
        runs["only conv"]["steps"]["attention"] = runs["only conv"]["steps"]["bias"][::-1]
        runs["only conv"]["bytes"] |= {name.replace("_", " "): value for name, value in memory.items()}
        return self.experiment.judge(settings, runs), runs

    def test_as_in_the_paper(self) -> None:
        (time, memory, slower), runs = self.judged()
        assert [found.supported for found in time.findings] == [True] * 3
        assert "bias in all, per cent 2.0" in time.numbers
        assert memory.verdict == "holds" and [found.value for found in memory.findings] == [pytest.approx(5)] * 3
        undecided = [found.name for found in slower.findings if found.supported is None]
        assert undecided == ["attention in only conv, per cent"] and slower.verdict == "undecided"
        settings = self.experiment.presets["cpu"]
        (table,) = self.experiment.tables(settings, runs).values()
        assert len(table.rows) == 3 * 8 and self.experiment.figures(settings, runs)

    def test_spaces_that_have_not_run_leave_all_open(self) -> None:
        settings = self.experiment.presets["cpu"]
        found = self.experiment.judge(settings, {"all": costs(settings)})
        assert [claim.verdict for claim in found] == ["undecided"] * 3
        assert [part.supported for part in found[0].findings] == [True, None, None]

    def test_memory_is_that_of_table_1_with_its_batches(self) -> None:
        assert self.judged(attention=900)[0][1].verdict == "holds"
        assert self.judged(bias=113)[0][1].verdict == "fails"
        assert self.judged("quick", bias=113)[0][1].verdict == "undecided"


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
        """Seeds of a bias agree less; none selects better; the training accuracy tells the test accuracy."""
        mixed = [2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0, 8.0]
        agreement, selection, cost, truth, reset = self.experiment.judge(self.settings, self.runs(bias=mixed))
        changes = {found.name: found.value for found in agreement.findings}
        assert changes == {"bias": pytest.approx(-4 / 28), "split at 1": 0}  # two of 28 pairs are the other way around
        assert [found.value for found in selection.findings] == [0, 0]  # of six networks all are among the top 10
        assert [found.supported for found in cost.findings] == [True, False] and cost.verdict == "fails" and cost.ours
        assert truth.findings[0].value == pytest.approx(-1) and truth.verdict == "fails"
        assert reset.findings[0].value == 0 and "worse in 0 of 4" in reset.numbers

    def test_statistics_that_are_reset(self) -> None:
        runs = self.runs()
        swapped = [2.0, 1.0, 3.0, 4.0, 6.0, 5.0]
        for key in ("base, seed 0", "base, seed 1", "1 epoch, seed 0"):
            runs[key]["reset"] = swapped
        claim = self.experiment.judge(self.settings, runs)[4]
        assert claim.findings[0].value == pytest.approx(-0.75 * 4 / 15) and "worse in 3 of 4 supernets" in claim.numbers

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
