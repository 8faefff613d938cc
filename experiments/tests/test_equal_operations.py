"""Guided search against the simple things: networks of equal operations, scores by hand, and verdicts."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from polyarch.nn import multiply_accumulates
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import gate, narrowed
from polyarch_experiments.images import Images
from polyarch_experiments.posterior_guided.constant_decay import CONSTANT_DECAY
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
from polyarch_experiments.posterior_guided.gated_networks import build, of_family

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


@pytest.mark.parametrize("kind", ["l1", "scales"])
def test_pruning_is_that_of_torch_pruning(kind: str) -> None:
    """Global pruning of 40 % of the channels: as many operations give the same network."""
    pruning = pytest.importorskip("torch_pruning")
    with global_seed(0, "pruned"):
        layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.BatchNorm2d(12)]
        model = nn.Sequential(*layers, nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 4)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(0.3 * torch.rand(parameter.shape, generator=generator_at(0, name)))
    x, theirs = torch.randn(2, 3, 8, 8, generator=generator_at(0, "images")), copy.deepcopy(model)
    scores = {
        "l1": (filter_norms, pruning.importance.GroupMagnitudeImportance(p=1, group_reduction="first")),
        "scales": (norm_scales, pruning.importance.BNScaleImportance(normalizer=None)),
    }
    ours, importance = scores[kind]
    pruning.pruner.MagnitudePruner(
        theirs, x, importance, pruning_ratio=0.4, global_pruning=True, ignored_layers=[theirs[-1]]
    ).step()
    net = gate(model, x)
    network = net.extract(narrowed(net, multiply_accumulates(theirs, x), ours).architecture)
    shapes = [[tuple(parameter.shape) for parameter in one.parameters()] for one in (network, theirs, model)]
    assert shapes[0] == shapes[1] != shapes[2]
    with torch.no_grad():
        torch.testing.assert_close(network(x), theirs(x))


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
    assert [claim.supported for claim in claims] == [None] * 8  # one seed decides nothing
    (table,) = tables(QUICK, found).values()
    assert len(table.rows) == 1 + 2 * 2 * len(WAYS) and all(len(row) == len(table.columns) for row in table.rows)
    assert set(figures(QUICK, found)) == {"equal_operations"}


@pytest.mark.parametrize(("guided", "supported"), [((0.9, 0.9), True), ((0.7, 0.7), False), ((0.9, 0.7), None)])
def test_a_verdict_comes_from_the_interval(guided: tuple[float, float], supported: bool | None) -> None:
    settings = {
        **QUICK, "data": ["digits", "mnist"], "seeds": 2, "shares": [0.25, 0.5], "epochs": 40, "distillation": False
    }  # fmt: skip
    runs = made_up(settings, guided)
    assert {claim.supported for claim in judge(settings, runs)} == {supported}
    short = judge({**settings, "epochs": 8}, runs)  # decides nothing against guided search
    assert {claim.supported for claim in short} == {supported or None}
    del runs["mnist seed 1"]  # then only the first seed counts
    claims = judge(settings, runs)
    assert {claim.supported for claim in claims} == {None}
    assert claims[0].findings[0].value == pytest.approx(100 * (0.8 - guided[0]))


def made_up(settings: dict[str, Any], guided: tuple[float, float]) -> dict[str, Any]:
    """Everyone has an accuracy of 0.8, apart from guided search."""
    return {
        f"{data} seed {seed}": {
            "shares": {
                f"{share:g}": {way: {"test": {"accuracy": guided[seed] if way == "guided" else 0.8}} for way in WAYS}
                for share in settings["shares"]
            }
        }
        for data in settings["data"]
        for seed in range(2)
    }


@pytest.mark.slow
def test_a_constant_decay_at_equal_size(tmp_path: Path) -> None:
    """Both keep the limit; the terms differ, so that what they learn does."""
    settings = {**CONSTANT_DECAY.presets["quick"], "train": 60, "valid": 20, "test": 20, "width": 3, "candidates": 2}
    runs = {
        name: CONSTANT_DECAY.task(settings, item, tmp_path) for name, item in CONSTANT_DECAY.items(settings).items()
    }
    prior, constant = runs.values()
    assert prior["keep_rate"] != constant["keep_rate"]
    net = build(of_family(settings, "M"), "M", Images.of(settings, "digits", 0), 0)
    whole = net.cost(net.whole()).macs
    assert max(run["cost"]["macs"] for run in runs.values()) <= settings["share"] * whole
    (claim,) = CONSTANT_DECAY.judge(settings, runs)
    assert claim.supported is None and len(CONSTANT_DECAY.tables(settings, runs)) == 1
