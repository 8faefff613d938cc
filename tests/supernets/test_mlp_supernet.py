"""Depth and widths are counted and told apart as they are used."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from polyarch.errors import InvalidInput
from polyarch.supernets import MLPSupernet


def test_parameters_are_those_of_the_used_blocks() -> None:
    """width w, inner h: a block has 2w + (w h + h) + 2h + (h w + w) weights."""
    net = MLPSupernet(features=4, classes=3, width=5, max_depth=2, inner_widths=(2, 3))
    fixed = (4 * 5 + 5) + 2 * 5 + (5 * 3 + 3)
    narrow, wide = (2 * 5 + 5 * h + h + 2 * h + h * 5 + 5 for h in (2, 3))
    assert net.parameter_count(net.space.architecture(["1", "h2", "h3"])) == fixed + narrow
    assert net.parameter_count(net.space.architecture(["2", "h2", "h3"])) == fixed + narrow + wide


def test_every_network_has_one_canonical_key() -> None:
    net = MLPSupernet(features=4, classes=3, width=5, max_depth=3, inner_widths=(2, 3))
    keys = {architecture.canonical() for architecture in net.space.enumerate()}
    assert len(keys) == 2 + 4 + 8
    x = torch.randn(6, 4)
    outputs: dict[str, torch.Tensor] = {}
    for architecture in net.space.enumerate():
        output = net.eval()(x, architecture)
        torch.testing.assert_close(output, outputs.setdefault(architecture.canonical(), output))


@pytest.mark.parametrize("options", [{"features": 0}, {"classes": 0}, {"max_depth": 0}, {"inner_widths": (0,)}])
def test_impossible_sizes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="Expected 1 or more features"):
        MLPSupernet(**{"features": 3, "classes": 2, **options})
