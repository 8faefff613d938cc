"""A user's own supernet goes through search and rank, from Python and from the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import own_supernet_examples as examples
import pytest
import torch
from stopping import Stopping
from torch import Tensor

import polyarch
from polyarch.data import NetworkExample, load, resident
from polyarch.distributions import Empirical
from polyarch.errors import Interrupted, InvalidInput
from polyarch.methods.one_shot.record import OneShotRecord
from polyarch.methods.stochastic.recipes import nsa
from polyarch.results import Results
from polyarch.runs.display import Quiet
from polyarch.runs.own_module import build_own
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import perform
from polyarch.runs.start import Beginning
from polyarch.strategies.consistency import WiringPass
from polyarch.supernets import Relaxation, Supernet
from polyarch.testing import HardPathContract, SupernetContract, same_bits
from polyarch.training import StopRequest

Command = Callable[..., subprocess.CompletedProcess[str]]
TINY: dict[str, Any] = {
    "data.limit": 120,
    "train.epochs": 2,
    "train.batch_size": 32,
    "scores.steps": 2,
    "scores.policy_batches": 2,
    "rank.architectures": 3,
    "search.budget": 4,
    "search.window": 2,
    "search.population": 2,
    "search.tournament": 2,
    "retrain.epochs": 2,
    "retrain.seeds": 1,
    "retrain.members": 2,
    "retrain.random_architectures": 1,
}

SHAPE = (1, 8, 8)
EXAMPLE = NetworkExample(torch.randn(2, *SHAPE, generator=torch.Generator().manual_seed(0)))


class TestHardPaths(HardPathContract):
    def make_supernet(self) -> Supernet:
        net = examples.HardPaths((3, 2), 4).double()
        net.dropout.p = 0.0  # the contract compares passes in training mode
        return net

    def make_inputs(self) -> Tensor:
        return torch.randn(5, 3, 2, dtype=torch.float64)


class TestMixing(SupernetContract):
    def make_supernet(self) -> Supernet:
        return examples.Mixing((3, 2), 4).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(5, 3, 2, dtype=torch.float64)


def searched(out: Path, **options: Any) -> polyarch.SearchResult:
    settings = {**TINY, "programs": [], "rank.architectures": 0, **options.pop("settings", {})}
    if "method" in options:
        settings = {name: value for name, value in settings.items() if not name.startswith(("search.", "rank."))}
    return polyarch.search("digits", out=out, quiet=True, report=False, settings=settings, **options)


@pytest.mark.parametrize("program", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_search_to_an_artifact_that_predicts(program: bool, tmp_path: Path) -> None:
    """Six networks among eight architectures, so that the search ends early."""
    settings = {"programs": ["onnx"] if program else [], "search.budget": 20, "rank.architectures": 3}
    found = searched(tmp_path / "run", module=examples.HardPaths, settings=settings)
    record = found.results.found(OneShotRecord)
    assert record is not None and record.search is not None and record.ranking is not None
    assert record.search.exhausted
    assert len(record.search.evaluated) == len({item.key for item in record.search.evaluated}) == 6
    for item in record.search.evaluated:
        net = examples.HardPaths(SHAPE, 10)
        network = net.extract(net.space.architecture(item.architecture))
        assert item.parameters == sum(parameter.numel() for parameter in network.parameters())
    images = resident(load("digits").test).inputs[:20]
    by_class = found.predictor("single")(images)
    if program:  # without the class
        by_program = polyarch.Predictor.load(tmp_path / "run" / "artifact")(images)
        torch.testing.assert_close(by_class.probabilities, by_program.probabilities, atol=1e-5, rtol=1e-4)


def test_a_supernet_may_be_an_object_or_come_from_a_function(tmp_path: Path) -> None:
    net = examples.Mixing(SHAPE, 10)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = searched(tmp_path / "object", module=net)
    assert found.results.space["choices"] == {"activation": ["relu", "tanh"]}
    assert same_bits(dict(net.state_dict()), before)
    assert isinstance(build_own(lambda classes: examples.HardPaths(SHAPE, classes), EXAMPLE, 10), examples.HardPaths)


def test_gates_of_an_own_supernet_can_be_learned(tmp_path: Path) -> None:
    found = searched(tmp_path / "run", module=examples.Mixing, method="darts")
    assert found.results.artifact is not None


def test_a_stopped_search_ends_with_the_same_bits(tmp_path: Path) -> None:
    content = {"space": {"kind": "module", "module": f"{examples.__name__}:HardPaths"}, "data": {"name": "digits"}}
    overrides = {**TINY, "programs": [], "workers": 1, "search.budget": 20, "rank.architectures": 0}
    asked = RunSettings.parse(_nested(content, overrides), "the test")
    whole = perform(Beginning(tmp_path / "whole", Quiet(), StopRequest()).start(asked))
    request = StopRequest()
    with pytest.raises(Interrupted):
        perform(Beginning(tmp_path / "stopped", Stopping(3, request), request).start(asked))
    again = perform(Beginning(tmp_path / "stopped", Quiet(), StopRequest()).resume(None, {}, "the test"))
    one, other = (json.loads(results.model_dump_json()) for results in (whole, again))
    assert {**one, "seconds": {}} == {**other, "seconds": {}}


def _nested(content: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    for key, value in overrides.items():
        section, _, name = key.rpartition(".")
        (content.setdefault(section, {}) if section else content)[name] = value
    return content


@pytest.mark.slow
def test_from_the_command_line(tmp_path: Path, polyarch: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank, then search in the same folder, then predict without the code, then resume."""
    (tmp_path / "towers.py").write_text(Path(examples.__file__).read_text())
    monkeypatch.chdir(tmp_path)
    options = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    options += ["--workers", "1", "--set", "programs=['onnx']"]
    ranked = polyarch("rank", "--data", "digits", "--module", "towers:HardPaths", "--out", "run", *options)
    assert ranked.returncode == 0, ranked.stderr
    searched = polyarch("search", "--out", "run", "--resume")
    assert searched.returncode == 0, searched.stderr
    first = Results.read(tmp_path / "run" / "results.json")
    again = polyarch("search", "--out", "run", "--resume")
    assert again.returncode == 0, again.stderr
    assert Results.read(tmp_path / "run" / "results.json").record == first.record
    (tmp_path / "towers.py").unlink()
    np.savez(tmp_path / "images.npz", images=resident(load("digits").test).inputs[:5].numpy())
    predicted = polyarch("predict", "run/artifact", "images.npz", "--out", "predictions.csv")
    assert predicted.returncode == 0, predicted.stderr
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 6


def test_layers_without_a_mode_may_be_called_as_usual() -> None:
    net = build_own(examples.DirectCalls, EXAMPLE, 10)
    architecture = net.space.architecture(["one", "narrow", "relu"])
    network = net.extract(architecture)
    names = {"scale", "first.narrow.weight", "first.narrow.bias", "heads.narrow.weight", "heads.narrow.bias"}
    assert dict(network.named_parameters()).keys() == names
    assert network.state_dict().keys() == {*names, "shift"}
    assert net.parameter_count(architecture) == 1 + 64 * 6 + 6 + 60 + 10
    x = torch.randn(4, *SHAPE)
    with torch.no_grad():
        network.get_parameter("scale").add_(1.0)  # a copy
    assert not torch.allclose(network(x), net(x, architecture))


HARD = r"options gates can mix, for {}\. Got HardPaths, which takes one architecture at a time"


def test_what_needs_gates_refuses_hard_paths(tmp_path: Path) -> None:
    net = examples.HardPaths(SHAPE, 10)
    members = net.space.members[:2]
    with pytest.raises(InvalidInput, match=HARD.format("a relaxation")):
        Relaxation(net)
    with pytest.raises(InvalidInput, match=HARD.format("draws per example")):
        nsa(net, members, torch.optim.SGD(net.parameters(), 0.1), draws="example")
    with pytest.raises(InvalidInput, match=HARD.format("draws per example")):
        WiringPass(net, Empirical(net.space, members))
    for method, purpose in (("darts", "a relaxation"), ("stochastic", "draws per example")):
        with pytest.raises(InvalidInput, match=HARD.format(purpose)):
            searched(tmp_path / method, module=examples.HardPaths, method=method)
        assert not (tmp_path / method).exists()


def test_one_draw_per_batch_needs_no_gates(tmp_path: Path) -> None:
    settings = {"stochastic.draws": "batch", "stochastic.architectures": 4}
    found = searched(tmp_path / "run", module=examples.HardPaths, method="stochastic", settings=settings)
    assert found.results.artifact is not None


@pytest.mark.parametrize(
    ("builder", "sentence"),
    [
        (examples.DirectNorm, r"DirectNorm to call its torch modules through polyarch\.nn\.call"),
        (examples.NewTensor, r"parameters and buffers of the network only\. Got another tensor, of shape \(12,\)"),
        (examples.DirectDropout, r"through polyarch\.nn\.call.* Got a direct call of dropout"),
        (examples.AsksForValues, r"to ask for no values of tensors.* Got TraceError: symbolically traced variables"),
        (examples.Unregistered, r"only submodules of the network to be called\. Got a Linear"),
        (examples.NoGatesAfterAll, r"or to say takes_gates = False\. Got TypeError: one architecture at a time"),
        (examples.OtherWeights, r"what OtherWeights extracts to compute the same .* Got outputs that differ by up to"),
        (examples.OtherGates, r"OtherGates with one-hot gates to compute the same .* differ by up to 1\."),
        (examples.Lazy, r"layers of Lazy to have their sizes\. Got the lazy parameter 'first\.wide\.weight'"),
        (examples.NoSpace, r"NoSpace to pass its space to Supernet\.__init__\. Got none"),
    ],
)
def test_a_dry_run_finds_what_cannot_work(builder: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        build_own(builder, EXAMPLE, 10)


def test_channels_of_a_supernet_are_no_choices() -> None:
    with pytest.raises(InvalidInput, match=r"a plain network, whose channels are the choices\. Got HardPaths"):
        build_own(examples.HardPaths, EXAMPLE, 10, gated=True)


def test_a_module_and_a_space_are_refused_by_every_command(tmp_path: Path, polyarch: Command) -> None:
    for command in ("train", "rank", "search"):
        refused = polyarch(command, "--module", "a:b", "--space", "nb201", "--out", str(tmp_path / "run"))
        assert refused.returncode != 0 and "--module without --space" in refused.stderr
