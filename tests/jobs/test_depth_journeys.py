"""A depth for one's own data, from the command to predictions."""

from __future__ import annotations

import base64
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import polyarch as library
from polyarch import Repeat
from polyarch.data import load
from polyarch.distributions import Categorical
from polyarch.facade import Found
from polyarch.jobs.prediction import Predictor
from polyarch.methods.variational_depth import RULES, choose_depth, prune
from polyarch.results import DepthPredictor, DepthRecord, Results
from polyarch.spaces import Choice, Space

Command = Callable[..., subprocess.CompletedProcess[str]]
Outcome = Callable[[Path], dict[str, Any]]

WAYS = ["mixture of all depths", "pruned mixture", "pruned network alone", "full depth alone"]
SMALL: dict[str, Any] = {"method": "variational-depth", "train.epochs": 20, "programs": []}
SPIRALS: dict[str, Any] = {**SMALL, "space.kind": "depth_fc", "space.max_depth": 3, "space.width": 8}

OWN = """
from torch import nn
from polyarch import OneOf, Repeat

pytestmark = pytest.mark.xdist_group("depth journeys")  # what they share is made once

def block():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU())

def body():
    return Repeat("layers", [block() for _ in range(3)])

def build(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[0], 8), body(), nn.BatchNorm1d(8), nn.Linear(8, classes))

def two_choices(input_shape, classes):
    stem = OneOf("stem", small=nn.Linear(input_shape[0], 8), same=nn.LazyLinear(8))
    return nn.Sequential(nn.Flatten(), stem, body(), nn.Linear(8, classes))

def no_depth(input_shape, classes):
    return nn.Sequential(nn.Flatten(), OneOf("stem", a=nn.Linear(2, 8), b=nn.Linear(2, 8)), nn.Linear(8, classes))
"""


def succeed(finished: subprocess.CompletedProcess[str]) -> str:
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def options(settings: dict[str, Any]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def raw(data: Any) -> tuple[Tensor, Tensor]:
    (inputs,) = data.test.stream([torch.arange(len(data.test))])
    return inputs, data.test.targets


def measured(predictor: Predictor, data: Any) -> dict[str, float]:
    """On the test examples, as a user would find."""
    inputs, targets = raw(data)
    probabilities = predictor(inputs).probabilities.double()
    true = probabilities.gather(1, targets[:, None])
    return {
        "accuracy": float((probabilities.argmax(1) == targets).double().mean()),
        "loss": float(-true.log().mean()),
    }


def depth_of(results: Results) -> DepthRecord:
    assert results.depth is not None
    return results.depth


def ways(record: DepthRecord) -> dict[str, DepthPredictor]:
    assert [way.name for way in record.predictors] == WAYS
    return {way.name: way for way in record.predictors}


def check_numbers(results: Results, *, limited: bool = False) -> None:
    """What the numbers of a run say about each other."""
    record = depth_of(results)
    depths = [measure.depth for measure in record.depths]
    assert depths == list(range(depths[0], depths[0] + len(depths)))
    assert results.training.q is not None
    (learned,) = results.training.q.values()
    q = [measure.q or 0.0 for measure in record.depths]
    assert sum(learned) == pytest.approx(1, abs=1e-5) and q == pytest.approx(learned, abs=1e-6)
    assert sum(measure.prior or 0.0 for measure in record.depths) == pytest.approx(1, abs=1e-5)

    space = Space("depths", (Choice("depth", tuple(map(str, depths))),))
    posterior = Categorical(space, torch.tensor(q).clamp_min(1e-30).log(), learnable=False)
    assert record.choices == {rule: depths[0] + choose_depth(posterior, rule) for rule in RULES}
    assert record.expected == pytest.approx(sum(depth * p for depth, p in zip(depths, q, strict=True)), abs=1e-4)
    if not limited:
        assert record.chosen == record.choices[record.rule]

    position = depths.index(record.chosen)
    parameters = [measure.parameters for measure in record.depths]
    assert parameters == sorted(set(parameters))
    found = ways(record)
    for way in found.values():
        where = -1 if way.name in ("mixture of all depths", "full depth alone") else position
        assert (way.blocks, way.parameters) == (depths[where], parameters[where])
        assert 0 <= way.mean_probability <= 1 and way.mean_probability >= np.exp(-way.loss) - 1e-9  # Jensen
    for name, where in (("pruned network alone", position), ("full depth alone", -1)):
        for key in ("accuracy", "loss", "valid_accuracy", "valid_loss"):
            assert getattr(found[name], key) == pytest.approx(getattr(record.depths[where], key), abs=1e-12)

    assert results.artifact is not None and results.comparison is not None
    assert results.artifact["parameters"] == parameters[position]
    assert list(results.artifact["architecture"].values()) == [str(record.chosen)]
    assert results.artifact["accuracy"] == found["pruned network alone"].accuracy
    assert [side.name for side in results.comparison] == sorted(WAYS, key=lambda name: name != "pruned network alone")
    assert [side.mean for side in results.comparison] == [found[side.name].accuracy for side in results.comparison]

    alone, mixture = results.predictors
    assert [list(member.values()) for member in alone.members] == [[str(record.chosen)]]
    assert [list(member.values()) for member in mixture.members] == [[str(depth)] for depth in depths[: position + 1]]
    assert mixture.weights == pytest.approx(prune(posterior, position).probabilities.tolist(), abs=1e-6)
    for predictor, name in ((alone, "pruned network alone"), (mixture, "pruned mixture")):
        assert predictor.uncalibrated_loss == pytest.approx(found[name].loss, rel=1e-6)
        assert predictor.uncalibrated_calibration_error == pytest.approx(found[name].calibration_error, abs=1e-6)
    check_exits(record)
    assert {"train", "choose", "forward_full", "forward_pruned"} <= set(results.seconds)


def check_exits(record: DepthRecord) -> None:
    """The curve goes from the first exit to the whole mixture."""
    confidences = [point.confidence for point in record.exits]
    assert confidences == sorted(confidences) and confidences[0] == 0.5 and confidences[-1] == 1.0
    used = [point.mean_depth for point in record.exits]
    assert used == sorted(used)
    assert record.depths[0].depth <= used[0] and used[-1] <= record.chosen
    if record.exit_confidence is not None:
        (kept,) = (point for point in record.exits if point.confidence == record.exit_confidence)
        assert kept.valid_accuracy >= ways(record)["pruned mixture"].valid_accuracy


def check_artifacts(found: Found, data: Any) -> None:
    """What is loaded back predicts on the test set what the results say."""
    for predictor, record in zip((found.predictor(), found.posterior()), found.results.predictors, strict=True):
        seen = measured(predictor, data)
        assert seen["accuracy"] == pytest.approx(record.accuracy, abs=0.005)  # float32 against float64
        assert seen["loss"] == pytest.approx(record.loss, abs=1e-4)


@pytest.fixture(scope="module")
def spiral_run(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """By the facade, with everything that a run writes."""
    settings = {**SPIRALS, "train.epochs": 60, "programs": ["pt2", "onnx"]}
    return library.search("spirals", out=tmp_path_factory.mktemp("spirals") / "run", quiet=True, settings=settings)


class TestSpirals:
    def test_numbers_and_artifacts(self, spiral_run: Found) -> None:
        check_numbers(spiral_run.results)
        check_artifacts(spiral_run, load("spirals"))
        assert Results.read(spiral_run.folder / "results.json") == spiral_run.results

    def test_what_was_decided(self, spiral_run: Found) -> None:
        results, record = spiral_run.results, depth_of(spiral_run.results)
        assert (record.rule, record.prior, record.updates) == ("argmax", "geometric, ratio 0.85", "gradient")
        assert results.settings["train"]["strategy"] == "variational" and results.settings["train"]["momentum"] == 0.5
        assert results.training.strategy == "variational" and len(results.training.history) == 60
        assert {"loss", "elbo", "kl", "valid_loss"} <= set(results.training.history[0])
        assert results.training.history[-1]["elbo"] > results.training.history[0]["elbo"]
        assert "full batches; rule argmax chooses the depth" in results.decisions[1]
        weights = [0.85 ** (1 + depth) for depth in range(4)]
        expected = [weight / sum(weights) for weight in weights]
        assert [measure.prior for measure in record.depths] == pytest.approx(expected, rel=1e-5)

    def test_files(self, spiral_run: Found) -> None:
        names = ["architecture.json", "metadata.json", "model.onnx", "model.pt2", "weights.safetensors"]
        for folder in ("artifact", "posterior"):
            assert sorted(path.name for path in (spiral_run.folder / folder).iterdir()) == names
        assert (spiral_run.folder / "report.html").read_text().endswith("</html>")
        assert not (spiral_run.folder / "ensemble").exists() and not (spiral_run.folder / "study.db").exists()

    def test_early_exit_of_the_artifact(self, spiral_run: Found) -> None:
        """At a confidence above 1 nobody leaves; at the first exit everybody does."""
        inputs, _ = raw(load("spirals"))
        chosen = depth_of(spiral_run.results).chosen
        whole = spiral_run.posterior(early_exit=1.01)(inputs)
        torch.testing.assert_close(whole.probabilities, spiral_run.posterior()(inputs).probabilities)
        assert whole.depths is not None and set(whole.depths.tolist()) == {chosen}
        first = spiral_run.posterior(early_exit=0.01)(inputs)
        assert first.depths is not None and set(first.depths.tolist()) == {0}

    def test_functions_are_what_is_predicted_on_the_plane(self, spiral_run: Found) -> None:
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
        predictions = spiral_run.predictor()(grid).probabilities.double()
        assert (predictions.argmax(1) == classes).double().mean() > 0.995
        temperature = spiral_run.results.predictors[0].temperature
        raw_probabilities = torch.softmax(temperature * predictions.log(), 1)
        assert ((255 * raw_probabilities.amax(1)).round() - confidence).abs().max() <= 2

    def test_early_exit_of_the_artifact_is_what_the_results_say(self, spiral_run: Found) -> None:
        inputs, targets = raw(load("spirals"))
        assert spiral_run.results.predictors[1].temperature != pytest.approx(1, abs=0.05)
        for point in depth_of(spiral_run.results).exits[:6]:
            found = spiral_run.posterior(early_exit=point.confidence)(inputs)
            assert found.depths is not None
            assert float(found.depths.double().mean()) == pytest.approx(point.mean_depth, abs=0.02)
            accuracy = (found.probabilities.argmax(1) == targets).double().mean()
            assert float(accuracy) == pytest.approx(point.accuracy, abs=0.005)


def test_the_command_with_every_option(tmp_path: Path, polyarch: Command) -> None:
    run = tmp_path / "run"
    words = ["--data", "spirals", "--space", "depth_fc", "--out", str(run), "--workers", "1", "--seed", "3"]
    words += ["--method", "variational-depth", "--rule", "95%", "--prior", "1,2,4,8", "--updates", "em"]
    settings = {"space.max_depth": 3, "space.width": 8, "train.epochs": 20, "programs": []}
    said = succeed(polyarch("search", *words, *options(settings)))
    assert "Chosen: space depth_fc: as asked for" in said
    assert "pruned network alone" in said and "mixture of all depths" in said
    results = Results.read(run / "results.json")
    check_numbers(results)
    record = depth_of(results)
    assert f"Depth: {record.chosen} of 3 by rule 95%" in said
    assert (record.rule, record.prior, record.updates) == ("95%", "given", "em")
    assert [measure.prior for measure in record.depths] == pytest.approx([depth / 15 for depth in (1, 2, 4, 8)])
    assert (run / "report.html").exists()
    succeed(polyarch("search", *words, *options(settings), "--resume"))  # the same command goes on
    again = Results.read(run / "results.json")
    assert again.depth == record
    other = polyarch("search", "--out", str(run), "--resume", "--rule", "expected")
    assert other.returncode == 2 and "Expected the settings of the run that is resumed" in other.stderr


def test_training_first_and_choosing_later(tmp_path: Path, polyarch: Command) -> None:
    run = ["--out", str(tmp_path / "run")]
    words = [*run, "--data", "spirals", "--space", "depth_fc", "--workers", "1"]
    settings = {"method": "variational-depth", "space.max_depth": 2, "train.epochs": 20, "programs": []}
    succeed(polyarch("train", *words, *options(settings)))
    trained = Results.read(tmp_path / "run" / "results.json")
    assert trained.depth is None and trained.training.q is not None
    succeed(polyarch("search", *run, "--resume"))
    results = Results.read(tmp_path / "run" / "results.json")
    assert results.training == trained.training
    check_numbers(results)


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two numbers, one of them sometimes missing, and a word."""
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("table") / "flowers.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["height", "colour", "petals", "kind"])
        for _ in range(160):
            petals, colour = int(generator.integers(3, 9)), str(generator.choice(["red", "blue"]))
            height = "" if generator.random() < 0.1 else f"{generator.normal(30 + 5 * (petals > 5), 3):.2f}"
            writer.writerow([height, colour, petals, "rose" if (petals > 5) != (colour == "red") else "iris"])
    return path


@pytest.mark.parametrize("updates", ["gradient", "em"])
def test_a_table(updates: str, flowers: Path, tmp_path: Path) -> None:
    """Mixed columns; the widest choice of the tool is kept small here."""
    settings = {**SMALL, "space.kind": "depth_fc", "space.max_depth": 3, "depth.updates": updates}
    found = library.search(
        flowers,
        target="kind",
        out=tmp_path / "run",
        quiet=True,
        report=False,
        settings={**settings, "train.epochs": 40},
    )
    check_numbers(found.results)
    check_artifacts(found, load(str(flowers), target="kind"))
    assert depth_of(found.results).functions is None
    assert found.predictor().is_table and found.predictor().classes == ("iris", "rose")
    assert depth_of(found.results).updates == updates


def test_a_table_of_two_numbers_has_pictures(tmp_path: Path) -> None:
    """Under the names of its columns, in their units; a missing value is no point."""
    generator = np.random.default_rng(0)
    path = tmp_path / "two.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["width", "length", "kind"])
        for index in range(80):
            width = "" if index % 20 == 0 else f"{generator.normal(100, 20):.1f}"
            writer.writerow([width, f"{generator.normal(0, 1):.2f}", index % 2])
    settings = {**SMALL, "space.kind": "depth_fc", "space.max_depth": 2, "space.width": 4}
    found = library.search(path, target="kind", out=tmp_path / "run", quiet=True, report=False, settings=settings)
    functions = depth_of(found.results).functions
    assert functions is not None and functions.names == ("width", "length")
    assert 20 < functions.x_range[0] < functions.x_range[1] < 180
    assert 0 < len(functions.points) <= found.results.data["train"]
    assert all(np.isfinite(point[:2]).all() for point in functions.points)
    check_numbers(found.results)


@pytest.mark.parametrize("updates", ["gradient", "em"])
def test_images(updates: str, tmp_path: Path) -> None:
    settings = {
        **SMALL,
        "space.kind": "depth_cnn",
        "space.max_depth": 2,
        "space.channels": 4,
        "space.inner_channels": 2,
        "train.epochs": 6,
        "train.batch_size": 32,
        "data.limit": 120,
        "depth.updates": updates,
    }
    found = library.search("digits", out=tmp_path / "run", quiet=True, report=False, settings=settings)
    check_numbers(found.results)
    check_artifacts(found, load("digits"))
    assert depth_of(found.results).functions is None
    exit_confidence = json.loads((tmp_path / "run" / "posterior" / "metadata.json").read_text())["exit_confidence"]
    assert exit_confidence == depth_of(found.results).exit_confidence


class Plain(nn.Module):
    """One Repeat; what follows is shared by all depths."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(2, 8)
        self.body = Repeat("layers", [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)])
        self.head = nn.Sequential(self.make_norm(), nn.Linear(8, 2))

    def make_norm(self) -> nn.Module:
        return nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(self.stem(x)))
        return logits


class Normalised(Plain):
    """With a batch norm layer after the Repeat: its averages differ from depth to depth."""

    def make_norm(self) -> nn.Module:
        return nn.BatchNorm1d(8)


class Skipping(Normalised):
    """A skip around the Repeat: depths do not come from one walk."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        logits: Tensor = self.head(x + self.body(x))
        return logits


@pytest.mark.parametrize("network", [Plain, Normalised, Skipping])
def test_a_network_of_ones_own(network: type[nn.Module], tmp_path: Path) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = network()
    found = library.search(
        "spirals", out=tmp_path / "run", module=model, quiet=True, report=False, settings={**SMALL, "train.epochs": 30}
    )
    check_numbers(found.results)
    check_artifacts(found, load("spirals"))
    record = depth_of(found.results)
    assert [measure.depth for measure in record.depths] == [1, 2, 3]
    assert found.results.training.q is not None and list(found.results.training.q) == ["layers"]
    assert record.functions is not None
    assert found.results.decisions[0] == "space module: your own network"


def test_a_network_of_ones_own_by_name(tmp_path: Path, polyarch: Command) -> None:
    """Its artifact predicts where its code is not."""
    (tmp_path / "net.py").write_text(OWN)
    words = ["--data", "spirals", "--module", "net:build", "--method", "variational-depth", "--out", "run"]
    succeed(
        polyarch("search", *words, "--workers", "1", *options({"train.epochs": 20, "programs": ["onnx"]}), cwd=tmp_path)
    )
    results = Results.read(tmp_path / "run" / "results.json")
    check_numbers(results)
    for folder, record in zip(("artifact", "posterior"), results.predictors, strict=True):
        seen = measured(Predictor.load(tmp_path / "run" / folder), load("spirals"))
        assert seen["loss"] == pytest.approx(record.loss, abs=1e-4)


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


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--data", "digits", "--space", "nb201"], "only choice is its depth: depth_fc, depth_cnn, or your own"),
        (["--data", "spirals", "--space", "mlp"], "Got 5 choices in"),
        (["--data", "spirals", "--module", "net:two_choices"], "Got 2 choices in"),
        (["--data", "spirals", "--module", "net:no_depth"], "'stem' (2 options)"),
        (["--data", "spirals", "--space", "depth_fc", "--prior", "1,2,3"], "21 prior weights above 0, one per depth"),
        (["--data", "spirals", "--prior", "1,two"], "weights such as 1,2,4"),
        (["--data", "spirals", "--prior", "flat"], "depth.prior"),
        (["--data", "spirals", "--rule", "median"], "depth.rule"),
        (["--data", "spirals", "--updates", "never"], "depth.updates"),
        (["--data", "spirals", "--method", "bayes"], "method"),
        (["--data", "spirals", "--set", "train.strategy=single_path"], "train.strategy variational for"),
        (["--data", "spirals", "--max-params", "3"], "smallest seen"),
        (["--data", "spirals", "--method", "deterministic-depth", "--set", "depth.depths=[30]"], "0 to 20. Got 30"),
        (["--data", "digits", "--space", "nb201", "--method", "deterministic-depth"], "only choice is its depth"),
        (["--data", "digits", "--outside", "spirals"], "images on both sides"),
    ],
)  # fmt: skip
def test_refusals_are_one_sentence(tmp_path: Path, polyarch: Command, words: list[str], sentence: str) -> None:
    (tmp_path / "net.py").write_text(OWN)
    method = [] if "--method" in words else ["--method", "variational-depth"]
    refused = polyarch("search", *words, *method, "--out", "run", cwd=tmp_path)
    assert refused.returncode == 2, refused.stdout
    assert sentence in refused.stderr
    assert refused.stderr.count("\n") == 1 and "Traceback" not in refused.stderr
    assert not (tmp_path / "run").exists()


def test_architectures_of_a_depth_are_not_ranked(tmp_path: Path, polyarch: Command) -> None:
    words = ["rank", "--data", "spirals", "--space", "depth_fc", "--set", "method=variational-depth", "--out", "run"]
    refused = polyarch(*words, cwd=tmp_path)
    assert refused.returncode == 2
    assert "Expected method one-shot to rank architectures. Got 'variational-depth'" in refused.stderr
    assert not (tmp_path / "run").exists()


def test_architectures_of_a_finished_run_are_not_ranked(tmp_path: Path, polyarch: Command) -> None:
    library.search("spirals", out=tmp_path / "run", quiet=True, report=False, settings={**SPIRALS, "train.epochs": 5})
    refused = polyarch("rank", "--out", str(tmp_path / "run"), "--resume")
    assert refused.returncode == 2
    assert Results.read(tmp_path / "run" / "results.json").depth is not None


def test_closed_form_updates_with_one_example_more_than_whole_batches(tmp_path: Path) -> None:
    """257 for training, which the E step takes in batches of 256."""
    generator = np.random.default_rng(0)
    pair = (generator.normal(size=(401, 3)), np.arange(401) % 2)
    settings = {**SPIRALS, "depth.updates": "em", "train.epochs": 3}
    found = library.search(pair, out=tmp_path / "run", quiet=True, report=False, settings=settings)
    assert found.results.data["train"] == 257
