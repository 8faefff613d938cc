"""Predictions that stop early, and the ways to predict with a run."""

from __future__ import annotations

import math
import pickle
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import typer
from torch import Tensor
from typer.testing import CliRunner

from polyarch.cli.prediction import predict, serve
from polyarch.errors import CorruptFile, InvalidInput, NotFiniteError, PolyarchError
from polyarch.export import Artifact, Program, write_artifact
from polyarch.facade import SearchResult
from polyarch.prediction.modes import default_folder, load_predictor
from polyarch.prediction.predictor import Predictor
from polyarch.results import Results, TrainingRecord


@pytest.fixture(scope="module")
def artifact(examples: ModuleType) -> Artifact:
    found: Artifact = examples.shared_vector_artifact()
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, examples: ModuleType, artifact: Artifact) -> Path:
    """The folder of a run that learned a depth, as far as predictions look at it."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "results.json").write_text("{}")
    write_artifact(folder / "artifact", examples.vector_artifact())
    write_artifact(folder / "posterior", artifact)
    return folder


@pytest.fixture(scope="module")
def several(run: Path, examples: ModuleType) -> dict[str, Predictor]:
    """Three predictors of one run, which disagree."""
    folder = run.with_name("several")
    counts = {"artifact": 1, "ensemble": 2, "posterior": 3}
    made = {name: examples.vector_artifact(count) for name, count in counts.items()}
    for name, artifact in made.items():
        write_artifact(folder / name, artifact)
    return {name: Predictor.load(folder / name) for name in made}


@pytest.fixture(scope="module")
def inputs(examples: ModuleType) -> Tensor:
    found: Tensor = examples.vectors(600)  # more than a batch
    return found


def by_hand(artifact: Artifact, inputs: Tensor, confidence: float) -> tuple[Tensor, Tensor]:
    """The mixture of the exits up to the first where it is sure, and the depth of that exit."""
    weights = torch.tensor([member.weight for member in artifact.members], dtype=torch.float64)
    depths = [int(member.architecture["depth"]) for member in artifact.members]
    with torch.no_grad():
        logits = artifact.networks.eval()(artifact.preprocessing(inputs)).double()
    members = torch.softmax(logits / artifact.calibration.temperature, -1)
    told, used = [], []
    for example in members.transpose(0, 1):
        for position, depth in enumerate(depths):
            share = weights[: position + 1] / weights[: position + 1].sum()
            p = share @ example[: position + 1]
            if p.max() >= confidence or position == len(depths) - 1:
                told.append(p)
                used.append(depth)
                break
    return torch.stack(told), torch.tensor(used)


class TestPredictor:
    @pytest.mark.parametrize("early_exit", [True, 0.7])
    def test_examples_leave_when_the_exits_are_sure(
        self, early_exit: bool | float, run: Path, artifact: Artifact, inputs: Tensor
    ) -> None:
        predictor = Predictor.load(run / "posterior", early_exit=early_exit)
        found = predictor(inputs)
        confidence = 0.9 if early_exit is True else early_exit
        probabilities, depths = by_hand(artifact, inputs, confidence)
        assert found.depths is not None and torch.equal(found.depths, depths)
        assert set(depths.tolist()) == {0, 1, 2} == set(predictor.exits)
        torch.testing.assert_close(found.probabilities.double(), probabilities, rtol=1e-4, atol=1e-5)
        entropy = torch.special.entr(probabilities).sum(1)
        torch.testing.assert_close(found.entropy.double(), entropy, rtol=1e-3, atol=1e-4)
        assert torch.equal(found.flagged, found.entropy > artifact.calibration.threshold)
        assert bool(found.mutual_information[depths == 0].eq(0).all())  # of one member

    def test_above_one_nobody_leaves(self, run: Path, artifact: Artifact, inputs: Tensor) -> None:
        found = Predictor.load(run / "posterior", early_exit=2.0)(inputs)
        with torch.no_grad():
            whole = Program.of(artifact)(inputs)
        outputs = (found.probabilities, found.entropy, found.mutual_information)
        torch.testing.assert_close(outputs, whole, rtol=1e-5, atol=1e-6)
        assert found.depths is not None and bool(found.depths.eq(2).all())

    def test_without_early_exit_there_are_no_depths(self, run: Path, artifact: Artifact, inputs: Tensor) -> None:
        predictor = Predictor.load(run / "posterior")
        found = predictor(inputs)
        with torch.no_grad():
            whole = Program.of(artifact)(inputs)
        torch.testing.assert_close((found.probabilities, found.entropy, found.mutual_information), whole)
        assert found.depths is None and predictor.exits == ()

    def test_the_exits_may_start_anywhere(
        self, artifact: Artifact, examples: ModuleType, tmp_path: Path, inputs: Tensor
    ) -> None:
        net = examples.VectorDepthSettings.model_validate(artifact.network).build((2,), 2)
        depths = list(net.space.enumerate())[1::2]
        networks = net.extract_many(depths).eval()
        members = tuple(replace(artifact.members[0], architecture=depth.to_dict()) for depth in depths)
        changed = replace(artifact, members=members, networks=networks)
        write_artifact(tmp_path, changed)
        first, _ = by_hand(changed, inputs, 0.0)  # everything leaves at the first exit
        confidence = float(first.max(-1).values.median())  # half of it does
        found = Predictor.load(tmp_path, early_exit=confidence)(inputs)
        _, expected = by_hand(changed, inputs, confidence)
        assert set(expected.tolist()) == {1, 3}
        assert found.depths is not None and int(found.depths.ne(expected).sum()) <= 2  # but for rounding at the median

    def test_no_examples(self, run: Path) -> None:
        found = Predictor.load(run / "posterior", early_exit=True)(torch.empty(0, 2))
        assert found.depths is not None and found.depths.shape == (0,) and found.depths.dtype == torch.int64

    def test_it_can_be_pickled(self, run: Path, inputs: Tensor) -> None:
        predictor = Predictor.load(run / "posterior", early_exit=True)
        again = pickle.loads(pickle.dumps(predictor))
        assert torch.equal(again(inputs).probabilities, predictor(inputs).probabilities)

    def test_what_is_not_a_number_is_said(self, artifact: Artifact, tmp_path: Path, inputs: Tensor) -> None:
        write_artifact(tmp_path, artifact)
        broken = Predictor.load(tmp_path, early_exit=True)
        assert isinstance(broken.forward, Program)
        with torch.no_grad():
            broken.forward.get_parameter("mixture.exits.heads.0.head.bias").fill_(torch.nan)
        with pytest.raises(NotFiniteError, match="example 0"):
            broken(inputs)

    def test_artifacts_that_cannot_stop(self, run: Path, artifact: Artifact, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=r"share one network for early exit\. Found separate networks"):
            Predictor.load(run / "artifact", early_exit=True)
        with pytest.raises(InvalidInput, match="share one network for early exit"):
            Predictor.load(run / "artifact", early_exit=0.9)
        write_artifact(tmp_path, replace(artifact, exit_confidence=None))
        with pytest.raises(InvalidInput, match=r"Expected a confidence for early exit\. Got none"):
            Predictor.load(tmp_path, early_exit=True)
        assert Predictor.load(tmp_path, early_exit=0.9).exits == (0, 1, 2)

    @pytest.mark.parametrize("confidence", [0.0, -1.0, math.nan])
    def test_confidences_that_mean_nothing(self, confidence: float, run: Path) -> None:
        with pytest.raises(InvalidInput, match="Expected a confidence above 0"):
            Predictor.load(run / "posterior", early_exit=confidence)

    def test_own_networks_that_run_by_onnx_cannot_stop(self, artifact: Artifact, tmp_path: Path) -> None:
        """Nothing of them is known but the program, whatever the file says."""
        write_artifact(tmp_path, replace(artifact, network={"kind": "module", "module": "x:y"}))
        with pytest.raises(CorruptFile, match="only the function that made it"):
            Predictor.load(tmp_path, early_exit=True)


class TestModes:
    def test_every_way_is_its_artifact(self, run: Path, inputs: Tensor) -> None:
        alone, mixture = Predictor.load(run / "artifact"), Predictor.load(run / "posterior")
        early = Predictor.load(run / "posterior", early_exit=True)
        later = Predictor.load(run / "posterior", early_exit=0.99)
        for found, expected in (
            (load_predictor(run), alone),
            (load_predictor(run, "single"), alone),
            (load_predictor(run, "marginal"), mixture),
            (load_predictor(run, "early-exit"), early),
            (load_predictor(run, "early-exit", 0.99), later),
            (load_predictor(run / "artifact"), alone),
            (load_predictor(run / "posterior"), mixture),
            (load_predictor(run / "posterior", "early-exit"), early),
            (load_predictor(run / "posterior", "early-exit", 0.99), later),
        ):
            assert found.exits == expected.exits
            assert torch.equal(found(inputs).probabilities, expected(inputs).probabilities)

    @pytest.mark.parametrize(
        ("content", "usual"),
        [
            ("{}", "artifact"),
            ('{"default": null}', "artifact"),
            ('{"default": "artifact"}', "artifact"),
            ('{"default": "ensemble"}', "ensemble"),
            ('{"default": "posterior"}', "posterior"),
            ('{"default": "../elsewhere"}', "artifact"),
            ('{"default": ["ensemble"]}', "artifact"),
            # of polyarch 0.7
            ('{"version": 2, "predictors": []}', "artifact"),
            ('{"version": 2, "predictors": [{"members": [{}]}, {"members": [{}, {}]}]}', "artifact"),
            ('{"version": 2, "predictors": [{"members": [{}, {}]}, {"members": [{}]}]}', "ensemble"),
            ('{"version": 3, "predictors": [{"members": [{}, {}]}]}', "artifact"),
        ],
    )
    def test_the_run_says_what_predicts_by_default(
        self, content: str, usual: str, several: dict[str, Predictor], inputs: Tensor, run: Path
    ) -> None:
        (run.with_name("several") / "results.json").write_text(content)
        found = load_predictor(run.with_name("several"))(inputs).probabilities
        for folder, predictor in several.items():
            assert torch.equal(found, predictor(inputs).probabilities) == (folder == usual)
        assert default_folder(run.with_name("several")) == usual

    def test_damaged_results_are_named(self, tmp_path: Path) -> None:
        (tmp_path / "results.json").write_text("{")
        with pytest.raises(CorruptFile, match=r"results\.json to be a results file"):
            load_predictor(tmp_path)
        (tmp_path / "results.json").write_text("[]")
        with pytest.raises(CorruptFile, match=r"results\.json to be a results file\. Found list"):
            load_predictor(tmp_path)

    def test_from_python(self, run: Path, inputs: Tensor, tmp_path: Path) -> None:
        training = TrainingRecord(strategy="variational", history=[])
        results = Results(polyarch="", torch="", method="one-shot", settings={}, data={}, space={}, training=training)
        found = SearchResult(results, run)
        for mode, folder in ((None, "artifact"), ("single", "artifact"), ("marginal", "posterior")):
            expected = Predictor.load(run / folder)(inputs).probabilities
            assert torch.equal(found.predictor(mode)(inputs).probabilities, expected)
        sure, surer = found.predictor("early-exit"), found.predictor("early-exit", exit_above=0.99)
        assert sure.exits == surer.exits == (0, 1, 2)
        assert not torch.equal(sure(inputs).probabilities, surer(inputs).probabilities)
        (tmp_path / "results.json").write_text("{}")
        with pytest.raises(InvalidInput, match=r"exports a predictor for mode marginal\. Found no .*posterior"):
            SearchResult(results, tmp_path).predictor("marginal")


def invoke(*words: str) -> tuple[str, BaseException | None]:
    """In this process: starting one takes seconds."""
    app = typer.Typer()
    app.command()(predict)
    app.command()(serve)
    finished = CliRunner().invoke(app, ["predict", *words])
    return finished.output, finished.exception


class TestCommand:
    @pytest.fixture
    def points(self, inputs: Tensor, tmp_path: Path) -> Path:
        np.savez(tmp_path / "points.npz", x=inputs.numpy())
        return tmp_path / "points.npz"

    def test_early_exit_has_a_column_of_depths(self, run: Path, points: Path, inputs: Tensor) -> None:
        out = points.with_name("out.csv")
        printed, failed = invoke(str(run), str(points), "--mode", "early-exit", "--out", str(out))
        assert failed is None
        header, *lines = out.read_text().splitlines()
        assert header == "id,prediction,probability,entropy,mutual_information,flag,depth,p:arm 0,p:arm 1"
        depths = Predictor.load(run / "posterior", early_exit=True)(inputs).depths
        assert depths is not None and [int(line.split(",")[6]) for line in lines] == depths.tolist()
        assert f"Depth: {float(depths.double().mean()):.2f} of 2 on average" in printed

    @pytest.mark.parametrize("words", [(), ("--mode", "single"), ("--mode", "marginal")])
    def test_other_ways_have_none(self, words: tuple[str, ...], run: Path, points: Path) -> None:
        out = points.with_name("out.csv")
        printed, failed = invoke(str(run), str(points), *words, "--out", str(out))
        assert failed is None and "Depth:" not in printed
        assert out.read_text().splitlines()[0].split(",")[5:7] == ["flag", "p:arm 0"]

    def test_exit_above(self, run: Path, points: Path) -> None:
        used = []
        for confidence in ("0.51", "0.9", "2"):
            words = ("--mode", "early-exit", "--exit-above", confidence, "--out", str(points.with_name("out.csv")))
            printed, failed = invoke(str(run / "posterior"), str(points), *words)
            assert failed is None
            used.append(float(re.findall(r"Depth: ([\d.]+) of 2", printed)[0]))
        assert used[0] < used[1] < used[2] == 2

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (["{run}", "--mode", "all"], "Expected a mode out of single, ensemble, marginal, early-exit"),
            (["{run}", "--exit-above", "0.9"], "Expected mode early-exit .* Got no mode"),
            (["{run}", "--mode", "marginal", "--exit-above", "0.9"], "Expected mode early-exit .* Got marginal"),
            (["{run}", "--mode", "early-exit", "--exit-above", "0"], "a confidence above 0"),
            (["{run}/artifact", "--mode", "single"], "the folder of a run for mode single. Found no results.json"),
            (["{run}/posterior", "--mode", "marginal"], "the folder of a run for mode marginal"),
            (["{run}/posterior", "--mode", "ensemble"], "the folder of a run for mode ensemble"),
            (["{run}", "--mode", "ensemble"], "a run that exports a predictor for mode ensemble. Found no .*ensemble"),
            (["{run}/artifact", "--mode", "early-exit"], "share one network for early exit"),
            (["{tmp}", "--mode", "marginal"], "a run that exports a predictor for mode marginal"),
            (["{tmp}", "--mode", "early-exit"], "a run that exports a predictor for mode early-exit"),
            (["{tmp}"], "a run that exports a predictor. Found no .*artifact"),
        ],
    )
    def test_errors_are_one_sentence(
        self, words: list[str], sentence: str, run: Path, points: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "results.json").write_text("{}")  # a run without any artifact
        folder, *options = [word.format(run=run, tmp=tmp_path) for word in words]
        _, failed = invoke(folder, str(points), *options, "--out", str(tmp_path / "out.csv"))
        assert isinstance(failed, PolyarchError) and re.search(sentence, str(failed)), failed
        assert "\n" not in str(failed) and not (tmp_path / "out.csv").exists()
