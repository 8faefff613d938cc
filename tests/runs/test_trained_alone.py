"""Networks that are trained alone have the cells of the benchmarks, whatever the supernet's cells are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.spaces import parse_nb201

CONVOLUTIONS = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|nor_conv_3x3~0|nor_conv_3x3~1|nor_conv_3x3~2|"
POOLINGS = CONVOLUTIONS.replace("nor_conv_3x3", "avg_pool_3x3")
CELLS = {"kind": "nb201", "channels": 4, "cells": 1}


def run_of(space: dict[str, Any], **search: int) -> Run:
    content = {"data": {"name": "digits", "limit": 40}, "space": space, "search": search, "workers": 1}
    return Run.build(RunSettings.parse(content, "the test"), Workspace(Path("nowhere")))


def norms(network: nn.Module) -> list[nn.BatchNorm2d]:
    return [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]


def size(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_every_normalisation_layer_has_scale_and_shift() -> None:
    """Of 24, the 18 inside of cells have none in the supernet."""
    run = run_of(CELLS)
    cell = parse_nb201(CONVOLUTIONS, run.net.space)
    assert [layer.affine for layer in norms(run.networks.fresh(cell, seed=0))] == [True] * 24
    assert sum(not layer.affine for layer in norms(run.net.extract(cell))) == 18


def test_as_many_parameters_as_in_the_benchmark() -> None:
    """With 16 channels and 5 cells per stage; images have one channel here, where the benchmark's have three."""
    run = run_of({"kind": "nb201", "channels": 16, "cells": 5})
    network = run.networks.fresh(parse_nb201(CONVOLUTIONS, run.net.space), seed=0)
    assert size(network) == 1_531_546 - 2 * 16 * 9  # params_cifar10 of this cell in the table


def test_poolings_have_no_convolution() -> None:
    run = run_of({**CELLS, "pool_convolution": True})
    cell = parse_nb201(POOLINGS, run.net.space)
    assert len(norms(run.net.extract(cell))) == 24
    assert len(norms(run.networks.fresh(cell, seed=0))) == 6


def test_darts_cells_are_those_of_the_evaluation_network() -> None:
    run = run_of({"kind": "darts", "layers": 3, "channels": 4, "operations": ["max_pool_3x3", "sep_conv_3x3"]})
    cell = next(iter(run.draw(1, "test")))
    assert all(layer.affine for layer in norms(run.networks.fresh(cell, seed=0)))
    assert not all(layer.affine for layer in norms(run.net.extract(cell)))


@pytest.mark.parametrize("space", [CELLS, {**CELLS, "partial": 2}], ids=["whole", "partial"])
def test_limits_hold_for_what_is_delivered(space: dict[str, Any]) -> None:
    """Not for the smaller network that the supernet trains."""
    run = run_of(space)
    cell = parse_nb201(CONVOLUTIONS, run.net.space)
    delivered = size(run.networks.fresh(cell, seed=0))
    assert run.alone.parameter_count(cell) == delivered > run.net.parameter_count(cell)
    assert run_of(space, max_params=delivered).limits.allows(cell)
    assert not run_of(space, max_params=delivered - 1).limits.allows(cell)
    assert not run_of(space, max_params=delivered - 1).counted_limits.allows(cell)
