"""One network with many architectures, from settings to an ensemble that predicts."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from stopping import run_and_stop, run_whole
from torch import Tensor, nn

import polyarch as library
from polyarch.data import load, resident
from polyarch.errors import Interrupted
from polyarch.facade import SearchResult
from polyarch.methods.stochastic.record import StochasticRecord
from polyarch.methods.stochastic.settings import StochasticSettings
from polyarch.methods.stochastic.strategy import drawn_architectures
from polyarch.nn import OneOf
from polyarch.prediction.loading import load_artifact
from polyarch.prediction.modes import load_predictor
from polyarch.predictive import calibration_error, calibration_noise
from polyarch.results import Results, Role
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.training import train_supernet
from polyarch.runs.workspace import Workspace
from polyarch.spaces import Architecture, parse_wiring, residual_wiring

Command = Callable[..., subprocess.CompletedProcess[str]]
Outcome = Callable[[Path], dict[str, Any]]

SMALL: dict[str, Any] = {
    "data.limit": 60, "train.epochs": 2, "train.batch_size": 20, "retrain.epochs": 1, "programs": [],
    "checkpoint_seconds": 1000,
}  # fmt: skip
WIRED: dict[str, Any] = {**SMALL, "space.kind": "wired", "space.width": 2, "space.modules": 3, "space.stages": 2}


def searched(out: Path, settings: dict[str, Any], data: Any = "digits", **options: Any) -> SearchResult:
    options = {"report": False, "quiet": True, "method": "stochastic", **options}
    return library.search(data, out=out, settings=settings, **options)


def record_of(results: Results) -> StochasticRecord:
    found = results.found(StochasticRecord)
    assert found is not None
    return found


def test_inputs(data: str = "digits") -> tuple[Tensor, Tensor]:
    test = resident(load(data).test)
    return test.inputs, test.targets


test_inputs.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    """Five wirings with weights of their own."""
    settings = {**WIRED, "space.width": 4, "train.epochs": 10}  # enough to disagree
    return searched(tmp_path_factory.mktemp("wired") / "run", settings, ood="digits", report=True)


@pytest.fixture(scope="module")
def trained(run: SearchResult) -> Run:
    """The network at the end of that run's training, out of its checkpoint."""
    again = Run.build(RunSettings.read(run.folder / "config.toml"), Workspace(run.folder))
    train_supernet(again)
    return again


def architectures_of(run: Run, record: StochasticRecord) -> list[Architecture]:
    return [run.net.space.architecture(member.architecture) for member in record.members]


class TestRun:
    def test_the_settings_describe_the_whole_network(self, run: SearchResult) -> None:
        settings = RunSettings.read(run.folder / "config.toml")
        chosen = settings.section(StochasticSettings)
        assert chosen.own_weights and chosen.architectures == 5
        wirings = settings.space.model_dump()["wirings"]
        assert len(set(wirings)) == 5
        assert {member.notation for member in record_of(run.results).members} == set(wirings)
        assert (
            "under 5 wirings, each with some weights of its own, one drawn for every example" in settings.decisions[1]
        )

    def test_members_are_measured_with_the_shared_weights(self, run: SearchResult, trained: Run) -> None:
        record = record_of(run.results)
        inputs, targets = test_inputs()
        net = trained.net.eval()
        for member, architecture in zip(record.members, architectures_of(trained, record), strict=True):
            assert parse_wiring(member.notation or "", net.space) == architecture
            with torch.no_grad():
                logits = net(trained.feed.preprocessing(inputs), architecture).double()
            assert member.score == pytest.approx(float((logits.argmax(1) == targets).double().mean()))
            assert member.loss == pytest.approx(float(nn.functional.cross_entropy(logits, targets)), rel=1e-5)
        losses = [member.valid_loss for member in record.members]
        assert losses == sorted(losses)

    def test_the_curve_leads_from_the_best_member_to_all(self, run: SearchResult, trained: Run) -> None:
        record = record_of(run.results)
        assert [point.members for point in record.curve] == [1, 2, 3, 4, 5]
        assert record.curve[0].score == record.members[0].score
        assert record.curve[0].loss == pytest.approx(record.members[0].loss, rel=1e-12)
        inputs, targets = test_inputs()
        with torch.no_grad():
            x = trained.feed.preprocessing(inputs)
            each = [trained.net.eval()(x, one).double() for one in architectures_of(trained, record)]
        mixture = torch.stack(each[:3]).softmax(-1).mean(0)
        assert record.curve[2].score == pytest.approx(float((mixture.argmax(1) == targets).double().mean()))
        assert record.curve[2].loss == pytest.approx(float(nn.functional.nll_loss(mixture.log(), targets)), rel=1e-5)
        assert record.curve[2].calibration_error == pytest.approx(calibration_error(mixture, targets), abs=1e-5)
        noise = calibration_noise(mixture, targets)
        point = record.curve[2]
        assert point.calibration_floor == pytest.approx(noise.floor, abs=1e-3) and noise.floor > 0
        assert point.calibration_low is not None and point.calibration_high is not None
        assert (point.calibration_low, point.calibration_high) == pytest.approx((noise.low, noise.high), abs=1e-3)

    def test_calibration_errors_have_their_noise(self, run: SearchResult) -> None:
        for one in run.results.predictors:
            for metrics, noise in ((one.uncalibrated, one.calibration_before), (one.metrics, one.calibration)):
                assert noise is not None and noise.error == pytest.approx(metrics["calibration_error"], abs=1e-9)
                assert 0 < noise.floor < 1 and 0 <= noise.low <= noise.high
            assert one.train_score is not None and 0 <= one.train_score <= 1
        for contender in run.results.comparison or ():
            for network in contender.runs:
                noise, error = network.calibration, network.metrics["calibration_error"]
                assert noise is not None and noise.error == pytest.approx(error, abs=1e-6) and noise.floor > 0

    def test_contenders(self, run: SearchResult) -> None:
        record, contenders = record_of(run.results), run.results.comparison
        assert contenders is not None
        assert [one.name for one in contenders] == [
            "ensemble of 5 wirings", "best wiring, shared weights", "mean of 5 wirings, shared weights",
            "residual network, trained alone",
        ]  # fmt: skip
        assert [one.role for one in contenders] == [Role.MIXTURE, Role.BEST, Role.OTHER, Role.BASELINE]
        assert contenders[0].mean == record.curve[-1].score  # equal shares
        assert contenders[2].mean == pytest.approx(np.mean([member.score for member in record.members]))
        space = parse_wiring(record.members[0].notation or "", trained_space(run)).space
        assert contenders[3].runs[0].architecture == residual_wiring(space).to_dict()
        assert len(contenders[3].runs[0].history) == 1
        assert {"train", "choose", "retrain"} <= set(run.results.seconds)

    def test_costs(self, run: SearchResult, trained: Run) -> None:
        record = record_of(run.results)
        assert record.ensemble_macs == 5 * record.member_macs  # wirings normalise from the stem on, and share nothing
        ensemble = load_artifact(run.folder / "ensemble").networks
        assert record.parameters == sum(parameter.numel() for parameter in ensemble.parameters())
        alone = [trained.net.parameter_count(one) for one in architectures_of(trained, record)]
        assert max(alone) < record.parameters < sum(alone) / 3
        assert run.results.artifact is not None and run.results.artifact["parameters"] == alone[0]

    def test_doubt_about_other_and_corrupted_images(self, run: SearchResult) -> None:
        ensemble, single, baseline = run.results.predictors
        assert (ensemble.folder, single.folder, baseline.folder) == ("ensemble", "artifact", None)
        assert [len(one.members) for one in run.results.predictors] == [5, 1, 1]
        assert set(ensemble.detection) == {"entropy", "max_probability", "mutual_information"}
        assert set(single.detection) == set(baseline.detection) == {"entropy", "max_probability"}
        corrupted = record_of(run.results).corrupted
        assert set(corrupted) == {"gaussian_noise", "gaussian_blur"}
        for scores in corrupted.values():
            assert set(scores) == {"entropy", "max_probability", "mutual_information"}
            assert all(0 <= found["auroc"] <= 1 for found in scores.values())

    def test_both_modes_of_normalisation(self, run: SearchResult, trained: Run) -> None:
        found = record_of(run.results).statistics
        assert found is not None and len(found.batch) == len(found.running) == 5
        architecture = drawn_architectures(trained)[0]
        right = total = 0
        batches = list(trained.feed.in_order(trained.feed.valid).epoch(0))
        with torch.no_grad():
            for batch in batches:
                right += int((trained.net.eval()(batch.inputs, architecture).argmax(1) == batch.targets).sum())
                total += len(batch.targets)
        assert found.running[0] == pytest.approx(right / total)  # 60 examples are three whole batches

    def test_the_report_has_its_section(self, run: SearchResult) -> None:
        page = (run.folder / "report.html").read_text()
        assert 'id="stochastic"' in page and "chart-members-score" in page
        assert Results.read(run.folder / "results.json") == run.results


def trained_space(run: SearchResult) -> Any:
    settings: Any = RunSettings.read(run.folder / "config.toml").space
    return settings.build((1, 8, 8), 10).space


class TestArtifacts:
    def test_the_ensemble_is_one_network(self, run: SearchResult, trained: Run) -> None:
        ensemble, single = (load_artifact(run.folder / name) for name in ("ensemble", "artifact"))
        assert ensemble.shared and not single.shared
        inputs, _ = test_inputs()
        x = trained.feed.preprocessing(inputs[:16])
        kept = [trained.net.space.architecture(member.architecture) for member in ensemble.members]
        with torch.no_grad():
            torch.testing.assert_close(ensemble.networks(x), trained.net.eval().forward_many(x, kept))
            torch.testing.assert_close(single.networks(x)[0], ensemble.networks(x)[0])

    def test_what_is_predicted(self, run: SearchResult) -> None:
        inputs, targets = test_inputs()
        artifact = load_artifact(run.folder / "ensemble")
        with torch.no_grad():
            logits = artifact.networks(artifact.preprocessing(inputs)).double()
        members = (logits / artifact.calibration.temperature).softmax(-1)
        mixture = members.mean(0)
        entropy = torch.special.entr(mixture).sum(-1)
        found = run.predictor("ensemble")(inputs)
        torch.testing.assert_close(found.probabilities.double(), mixture, rtol=1e-4, atol=1e-5)
        disagreement = entropy - torch.special.entr(members).sum(-1).mean(0)
        torch.testing.assert_close(found.mutual_information.double(), disagreement, rtol=1e-3, atol=1e-5)
        assert disagreement.max() > 0.02
        right = float((found.probabilities.argmax(1) == targets).double().mean())
        assert right == pytest.approx(run.results.predictors[0].score, abs=0.005)

    def test_a_run_predicts_with_its_ensemble(self, run: SearchResult, polyarch: Command, tmp_path: Path) -> None:
        inputs, _ = test_inputs()
        usual, together, alone = (load_predictor(run.folder, mode)(inputs) for mode in (None, "ensemble", "single"))
        assert torch.equal(usual.probabilities, together.probabilities)
        assert torch.equal(usual.probabilities, run.predictor()(inputs).probabilities)  # the answer of the run
        assert torch.equal(alone.probabilities, run.predictor("single")(inputs).probabilities)
        assert not torch.equal(usual.probabilities, alone.probabilities)
        np.savez(tmp_path / "some.npz", x=inputs[:5].numpy())
        out = tmp_path / "out.csv"
        done = polyarch("predict", str(run.folder), str(tmp_path / "some.npz"), "--out", str(out))
        assert done.returncode == 0, done.stderr
        lines = list(csv.DictReader(out.read_text().splitlines()))
        assert [float(line["mutual_information"]) for line in lines] == pytest.approx(
            usual.mutual_information[:5].tolist(), rel=1e-4
        )

    def test_it_has_no_exits(self, run: SearchResult, polyarch: Command) -> None:
        some = ["--mode", "early-exit", "--exit-above", "0.9"]
        refused = polyarch("predict", str(run.folder / "ensemble"), "x.npz", *some)
        assert refused.returncode == 2 and "Expected a network with exits" in refused.stderr
        refused = polyarch("predict", str(run.folder), "x.npz", "--mode", "marginal")
        assert refused.returncode == 2 and "a run that exports a predictor for mode marginal" in refused.stderr

    @pytest.mark.slow
    def test_one_program_tells_all_three(self, tmp_path: Path) -> None:
        onnxruntime = pytest.importorskip("onnxruntime")
        found = searched(tmp_path / "run", {**WIRED, "programs": ["onnx", "pt2"]})
        inputs, _ = test_inputs()
        expected = found.predictor("ensemble")(inputs[:7])
        session = onnxruntime.InferenceSession(tmp_path / "run" / "ensemble" / "model.onnx")
        outputs = session.run(None, {"inputs": inputs[:7].numpy()})
        program = torch.export.load(tmp_path / "run" / "ensemble" / "model.pt2").module()
        for values in (map(torch.from_numpy, outputs), program(inputs[:7])):
            for value, wanted in zip(
                values, (expected.probabilities, expected.entropy, expected.mutual_information), strict=True
            ):
                torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-5)


def own(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    first = OneOf("first", curved=nn.Sequential(nn.Linear(2, 6), nn.Tanh()), plain=nn.Linear(2, 6))
    return nn.Sequential(first, nn.BatchNorm1d(6), nn.Linear(6, classes))


@pytest.mark.slow
class TestOtherSpaces:
    def test_cells(self, tmp_path: Path) -> None:
        settings = {**SMALL, "space.kind": "nb201", "space.channels": 2, "train.epochs": 1}
        found = searched(tmp_path / "run", {**settings, "stochastic.architectures": 3, "stochastic.draws": "batch"})
        record = record_of(found.results)
        assert (record.own_weights, record.draws, record.drawn) == (False, "batch", 3)
        assert found.results.comparison is not None
        assert found.results.comparison[0].name == "ensemble of 3 architectures"
        assert found.results.comparison[-1].runs[0].architecture == record.members[0].architecture
        assert not load_artifact(found.folder / "ensemble").shared

    def test_a_table_goes_to_a_fully_connected_network(self, tmp_path: Path) -> None:
        rows = pd.DataFrame({"size": range(80), "kind": list("ab") * 40, "label": ["no", "yes", "yes", "no"] * 20})
        rows.to_csv(tmp_path / "rows.csv", index=False)
        rows.drop(columns="label").sample(40, random_state=0).to_csv(tmp_path / "more.csv", index=False)
        settings = {**SMALL, "data.limit": 40, "stochastic.consistency_weight": 0.1}
        found = searched(
            tmp_path / "run", settings, str(tmp_path / "rows.csv"), target="label", unlabelled=tmp_path / "more.csv"
        )
        record = record_of(found.results)
        assert found.results.settings["space"]["kind"] == "mlp" and record.drawn == 20 and not record.own_weights
        assert len(record.members) == 5 and len(record.curve) == record.evaluated == 20
        assert record.corrupted == {} and record.unlabelled == 40

    def test_a_network_of_ones_own(self, tmp_path: Path) -> None:
        found = searched(tmp_path / "run", SMALL, "spirals", module=own, max_params=100)
        record = record_of(found.results)
        assert record.drawn == 2 and record.statistics is None
        assert found.predictor("ensemble")(torch.zeros(3, 2)).probabilities.shape == (3, 2)

    def test_a_wired_space_can_also_be_searched(self, tmp_path: Path) -> None:
        searching = {"rank.architectures": 0, "search.budget": 2, "search.window": 2, "search.population": 2}
        scoring = {"scores.steps": 1, "scores.policy_batches": 1, "retrain.members": 2, "retrain.seeds": 1}
        settings = {**WIRED, **searching, **scoring, "search.tournament": 2, "retrain.random_architectures": 1}
        found = searched(tmp_path / "run", settings, method="one-shot")
        (best, together) = found.results.predictors
        assert len(best.members) == 1 and len(together.members) == 2  # the same layers, wired in two ways


@pytest.mark.parametrize(
    ("more", "at"),
    [
        pytest.param({}, 3, marks=pytest.mark.slow, id="labels"),
        pytest.param({"data.unlabelled": "digits"}, 4, id="unlabelled"),
    ],
)
def test_a_run_that_was_stopped_ends_with_the_same_bits(
    more: dict[str, Any], at: int, tmp_path: Path, outcome: Outcome
) -> None:
    described = {**WIRED, "method": "stochastic", "workers": 1, "checkpoint_seconds": 0, **more}
    asked = RunSettings.parse(with_overrides({}, described), "a test")
    whole = run_whole(asked, tmp_path / "whole")
    with pytest.raises(Interrupted):
        run_and_stop(asked, tmp_path / "stopped", at)
    library.search("digits", out=tmp_path / "stopped", resume=True, quiet=True, report=False)
    assert record_of(whole).unlabelled == (1438 if more else 0)
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")
    weights = [(tmp_path / name / "ensemble" / "weights.safetensors").read_bytes() for name in ("stopped", "whole")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_unlabelled_images_from_the_command_line(tmp_path: Path, polyarch: Command) -> None:
    (tmp_path / "photos" / "any").mkdir(parents=True)
    for number in range(30):
        pixels = np.random.default_rng(number).integers(0, 255, (12, 10, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / "any" / f"{number}.png")
    words = [word for name, value in WIRED.items() for word in ("--set", f"{name}={value}")]
    arguments = ["--data", "digits", "--method", "stochastic", "--unlabelled", "photos", *words, "--workers", "1"]
    done = polyarch("search", *arguments, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Best wiring: " in done.stdout
    results = Results.read(tmp_path / "run" / "results.json")
    assert record_of(results).unlabelled == 30
    assert results.settings["data"]["unlabelled"] == str(tmp_path / "photos")
    assert {"distance", "supervised_loss"} <= set(results.training.history[-1])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "one-shot", "--unlabelled", "digits"],
         "Expected a method that can use data.unlabelled. Got 'one-shot'."),
        (["--method", "darts", "--space", "wired", "--set", 'space.wirings=["0000000000-0000000000-0000000000"]'],
         "Expected a method that can use space.wirings. Got 'darts'."),
        (["--budget", "5"], "Expected no search.budget with method 'stochastic', which scores nothing"),
        (["--strategy", "fair"], "Expected no train.strategy with method 'stochastic', which has its own"),
        (["--space", "nb201", "--set", "stochastic.own_weights=true"],
         "Expected stochastic.own_weights false for space nb201: only wirings have weights of their own."),
        (["--space", "wired", "--set", 'space.wirings=["1-2"]'], "Expected 3 groups of 10 bits"),
        (["--space", "wired", "--set", 'space.wirings=["0000000000-0000000000-0000000000"]', "--set",
          "stochastic.architectures=3"],
         "Expected 3 space.wirings, as many as stochastic.architectures. Got 1."),
        (["--space", "wired", "--set", "stochastic.architectures=9", "--set", "space.modules=2", "--set",
          "space.stages=1"], "Expected 9 different wirings"),
        (["--set", "stochastic.max_macs=10"], "Expected a budget for at least one of 5 architectures"),
        (["--max-params", "100", "--space", "wired"], "to meet the limits"),
        (["--unlabelled", "nowhere/at/all"], "nowhere/at/all"),
        (["--unlabelled", "spirals"], "Expected examples of shape (1, 8, 8) without labels. Got (2,)."),
        (["--set", "stochastic.weighting=best"], "stochastic.weighting"),
    ],
)  # fmt: skip
def test_refusals_are_one_sentence(tmp_path: Path, polyarch: Command, words: list[str], sentence: str) -> None:
    method = [] if "--method" in words else ["--method", "stochastic"]
    refused = polyarch("search", "--data", "digits", *method, *words, "--out", "run", cwd=tmp_path)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert sentence in refused.stderr
    assert refused.stderr.count("\n") == 1 and "Traceback" not in refused.stderr
    assert not (tmp_path / "run").exists()


def test_ranking_is_refused(tmp_path: Path, polyarch: Command) -> None:
    refused = polyarch("rank", "--data", "digits", "--set", "method=stochastic", "--out", "run", cwd=tmp_path)
    assert refused.returncode == 2 and "Expected a method with a stage 'rank'. Got 'stochastic'" in refused.stderr
