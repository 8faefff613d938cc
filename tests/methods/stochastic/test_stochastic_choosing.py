"""What is chosen for one network with many architectures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polyarch.data import Dataset, TensorData, load
from polyarch.estimators import MACs
from polyarch.methods.stochastic.method import PassTimings
from polyarch.methods.stochastic.settings import StochasticSettings
from polyarch.methods.stochastic.strategy import drawn_architectures
from polyarch.methods.stochastic.suggestion import PASSES_UNLABELLED, suggest_stochastic
from polyarch.runs.plan import PlannedStage, fitted, total_seconds
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.suggestion import FEWEST_EPOCHS, WIDTHS, WORK, with_suggestions
from polyarch.runs.workspace import Workspace
from polyarch.spaces import residual_wiring


def asked(**settings: Any) -> RunSettings:
    described = {"method": "stochastic", "space.kind": "auto", "workers": 1}
    described |= {name.replace("__", "."): value for name, value in settings.items()}
    return RunSettings.parse(with_overrides({}, described), "the test")


def images(count: int, side: int, channels: int = 1) -> Dataset:
    data = TensorData(torch.zeros(count, channels, side, side, dtype=torch.uint8), torch.arange(count) % 2, 2)
    return Dataset("images", data, data.subset(range(10)), ("a", "b"))


def chosen_for(data: Dataset, **settings: Any) -> tuple[RunSettings, list[str]]:
    found = suggest_stochastic(asked(**settings), data)
    return with_suggestions(asked(**settings), found.settings), found.reasons


def test_small_images_get_wirings_with_weights_of_their_own() -> None:
    settings, reasons = chosen_for(load("digits"))
    space = settings.space.model_dump()
    assert (space["kind"], space["width"], settings.section(StochasticSettings).own_weights) == ("wired", 16, True)
    assert len(set(space["wirings"])) == settings.section(StochasticSettings).architectures == 5
    assert (settings.train.epochs, settings.train.batch_size) == (60, 64)
    assert settings.retrain.epochs == 60 and settings.retrain.seeds == 1 and not settings.retrain.random_architectures
    assert reasons[0] == (
        "space wired: images of 8 pixels go to three stages of modules whose wiring is drawn, the first of 16 channels"
    )
    assert "60 epochs of 1,151 training examples under 5 wirings" in reasons[1]
    again, _ = chosen_for(load("digits"))
    other, _ = chosen_for(load("digits"), seed=1)
    assert again == settings and other.space.model_dump()["wirings"] != space["wirings"]


@pytest.mark.parametrize(("count", "side"), [(2000, 28), (12_000, 28), (30_000, 32)])
def test_more_data_get_narrower_networks(count: int, side: int) -> None:
    settings, _ = chosen_for(images(count, side))
    assert settings.space.kind == "wired"
    width = settings.space.model_dump()["width"]
    run = Run.build(settings, Workspace(Path("nowhere")), data=images(count, side))
    work = MACs((1, side, side)).score(run.net, drawn_architectures(run)[0]) * len(run.feed.train)
    assert settings.train.epochs == min(max(round(WORK / work), 2), 60)
    assert settings.train.epochs >= FEWEST_EPOCHS or width == WIDTHS[-1]
    if width != WIDTHS[0]:
        wider = WIDTHS[WIDTHS.index(width) - 1]
        net: Any = settings.space.model_copy(update={"width": wider, "wirings": ()})
        net = net.build((1, side, side), 2)
        assert WORK / (MACs((1, side, side)).score(net, residual_wiring(net.space)) * count) < FEWEST_EPOCHS


def test_tiny_images_and_tables_get_a_fully_connected_network() -> None:
    for data in (images(100, 6), load("spirals")):
        settings, reasons = chosen_for(data)
        assert settings.space.kind == "mlp" and not settings.section(StochasticSettings).own_weights
        assert settings.section(StochasticSettings).architectures == 20
        assert "under 20 architectures, one drawn for every example" in reasons[1]


def test_limits_make_the_network_narrower() -> None:
    settings, _ = chosen_for(load("digits"), search__max_params=20_000)
    run = Run.build(settings, Workspace(Path("nowhere")), data=load("digits"))
    assert settings.space.model_dump()["width"] == 4
    assert all(run.net.parameter_count(one) <= 20_000 for one in drawn_architectures(run))


def test_what_was_asked_for_stays() -> None:
    bits = ["0000000000-0000000000", "1000000000-0000000000"]
    wired = {"space__kind": "wired", "space__stages": 2, "space__width": 2}
    settings, _ = chosen_for(load("digits"), **wired, space__wirings=bits, train__epochs=7, train__learning_rate=0.01)
    assert settings.space.model_dump()["wirings"] == tuple(bits)
    assert settings.section(StochasticSettings).architectures == 2
    assert (settings.train.epochs, settings.retrain.epochs, settings.retrain.learning_rate) == (7, 7, 0.01)
    settings, _ = chosen_for(load("digits"), **wired, stochastic__architectures=8, stochastic__edge_probability=0.6)
    wirings = settings.space.model_dump()["wirings"]
    assert len(wirings) == 8 and 0.4 < sum(one.count("1") for one in wirings) / (8 * 20) < 0.8
    settings, _ = chosen_for(load("digits"), **wired, stochastic__own_weights=False)
    assert settings.space.model_dump()["wirings"] == () and settings.section(StochasticSettings).architectures == 20
    settings, _ = chosen_for(load("digits"), space__kind="nb201", space__channels=2, retrain__epochs=3)
    assert not settings.section(StochasticSettings).own_weights and settings.retrain.epochs == 3


def test_examples_without_labels_cost_passes() -> None:
    data = images(3000, 28)
    alone, more = (chosen_for(data, **extra)[0] for extra in ({}, {"data__unlabelled": "nowhere"}))
    assert alone.space == more.space
    assert more.train.epochs == pytest.approx(alone.train.epochs / 3, abs=1) or alone.train.epochs == 60


def planned(run: Run, step: float) -> list[PlannedStage]:
    passes = 1 if run.feed.unlabelled is None else PASSES_UNLABELLED
    return run.method.plan(run, PassTimings(step=step, passes=passes))


def run_of(settings: RunSettings, examples: int, **fields: Any) -> Run:
    """With so many examples for training."""
    data = TensorData(torch.zeros(2 * examples, 2), torch.arange(2 * examples) % 2, 2)
    both = Dataset("points", data, data.subset(range(10)), ("a", "b"))
    settings = settings.changed({"data": {"validation": 0.5}})
    return Run.build(settings, Workspace(Path("nowhere")), data=both, **fields)


def test_minutes_shrink_and_stretch_both_trainings_alike() -> None:
    for minutes in (3, 600):
        given = asked(max_minutes=minutes)
        run = run_of(
            with_suggestions(given, {"space": {"kind": "mlp"}, "train": {"epochs": 60}, "retrain": {"epochs": 60}}),
            6400,
        )

        def with_settings(settings: RunSettings, run: Run = run) -> list[PlannedStage]:
            return planned(replace(run, settings=settings), 0.05)

        changed, reason = fitted(run, with_settings, asked=given, stretch=True)
        assert changed.train.epochs == changed.retrain.epochs != 60
        assert total_seconds(with_settings(changed)) <= 60 * minutes
        assert reason is not None and f"{changed.train.epochs} epochs under many architectures" in reason
    assert changed.train.epochs == 200  # the most


def test_the_plan_counts_both_passes_over_unlabelled_examples() -> None:
    settings = asked(space__kind="mlp", retrain__seeds=1, stochastic__own_weights=False)
    alone, more = (run_of(settings, 640, unlabelled=some) for some in (None, np.zeros((30, 2), np.float32)))
    measured = more.method.measure(more)
    assert isinstance(measured, PassTimings) and measured.passes == PASSES_UNLABELLED
    plans = [planned(run, 0.3) for run in (alone, more)]
    assert [stage.name for stage in plans[1]] == ["train", "retrain", "export"]
    assert plans[1][0].seconds == plans[0][0].seconds
    assert plans[1][1].seconds == pytest.approx(plans[0][1].seconds / 3)
    assert "also on unlabelled examples" in plans[1][0].work
    assert [stage.name for stage in planned(replace(alone, until="train"), 0.3)] == ["train"]
