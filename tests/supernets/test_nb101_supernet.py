"""The NAS-Bench-1shot1 supernet, and NAS-Bench-101's networks with their published sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.nn import ChoiceBlock
from polyarch.randomness import generator_at
from polyarch.spaces import NB101_OPERATIONS, NB101_PARENTS, Architecture, Space
from polyarch.supernets import NB101Supernet, Supernet
from polyarch.supernets.nb101 import GraphCell, live_feeds
from polyarch.testing import SupernetContract

CONV1, CONV3, POOL = NB101_OPERATIONS
LOOSE = {"node3_parents": "0,1", "node4_parents": "0,2", "output_parents": "0,1"}
"""Only node 1 is left of this cell."""


class TestNB101Supernet(SupernetContract):
    def make_supernet(self) -> Supernet:
        return NB101Supernet(1, channels=3, cells=1, classes=4).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(5, 3, 7, 6, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        draws = super().make_architectures(space)[:2]
        return [draws[0].replace(**LOOSE), *draws]


@pytest.mark.parametrize("space", NB101_PARENTS)
def test_networks_of_all_spaces_are_what_is_extracted(space: int) -> None:
    net = NB101Supernet(space, channels=2, cells=1).double().eval()
    x = torch.randn(2, 3, 6, 6, generator=generator_at(0, "x"), dtype=torch.float64)
    generator = generator_at(0, "space")
    for _ in range(4):
        architecture = net.space.sample(generator)
        extracted = net.extract(architecture)
        assert net.parameter_count(architecture) == sum(weight.numel() for weight in extracted.parameters())
        torch.testing.assert_close(extracted(x), net(x, architecture.one_hot()))


def test_loose_ends_are_not_run() -> None:
    assert live_feeds(((), (0,), (0, 1), (0, 1), (0, 2), (0, 1))) == ({}, {0: None}, {}, {}, {}, {0: None, 1: None})


def test_a_cell_sums_parents_and_puts_them_out_side_by_side() -> None:
    net = NB101Supernet(1, channels=2, cells=1).double().eval()
    options = {"node2_parents": "0,1", "node3_parents": "1,2", "node4_parents": "0,1", "output_parents": "0,3"}
    operations = {f"node{node}_operation": name for node, name in enumerate((CONV3, CONV1, POOL, CONV1), start=1)}
    architecture = net.space.architecture({"node1_parents": "0", **options, **operations})
    cell, x = net.layers[0], torch.rand(2, 2, 5, 5, generator=generator_at(0, "x"), dtype=torch.float64)
    assert isinstance(cell, GraphCell)
    one, two, three, out = (cell.projections[node](x) for node in (0, 1, 2, 4))
    blocks = [block for block in cell.blocks if isinstance(block, ChoiceBlock)]
    first = blocks[0].operation(1)(one)
    second = blocks[1].operation(0)(two + first)
    third = blocks[2].operation(2)(first + second)
    nothing = torch.zeros_like(third)
    expected = torch.cat([out, nothing, nothing, third, nothing], dim=1)
    feeds = live_feeds(((), (0,), (0, 1), (1, 2), (0, 1), (0, 3)))
    torch.testing.assert_close(cell(x, feeds, architecture), expected)
    assert not torch.equal(three, one)  # every node has its own projection


@pytest.mark.parametrize("settings", [{"channels": 0}, {"cells": 0}, {"in_channels": 0}, {"classes": 0}])
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="1 or more"):
        NB101Supernet(1, **settings)
    with pytest.raises(InvalidInput, match="space 1, 2 or 3"):
        NB101Supernet(0)
