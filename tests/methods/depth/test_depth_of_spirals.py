"""A depth for points on a plane, from the command to predictions."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from depth_checks import SPIRALS, check_artifacts, check_numbers, depth_of, options, raw, succeed, ways

import polyarch as library
from polyarch.data import load
from polyarch.facade import SearchResult
from polyarch.methods.depth.record import DepthRecord
from polyarch.predictive.early_exit import LEAST_MASS
from polyarch.results import Results

Command = Callable[..., subprocess.CompletedProcess[str]]
Outcome = Callable[[Path], dict[str, Any]]


@pytest.fixture(scope="module")
def spiral_run(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    """By the facade, with everything that a run writes."""
    settings = {**SPIRALS, "train.epochs": 60, "programs": ["pt2"]}
    return library.search("spirals", out=tmp_path_factory.mktemp("spirals") / "run", quiet=True, settings=settings)


class TestSpirals:
    def test_numbers_and_artifacts(self, spiral_run: SearchResult) -> None:
        check_numbers(spiral_run.results)
        check_artifacts(spiral_run, load("spirals"))
        assert Results.read(spiral_run.folder / "results.json") == spiral_run.results

    def test_what_was_decided(self, spiral_run: SearchResult) -> None:
        results, record = spiral_run.results, depth_of(spiral_run.results)
        assert (record.rule, record.prior, record.updates) == ("argmax", "geometric, ratio 0.85", "gradient")
        assert results.settings["train"]["strategy"] == "variational" and results.settings["train"]["momentum"] == 0.5
        assert results.training.strategy == "variational" and len(results.training.history) == 60
        assert {"loss", "elbo", "kl", "valid_loss"} <= set(results.training.history[0])
        assert results.training.history[-1]["elbo"] > results.training.history[0]["elbo"]
        assert "full batches; rule argmax chooses the depth" in results.decisions[1]
        losses = {one.weighting: one.valid_loss for one in record.mixtures}
        assert record.weighting == min(losses, key=lambda name: losses[name])
        assert f": {record.weighting} weights, which have the lowest validation loss (" in results.decisions[2]
        weights = [0.85 ** (1 + depth) for depth in range(4)]
        expected = [weight / sum(weights) for weight in weights]
        assert [measure.prior for measure in record.depths] == pytest.approx(expected, rel=1e-5)

    def test_files(self, spiral_run: SearchResult) -> None:
        names = ["README.md", "architecture.json", "metadata.json", "model.pt2", "weights.safetensors"]
        for folder in ("artifact", "posterior"):
            assert sorted(path.name for path in (spiral_run.folder / folder).iterdir()) == names
        assert (spiral_run.folder / "report.html").read_text().endswith("</html>")
        assert not (spiral_run.folder / "ensemble").exists() and not (spiral_run.folder / "study.db").exists()

    def test_early_exit_of_the_artifact(self, spiral_run: SearchResult) -> None:
        """At a confidence above 1 nobody leaves; at next to none everybody does as soon as exits have any weight."""
        inputs, _ = raw(load("spirals"))
        deepest = ways(depth_of(spiral_run.results))["pruned mixture"].blocks
        whole = spiral_run.predictor("early-exit", exit_above=1.01)(inputs)
        usual, mixture, alone = (spiral_run.predictor(mode)(inputs) for mode in (None, "marginal", "single"))
        torch.testing.assert_close(whole.probabilities, mixture.probabilities)
        assert torch.equal(usual.probabilities, mixture.probabilities)  # the answer of the run
        assert not torch.equal(usual.probabilities, alone.probabilities)
        assert whole.depths is not None and set(whole.depths.tolist()) == {deepest}
        first = spiral_run.predictor("early-exit", exit_above=0.01)(inputs)
        mass = torch.tensor(spiral_run.results.predictors[1].weights).cumsum(0)
        assert first.depths is not None and set(first.depths.tolist()) == {int((mass >= LEAST_MASS).nonzero()[0])}

    def test_functions_are_what_is_predicted_on_the_plane(self, spiral_run: SearchResult) -> None:
        record = depth_of(spiral_run.results)
        functions = record.functions
        assert functions is not None
        assert functions.depths == [0, 1, 2, 3] and functions.names == ("x", "y")
        assert len(functions.classes) == len(functions.confidence) == 4
        assert len(functions.points) == spiral_run.results.data["train"]
        x, y = (torch.linspace(*ends, functions.side) for ends in (functions.x_range, functions.y_range))
        grid = torch.stack([x.repeat(functions.side), y.repeat_interleave(functions.side)], 1)
        classes, confidence = (
            torch.tensor(list(base64.b64decode(texts[record.chosen])))
            for texts in (functions.classes, functions.confidence)
        )
        predictions = spiral_run.predictor("single")(grid).probabilities.double()
        assert (predictions.argmax(1) == classes).double().mean() > 0.995
        temperature = spiral_run.results.predictors[0].temperature
        raw_probabilities = torch.softmax(temperature * predictions.log(), 1)
        assert ((255 * raw_probabilities.amax(1)).round() - confidence).abs().max() <= 2

    def test_early_exit_of_the_artifact_is_what_the_results_say(self, spiral_run: SearchResult) -> None:
        inputs, targets = raw(load("spirals"))
        assert spiral_run.results.predictors[1].temperature != pytest.approx(1, abs=1e-3)
        for point in depth_of(spiral_run.results).exits[:6]:
            found = spiral_run.predictor("early-exit", exit_above=point.confidence)(inputs)
            assert found.depths is not None
            assert float(found.depths.double().mean()) == pytest.approx(point.mean_depth, abs=0.02)
            accuracy = (found.probabilities.argmax(1) == targets).double().mean()
            assert float(accuracy) == pytest.approx(point.accuracy, abs=0.005)


def test_the_command_with_every_option(tmp_path: Path, polyarch: Command) -> None:
    run = tmp_path / "run"
    words = ["--data", "spirals", "--space", "depth_fc", "--out", str(run), "--workers", "1", "--seed", "3"]
    words += ["--method", "variational-depth", "--rule", "95%", "--prior", "1,2,4,8", "--updates", "em"]
    words += ["--posterior", "learned", "--weighting", "stacked", "--q-learning-rate", "0.5"]
    settings = {"space.max_depth": 3, "space.width": 8, "train.epochs": 20, "programs": []}
    said = succeed(polyarch("search", *words, *options(settings)))
    assert "Chosen: space depth_fc: as asked for" in said
    assert "pruned network alone" in said and "mixture of all depths" in said
    results = Results.read(run / "results.json")
    check_numbers(results)
    record = depth_of(results)
    assert f"Depth: {record.chosen} of 3 by rule 95%" in said
    assert (record.rule, record.prior, record.updates) == ("95%", "given", "em")
    assert (record.posterior, record.weighting) == ("learned", "stacked")
    assert results.decisions[-1].endswith("stacked weights, as asked for")
    assert [measure.prior for measure in record.depths] == pytest.approx([depth / 15 for depth in (1, 2, 4, 8)])
    assert (run / "report.html").exists()
    succeed(polyarch("search", *words, *options(settings), "--resume"))  # the same command goes on
    again = Results.read(run / "results.json")
    assert again.record == record
    other = polyarch("search", "--out", str(run), "--resume", "--rule", "expected")
    assert other.returncode == 2 and "Expected the settings of the run that is resumed" in other.stderr


def test_training_first_and_choosing_later(tmp_path: Path, polyarch: Command) -> None:
    words = ["--out", str(tmp_path / "run"), "--data", "spirals", "--space", "depth_fc", "--workers", "1"]
    settings = {"method": "variational-depth", "space.max_depth": 2, "train.epochs": 20, "programs": []}
    succeed(polyarch("train", *words, *options(settings)))
    trained = Results.read(tmp_path / "run" / "results.json")
    assert trained.found(DepthRecord) is None and trained.training.q is not None
    results = library.search("spirals", out=tmp_path / "run", resume=True, quiet=True, report=False).results
    assert results.training == trained.training
    check_numbers(results)


@pytest.mark.slow
def test_programs_predict_what_the_results_say(tmp_path: Path) -> None:
    """The default: both formats, of the pruned network and of the mixture."""
    onnxruntime = pytest.importorskip("onnxruntime")
    settings = {name: value for name, value in SPIRALS.items() if name != "programs"}
    found = library.search("spirals", out=tmp_path / "run", quiet=True, report=False, settings=settings)
    inputs, _ = raw(load("spirals"))
    for mode, folder in (("single", "artifact"), ("marginal", "posterior")):
        expected = found.predictor(mode)(inputs).probabilities
        session = onnxruntime.InferenceSession(found.folder / folder / "model.onnx")
        by_onnx, *_ = session.run(None, {"inputs": inputs.numpy()})
        by_torch, *_ = torch.export.load(found.folder / folder / "model.pt2").module()(inputs)
        torch.testing.assert_close(torch.from_numpy(by_onnx), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(by_torch, expected, rtol=1e-4, atol=1e-5)


class TestLimits:
    @pytest.mark.parametrize(("depth", "prior"), [(2, "1,1,1,1000"), (0, "1,1,1,1000")])
    def test_they_cut_the_depth(self, depth: int, prior: str, tmp_path: Path) -> None:
        """The rule alone would take the deepest."""
        most = 24 + 18 + depth * 88  # of a network of width 8 with so many blocks
        settings = {**SPIRALS, "depth.prior": [float(part) for part in prior.split(",")], "train.epochs": 5}
        found = library.search(
            "spirals", out=tmp_path / "run", max_params=most, quiet=True, report=False, settings=settings
        )
        record = depth_of(found.results)
        assert record.choices["argmax"] == 3 and record.chosen == depth
        assert found.results.artifact is not None and found.results.artifact["parameters"] == most
        check_numbers(found.results, limited=True)
        check_artifacts(found, load("spirals"))

    def test_a_prior_can_choose_no_block_at_all(self, tmp_path: Path) -> None:
        settings = {**SPIRALS, "depth.prior": [1e9, 1.0, 1.0, 1.0], "train.epochs": 5}
        found = library.search("spirals", out=tmp_path / "run", quiet=True, report=False, settings=settings)
        assert depth_of(found.results).chosen == 0
        check_numbers(found.results)
        check_artifacts(found, load("spirals"))


def test_the_same_seed_gives_the_same_bits(tmp_path: Path, outcome: Outcome) -> None:
    outcomes = []
    for name, seed in (("one", 0), ("other", 0), ("third", 1)):
        settings = {**SPIRALS, "depth.updates": "em", "train.batch_size": 32, "train.epochs": 8}
        library.search("spirals", out=tmp_path / name, seed=seed, quiet=True, report=False, settings=settings)
        posterior = (tmp_path / name / "posterior" / "weights.safetensors").read_bytes()
        outcomes.append({**outcome(tmp_path / name), "posterior": posterior})
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]["weights"] != outcomes[2]["weights"]
    library.search("spirals", out=tmp_path / "one", quiet=True, report=False, resume=True)  # finished already
    assert outcome(tmp_path / "one") == outcome(tmp_path / "other")


@pytest.mark.slow
def test_killed_twice(tmp_path: Path, environment: dict[str, str], polyarch: Command, outcome: Outcome) -> None:
    """Once in training and once while artifacts are written; the same bits as a run that never stopped."""
    settings = {
        "method": "variational-depth",
        "depth.updates": "em",
        "space.max_depth": 3,
        "train.epochs": 15,
        "train.batch_size": 16,
        "checkpoint_seconds": 0,
        "programs": [],
    }
    words = ["--data", "spirals", "--space", "depth_fc", "--workers", "1", *options(settings)]
    succeed(polyarch("search", "--out", str(tmp_path / "untouched"), *words))
    folder = tmp_path / "killed"

    def kill_when(ready: Callable[[], bool], more: list[str]) -> None:
        command = [sys.executable, "-m", "polyarch.cli", "search", "--out", str(folder), *more]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
            start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + 120
        while process.poll() is None and not ready():
            assert time.monotonic() < deadline, "the run never came to the point of being killed"
            time.sleep(0.01)
        assert process.poll() is None, process.communicate()[1]
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    kill_when(lambda: len(list((folder / "checkpoints" / "train").glob("*.ckpt"))) > 1, words)
    assert not (folder / "artifact").exists()
    kill_when(lambda: (folder / "artifact").exists(), ["--resume"])
    succeed(polyarch("search", "--out", str(folder), "--resume"))
    for part in ("artifact", "posterior"):
        one, other = ((tmp_path / name / part / "weights.safetensors").read_bytes() for name in ("untouched", "killed"))
        assert one == other
    assert outcome(folder) == outcome(tmp_path / "untouched")
