"""Guided search against the simple things: networks of equal operations, scores by hand, and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from polyarch.supernets import gate, narrowed
from polyarch_experiments.posterior_guided.equal_operations import (
    EQUAL_OPERATIONS,
    WAYS,
    figures,
    filter_norms,
    judge,
    norm_scales,
    run,
    tables,
)

QUICK = {**EQUAL_OPERATIONS.presets["quick"], "train": 60, "valid": 20, "test": 20, "width": 2}


def chain() -> nn.Sequential:
    """Three filters with norms in the proportion 1 : 3 : 2 and scales 3, 1 and 2."""
    layers = nn.Sequential(nn.Conv2d(1, 3, 1, bias=False), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 2, 1))
    with torch.no_grad():
        layers[0].weight.copy_(torch.tensor([1.0, -3.0, 2.0]).view(3, 1, 1, 1))  # type: ignore[operator]
        layers[1].weight.copy_(torch.tensor([-3.0, 1.0, 2.0]))  # type: ignore[operator]
    return layers


@pytest.mark.parametrize(("scores", "kept"), [(filter_norms, "011"), (norm_scales, "101")])
def test_pruning_keeps_the_channels_with_the_largest_scores(scores: Any, kept: str) -> None:
    net = gate(chain(), torch.randn(2, 1, 4, 4))
    two_thirds = 16 * (2 + 4)
    assert net.notation(narrowed(net, two_thirds, scores).architecture) == kept


def test_channels_that_are_added_up_are_pruned_together() -> None:
    """The stem and the branch have the mean of their scores: of 1 and 3 for one channel, of 2.5 twice for the other."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.branch, self.last = nn.Conv2d(1, 2, 1), nn.Conv2d(2, 2, 1), nn.Conv2d(2, 1, 1)

        def forward(self, x: torch.Tensor) -> Any:
            x = self.stem(x)
            return self.last(x + self.branch(x))

    given = {"stem": torch.tensor([1.0, 2.5]), "branch": torch.tensor([3.0, 2.5])}
    net = gate(Residual(), torch.randn(2, 1, 4, 4))
    found = narrowed(net, 16 * 3, lambda name, module: given.get(name))
    assert net.notation(found.architecture) == "0101"
    assert net.cost(found.architecture).macs == 16 * 3


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"digits seed 0": run(QUICK, ("digits", 0), Path(tmp_path_factory.mktemp("equal")))}


def test_every_way_keeps_the_limit(found: dict[str, Any]) -> None:
    result = found["digits seed 0"]
    for share, networks in result["shares"].items():
        assert set(networks) == {*WAYS, *(f"{way}, distilled" for way in WAYS)}
        for network in networks.values():
            assert 0 < network["cost"]["macs"] <= float(share) * result["whole"]["cost"]["macs"]
        costs = {way: networks[way]["cost"] for way in ("guided", "scratch")}
        assert costs["guided"] == costs["scratch"]


def test_what_is_told_of_it(found: dict[str, Any]) -> None:
    claims = judge(QUICK, found)
    assert [claim.supported for claim in claims] == [None] * 4  # one seed decides nothing
    (table,) = tables(QUICK, found).values()
    assert len(table.rows) == 1 + 2 * 2 * len(WAYS) and all(len(row) == len(table.columns) for row in table.rows)
    assert set(figures(QUICK, found)) == {"equal_operations"}


@pytest.mark.parametrize(("guided", "supported"), [((0.9, 0.9), True), ((0.7, 0.7), False), ((0.9, 0.7), None)])
def test_a_verdict_needs_every_seed(guided: tuple[float, float], supported: bool | None) -> None:
    settings = {**QUICK, "seeds": 2, "shares": [0.5], "distillation": False}
    runs = {
        f"digits seed {seed}": {
            "shares": {"0.5": {way: {"test": {"accuracy": guided[seed] if way == "guided" else 0.8}} for way in WAYS}}
        }
        for seed in range(2)
    }
    assert {claim.supported for claim in judge(settings, runs)} == {supported}
