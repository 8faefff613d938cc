"""Inter-choice weights in whole runs: settings, networks that are trained alone, artifacts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch.data import load
from polyarch.errors import ConfigError
from polyarch.export import export_programs, write_artifact
from polyarch.nn import ChoiceBlock, InterChoice, SplitCopies
from polyarch.prediction.loading import load_artifact
from polyarch.randomness import generator_at
from polyarch.results import Results
from polyarch.runs.artifacts import artifact_of, write_predictors
from polyarch.runs.comparison import inherited_network
from polyarch.runs.judging import Ensemble, judge
from polyarch.runs.plan import PlannedStage, fitted
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, parse_assignments, with_overrides
from polyarch.runs.space_settings import InterChoiceSettings, interchoice_of
from polyarch.runs.workspace import Workspace
from polyarch.training import split_weights

Command = Callable[..., subprocess.CompletedProcess[str]]

CHAIN = {"kind": "chain", "channels": [4, 4], "strides": [1, 1], "stem_channels": 4, "head_channels": 8}


def settings_of(space: dict[str, Any], *words: str) -> RunSettings:
    base = {"space": space, "data": {"name": "digits", "limit": 64}, "workers": 1}
    return RunSettings.parse(with_overrides(base, parse_assignments(words)), "the test")


def run_of(space: dict[str, Any], *words: str, folder: Path = Path("nowhere")) -> Run:
    run = Run.build(settings_of(space, *words), Workspace(folder), data=load("digits"))
    with torch.no_grad():
        for name, parameter in run.net.named_parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator_at(0, "noise", name)))
    return run


def test_the_command_line_can_say_it() -> None:
    words = ("space.interchoice.kind=bias", "space.interchoice.previous=2", "space.interchoice.predecessors=graph")
    for space in ({"kind": "nb201", "channels": 4}, CHAIN):
        settings = settings_of(space, *words)
        asked = interchoice_of(settings.space)
        assert asked is not None and asked.value() == InterChoice("bias", 2, "graph")
    assert settings_of({}, "space.pool_convolution=true").space.model_dump()["pool_convolution"] is True


def test_nested_settings_are_copied_before_they_change() -> None:
    content = {"space": {"interchoice": {"kind": "bias"}}}
    changed = with_overrides(content, {"space.interchoice.kind": "attention"})
    assert content["space"]["interchoice"]["kind"] == "bias"
    assert changed["space"]["interchoice"]["kind"] == "attention"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["space.interchoice.kind=biased"], "space.interchoice.kind in the test to fit"),
        (["space.interchoice.kind=bias", "space.interchoice.previous=4"], "1 to 3 previous choices. Got 4"),
        (["space.interchoice.kind=split"], "split_epoch with kind split"),
        (["space.interchoice.kind=bias", "space.interchoice.split_epoch=3"], "split_epoch with kind split"),
        (["space.kind=mlp", "space.interchoice.kind=bias"], "space.interchoice in the test to fit"),
    ],
)
def test_what_does_not_fit_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        settings_of({}, *words)


def test_a_split_comes_before_the_end() -> None:
    words = ("space.interchoice.kind=split", "space.interchoice.split_epoch=6", "train.epochs=6")
    run = replace(run_of(CHAIN, *words), until="train")
    with pytest.raises(ConfigError, match=r"split_epoch below train.epochs, 6. Got 6"):
        run.method.check(run)

    def planned(settings: RunSettings) -> list[PlannedStage]:
        return [PlannedStage("train", "", 10.0 * settings.train.epochs)]

    asked = settings_of(CHAIN, *words[:2], "max_minutes=1.8")
    assert fitted(replace(run, settings=asked), planned, asked=asked, stretch=False)[0].train.epochs == 8
    short = asked.model_copy(update={"max_minutes": 1.2})
    assert fitted(replace(run, settings=short), planned, asked=short, stretch=False)[0].train.epochs == 7


@pytest.mark.parametrize("space", [{"kind": "nb201", "channels": 2}, CHAIN], ids=["cells", "chain"])
def test_networks_alone_have_no_extra_weights(space: dict[str, Any]) -> None:
    plain, biased = run_of(space), run_of(space, "space.interchoice.kind=bias")
    architecture = plain.net.space.sample(generator_at(0, "draw"))
    states = [run.networks.fresh(architecture, seed=4).state_dict() for run in (plain, biased)]
    assert states[0].keys() == states[1].keys()
    assert all(value.equal(states[1][name]) for name, value in states[0].items())
    assert any(name.endswith("vector") for name in biased.net.extract(architecture).state_dict())


@pytest.mark.parametrize("kind", ["bias", "deep_attention", "split"])
def test_artifacts_know_whether_weights_were_inherited(kind: str, tmp_path: Path) -> None:
    words = [f"space.interchoice.kind={kind}", *(["space.interchoice.split_epoch=2"] if kind == "split" else [])]
    run = run_of(CHAIN, *words, "programs=[]", folder=tmp_path)
    if kind == "split":
        split_weights(run.net, run.method.training(run).optimizer)
        for block in run.net.modules():
            if isinstance(block, ChoiceBlock) and isinstance(block.interchoice, SplitCopies):
                assert block.interchoice.is_split
    members = [run.net.space.architecture(names) for names in (("k3e3", "k5e6"), ("k5e3", "k3e3"))]
    inherited = [(member, inherited_network(run, member).eval()) for member in members]
    fresh = [(member, run.networks.fresh(member, seed=1).eval()) for member in members]
    sides = [
        (Ensemble.of("inherited", inherited, inherited=True), tmp_path / "inherited"),
        (Ensemble.of("fresh", fresh), tmp_path / "fresh"),
    ]
    records = write_predictors(run, sides)
    assert [record.folder for record in records] == ["inherited", "fresh"]
    x = run.feed.preprocessing(run.feed.raw_examples(5))
    for ensemble, folder in sides:
        with torch.no_grad():
            torch.testing.assert_close(load_artifact(folder).networks(x), ensemble.networks(x))


@pytest.mark.slow
def test_programs_of_folded_networks_agree(tmp_path: Path) -> None:
    names = ("skip_connect", "nor_conv_3x3", "avg_pool_3x3", "nor_conv_1x1", "skip_connect", "nor_conv_3x3")
    networks = []
    for kind in ("bias", "attention"):
        run = run_of({"kind": "nb201", "channels": 2}, f"space.interchoice.kind={kind}")
        member = run.net.space.architecture(names)
        networks.append((member, inherited_network(run, member).eval()))
    ensemble = Ensemble.of("folded", networks, inherited=True)
    artifact = artifact_of(run, ensemble, *judge(ensemble, run, None))
    write_artifact(tmp_path, artifact)
    differences = export_programs(tmp_path, artifact, run.feed.raw_examples(8))
    assert set(differences) == {"model.pt2", "model.onnx"} and max(differences.values()) < 1e-5


def test_a_run_with_split_weights(tmp_path: Path, polyarch: Command) -> None:
    settings = ["space.interchoice.kind=split", "space.interchoice.split_epoch=2", "space.channels=2"]
    settings += ["data.limit=64", "train.epochs=3", "train.batch_size=32"]
    words = [word for setting in settings for word in ("--set", setting)]
    finished = polyarch("train", "--data", "digits", "--out", str(tmp_path / "run"), *words)
    assert finished.returncode == 0, finished.stderr
    results = Results.read(tmp_path / "run" / "results.json")
    assert len(results.training.history) == 3
    stored = InterChoiceSettings.model_validate(results.settings["space"]["interchoice"])
    assert stored.kind == "split" and stored.split_epoch == 2
