"""Supernets whose operations see a part of the channels, as settings; networks that are trained alone see them all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from polyarch.data import load
from polyarch.nn import PartialChannels
from polyarch.randomness import generator_at
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, parse_assignments, with_overrides
from polyarch.runs.space_settings import InterChoiceSettings
from polyarch.runs.spaces import CellSettings, DartsSettings, MLPSettings, as_trained_alone
from polyarch.runs.workspace import Workspace


def run_of(*words: str) -> Run:
    base = {"space": {"kind": "nb201"}, "data": {"name": "digits", "limit": 64}, "workers": 1}
    settings = RunSettings.parse(with_overrides(base, parse_assignments(words)), "the test")
    return Run.build(settings, Workspace(Path("nowhere")), data=load("digits"))


@pytest.mark.parametrize(
    "words", [["space.kind=nb201", "space.channels=4"], ["space.kind=darts", "space.layers=3", "space.channels=4"]]
)
def test_networks_that_are_trained_alone_see_all_channels(words: list[str]) -> None:
    partial, plain = run_of(*words, "space.partial=2"), run_of(*words)
    assert any(isinstance(module, PartialChannels) for module in partial.net.modules())
    architecture = partial.net.space.sample(generator_at(0, "architecture"))
    alone, expected = (run.networks.fresh(architecture, seed=3) for run in (partial, plain))
    torch.testing.assert_close(alone.state_dict(), expected.state_dict(), rtol=0, atol=0)


def test_what_networks_have_that_are_trained_alone() -> None:
    shared = CellSettings(interchoice=InterChoiceSettings(kind="bias"), pool_convolution=True)
    assert as_trained_alone(shared) == CellSettings(affine=True)
    assert as_trained_alone(CellSettings(partial=4, cells=2)) == CellSettings(cells=2, affine=True)
    assert as_trained_alone(DartsSettings(partial=4)) == DartsSettings(affine=True)
    assert as_trained_alone(MLPSettings()) == MLPSettings()
