"""The NAS-Bench-Macro supernet: its layers, and the contract."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Space, parse_macro
from polyarch.supernets import MacroSupernet, Supernet
from polyarch.supernets.chain import ChainLayer
from polyarch.testing import SupernetContract


class TestMacroSupernet(SupernetContract):
    def make_supernet(self) -> Supernet:
        return MacroSupernet(channels=2, head_channels=6, in_channels=1, classes=3).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(5, 1, 9, 7, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return [parse_macro(text, space) for text in ("00000000", "11111111", "20120102")]


def test_identities_compute_only_where_shapes_change() -> None:
    net = MacroSupernet(channels=2, head_channels=4).eval()
    x = torch.randn(2, 3, 16, 16, generator=generator_at(0, "x"))
    expected = net.stem(x)
    shapes = []
    for position in (0, 2, 5):
        layer = net.layers[position]
        assert isinstance(layer, ChainLayer)
        expected = layer.block.operation(0)(expected)
        shapes.append(tuple(expected.shape[1:]))
    assert shapes == [(4, 8, 8), (8, 4, 4), (16, 2, 2)]
    torch.testing.assert_close(net(x, parse_macro("00000000", net.space)), net.head(expected))


@pytest.mark.parametrize("settings", [{"channels": 0}, {"head_channels": 0}, {"in_channels": 0}, {"classes": 0}])
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="1 or more"):
        MacroSupernet(**settings)
