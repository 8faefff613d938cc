"""Choices made for a user who asks for a depth, the plan of such a run, and how its settings are given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyarch import Repeat
from polyarch.data import Column, Dataset, TableData, TensorData
from polyarch.errors import ConfigError, UnknownName
from polyarch.methods.depth.choice import forward_seconds
from polyarch.methods.depth.method import DepthMethod
from polyarch.methods.depth.settings import DepthSettings
from polyarch.plugins import method_named
from polyarch.randomness import generator_at
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import EXPORT_SECONDS, PlannedStage, Timings, fitted, total_seconds
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, parse_own_options
from polyarch.runs.suggestion import merged, with_suggestions
from polyarch.runs.workspace import Workspace

METHODS = ("variational-depth", "deterministic-depth")

Suggested = tuple[dict[str, Any], list[str]]


def images(side: int, *, channels: int = 1, count: int = 40) -> Dataset:
    inputs = torch.randint(256, (count, channels, side, side), generator=generator_at(0, "images"), dtype=torch.uint8)
    part = TensorData(inputs, torch.arange(count) % 2, 2)
    return Dataset("photos", part, part, ("cat", "dog"))


def table(count: int = 200) -> Dataset:
    inputs = torch.randn(count, 3, generator=generator_at(0, "table"))
    part = TableData(inputs, torch.arange(count) % 2, 2)
    return Dataset("table", part, part, ("no", "yes"), tuple(Column(name, None) for name in "abc"))


def points(count: int = 200) -> Dataset:
    part = TensorData(torch.randn(count, 2, generator=generator_at(0, "points")), torch.arange(count) % 2, 2)
    return Dataset("points", part, part, ("no", "yes"))


def asked(method: str = "variational-depth", **content: Any) -> RunSettings:
    return RunSettings.parse({"space": {"kind": "auto"}, "method": method, **content}, "the test")


def suggested(settings: RunSettings, data: Dataset, builder: Builder | None = None) -> Suggested:
    """By the method of the settings."""
    method = method_named(settings.method)
    assert isinstance(method, DepthMethod)
    found = method.suggest(settings, data, builder)
    return dict(found.settings), found.reasons


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("data", "space"),
    [
        (points(), {"kind": "depth_fc", "width": 20}),
        (table(), {"kind": "depth_fc", "width": 64}),
        (images(8), {"kind": "depth_cnn", "channels": 64, "inner_channels": 32}),
        (images(5), {"kind": "depth_fc", "width": 64}),  # too small for the convolution
    ],
    ids=["points", "table", "images", "tiny images"],
)
def test_the_space_fits_the_data(method: str, data: Dataset, space: dict[str, Any]) -> None:
    settings = asked(method)
    found, reasons = suggested(settings, data)
    assert found["space"] == space
    assert reasons[0].startswith(f"space {space['kind']}: a ")
    whole = with_suggestions(settings, found)  # every key is a setting
    assert whole.method == method and whole.space.kind == space["kind"]
    assert suggested(asked(method), data) == (found, reasons)  # the same data get the same choices


def test_small_data_follow_the_document() -> None:
    """Full batches, SGD 0.1 with momentum 0.5 and no decay, patience 500, the most probable depth."""
    found, reasons = suggested(asked(), points())
    protocol = {"momentum": 0.5, "weight_decay": 0.0, "learning_rate": 0.1, "final_learning_rate": 0.1}
    assert found["train"] == {
        "strategy": "variational", "patience": 500, "epochs": 3000, "batch_size": 160, **protocol,
    }  # fmt: skip
    assert found["depth"] == {"rule": "argmax", "posterior": "exact"}
    assert reasons[1] == (
        "schedule: up to 3,000 epochs of 160 training examples in full batches; rule argmax chooses the depth from the "
        "exact posterior"
    )
    fixed, reasons = suggested(asked("deterministic-depth"), points())
    assert fixed["retrain"] == {"seeds": 1, "epochs": 3000, "batch_size": 160, **protocol}  # as many as the learned one
    assert "train" not in fixed and "depth" not in fixed
    assert reasons[1].endswith("in full batches; validation loss chooses the depth")


def test_large_data_take_minibatches_and_the_95_percent_rule() -> None:
    few, many = suggested(asked(), table(1000))[0], suggested(asked(), table(6000))[0]
    assert (few["train"]["batch_size"], many["train"]["batch_size"]) == (64, 128)
    assert few["depth"] == {"rule": "argmax", "posterior": "exact"}
    assert many["depth"] == {"rule": "95%", "posterior": "learned"}  # the exact one would take the deepest
    for found in (few, many):
        assert 2 <= found["train"]["epochs"] <= 60
        assert 3 <= found["train"]["patience"] <= found["train"]["epochs"]
        assert "final_learning_rate" not in found["train"]  # the rate falls to 0
    assert "batches of 128; rule 95% chooses" in suggested(asked(), table(6000))[1][1]


def test_more_work_makes_networks_narrow_and_schedules_short() -> None:
    few, many = (suggested(asked(), images(28, count=count))[0] for count in (700, 5000))
    assert many["space"]["channels"] < few["space"]["channels"] == 64
    assert many["space"]["inner_channels"] == many["space"]["channels"] // 2
    settings = asked(space={"kind": "depth_cnn"})
    epochs = [suggested(settings, images(28, count=count))[0]["train"]["epochs"] for count in (1000, 5000)]
    assert epochs[0] > epochs[1]


def test_validation_examples_are_a_fifth_or_five_thousand() -> None:
    assert suggested(asked(), points())[0]["data"] == {"validation": 0.2}
    assert suggested(asked(), points(50_000))[0]["data"] == {"validation": 0.1}


def test_what_was_asked_for_stays() -> None:
    settings = asked(
        space={"kind": "depth_fc", "width": 7, "max_depth": 4},
        train={"epochs": 33, "batch_size": 16},
        depth={"rule": "expected", "prior": (1.0, 2.0, 3.0, 4.0, 5.0)},
        data={"validation": 0.4},
    )
    found, reasons = suggested(settings, points())
    assert "space" not in found
    assert reasons == [
        "space depth_fc: as asked for",
        "schedule: up to 33 epochs of 120 training examples in batches of 16; rule expected chooses the depth "
        "from the exact posterior",
    ]
    whole = with_suggestions(settings, found)
    assert (whole.train.epochs, whole.train.batch_size, whole.train.patience) == (33, 16, 500)
    assert (whole.section(DepthSettings).rule, whole.section(DepthSettings).prior) == (
        "expected",
        (1.0, 2.0, 3.0, 4.0, 5.0),
    )
    assert whole.space == settings.space and whole.data.validation == 0.4


def test_a_network_of_ones_own_gets_a_schedule() -> None:
    def build() -> nn.Module:
        body = Repeat("depth", [nn.Linear(4, 4) for _ in range(3)])
        return nn.Sequential(nn.Flatten(), nn.Linear(2, 4), body, nn.Linear(4, 2))

    settings = asked(space={"kind": "module", "module": "<given in Python>"})
    found, reasons = suggested(settings, points(), build)
    assert "space" not in found and reasons[0] == "space module: your own network"
    assert found["train"]["strategy"] == "variational"


def settings_of(method: str, **sections: Any) -> RunSettings:
    return RunSettings.parse(merged({"method": method, "workers": 2}, sections), "the test")


def run_of(method: str, until: str | None = None, **sections: Any) -> Run:
    """With 200 examples for training."""
    content = merged({"data": {"validation": 0.2}, "space": {"kind": "depth_fc"}}, sections)
    return Run.build(settings_of(method, **content), Workspace(Path("nowhere")), data=points(250), until=until)


def planned(run: Run) -> list[PlannedStage]:
    return run.method.plan(run, Timings(step=0.5))


class TestPlan:
    def test_of_a_learned_depth(self) -> None:
        content: dict[str, Any] = {"train": {"epochs": 10, "batch_size": 50}}
        trained, export = planned(run_of("variational-depth", **content))
        assert trained.name == "train" and trained.seconds == pytest.approx(10 * 4 * 0.5)
        assert "weights and posterior, up to 10 epochs of 200 examples" in trained.work
        assert (export.name, export.seconds) == ("export", EXPORT_SECONDS)
        assert planned(run_of("variational-depth", "train", **content)) == [trained]

    def test_a_batch_that_is_larger_than_the_data(self) -> None:
        run = run_of("variational-depth", train={"epochs": 10, "batch_size": 1000})
        assert planned(run)[0].seconds == pytest.approx(10 * 0.5)

    def test_of_fixed_depths(self) -> None:
        content: dict[str, Any] = {"train": {"batch_size": 50}, "retrain": {"epochs": 10, "seeds": 3}}
        few = planned(run_of("deterministic-depth", depth={"depths": [1, 2]}, **content))
        many = planned(run_of("deterministic-depth", **content))
        assert few[0].work == "6 networks of fixed depth, 10 epochs" and few[0].name == "retrain"
        assert many[0].work == "24 networks of fixed depth, 10 epochs"
        assert 0 < few[0].seconds < many[0].seconds

    def test_a_limit_on_the_time_shortens_the_training(self) -> None:
        run = run_of("variational-depth", max_minutes=2, train={"epochs": 3000, "batch_size": 200})

        def with_settings(settings: RunSettings) -> list[PlannedStage]:
            return planned(replace(run, settings=settings))

        free = settings_of("variational-depth", max_minutes=2)
        shorter, reason = fitted(run, with_settings, asked=free, stretch=True)
        assert shorter.train.epochs < 3000 and total_seconds(with_settings(shorter)) <= 2 * 60
        assert reason is not None and f"{shorter.train.epochs} epochs" in reason
        with pytest.raises(ConfigError, match="at most 2 minutes"):  # what was given is not cut
            fitted(run, with_settings, asked=run.settings, stretch=True)


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        ("uniform", "uniform"),
        ("flat", "flat"),  # names are checked with the settings
        ("1,2,4", [1, 2, 4]),
        (" 0.5, 1e-3 ,2", [0.5, 0.001, 2]),
        ("1,two", "1,two"),
    ],
)
def test_priors_as_options(text: str, prior: Any) -> None:
    method = method_named("variational-depth")
    assert parse_own_options(["--prior", text], method) == {"depth.prior": prior}
    assert parse_own_options([f"--prior={text}", "--rule", "95%"], method) == {
        "depth.prior": prior,
        "depth.rule": "95%",
    }


@pytest.mark.parametrize("words", [["--nothing", "1"], ["--rule"], ["rule", "95%"]])
def test_options_that_the_method_does_not_have(words: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"a setting of variational-depth: rule, .*, weighting, depths\. Got"):
        parse_own_options(words, method_named("variational-depth"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"depth": {"rule": "median"}}, "depth.rule in the test"),
        ({"depth": {"updates": "sometimes"}}, "depth.updates in the test"),
        ({"depth": {"prior": "flat"}}, "depth.prior"),
        ({"depth": {"prior": [1.0]}}, "depth.prior"),
        ({"depth": {"prior": [1.0, 0.0]}}, "depth.prior"),
        ({"depth": {"depths": [-1]}}, "depth.depths"),
        ({"depth": {"weighting": "equal"}}, "depth.weighting"),
        ({"depth": {"posterior": "prior"}}, "depth.posterior"),
        ({"depth": {"q_learning_rate": 0}}, "depth.q_learning_rate"),
    ],
)
def test_settings_that_do_not_fit(content: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        RunSettings.parse(content, "the test")


def test_methods_that_are_not_there() -> None:
    with pytest.raises(UnknownName, match=r"Expected a method out of .*variational-depth.* Got 'bayes'"):
        RunSettings.parse({"method": "bayes"}, "the test")


def test_settings_survive_a_file(tmp_path: Any) -> None:
    settings = settings_of("variational-depth", depth={"prior": [1.0, 2.5, 4.0], "depths": [3, 1], "rule": "95%"})
    settings.write(tmp_path / "config.toml")
    assert RunSettings.read(tmp_path / "config.toml") == settings


class Counted(nn.Module):
    def __init__(self, calls: list[str], name: str) -> None:
        super().__init__()
        self.calls = calls
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        self.calls.append(self.name)
        return x


def test_forward_passes_are_timed_in_turns() -> None:
    calls: list[str] = []
    networks = {name: Counted(calls, name) for name in ("full", "pruned")}
    seconds = forward_seconds(networks, torch.zeros(2, 3), rounds=4)
    assert calls == ["full", "pruned"] * 5  # the first round warms up
    assert set(seconds) == {"full", "pruned"} and all(value > 0 for value in seconds.values())
