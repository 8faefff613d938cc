"""Elastic spaces as run descriptions name them: what suits the data, and what old settings mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import polyarch
from polyarch.data import NetworkExample
from polyarch.errors import InvalidInput
from polyarch.nn import ElasticConv2d, ElasticLinear, Sizes
from polyarch.randomness import generator_at
from polyarch.runs.elastic_spaces import MobileSettings, ResNetSettings
from polyarch.runs.networks import to_device
from polyarch.runs.own_module import build_own
from polyarch.runs.settings import RunSettings
from polyarch.runs.spaces import MLPSettings
from polyarch.supernets import ElasticMLPSupernet, MLPSupernet


@pytest.mark.parametrize("settings", [ResNetSettings(), MobileSettings()], ids=lambda settings: settings.kind)
@pytest.mark.parametrize(
    ("shape", "stages"), [((1, 8, 8), 2), ((1, 28, 28), 3), ((3, 32, 32), 3), ((3, 64, 64), 3), ((3, 224, 224), 4)]
)
@pytest.mark.parametrize("outputs", [1, 10])
def test_networks_suit_the_images(
    settings: ResNetSettings | MobileSettings, shape: tuple[int, ...], stages: int, outputs: int
) -> None:
    with torch.device("meta"):
        net = settings.build(shape, outputs).eval()
    assert sum(name.endswith(".depth") for name in net.space.choice_names) == stages
    architecture = net.space.sample(generator_at(0, "architecture"))
    assert net(torch.zeros(2, *shape, device="meta"), architecture).shape == (2, outputs)


def test_what_is_given_counts() -> None:
    net = ResNetSettings(widths=(3, 5), stages=1, kernels=(3,), max_depth=2).build((1, 8, 8), 3)
    assert {choice.name: choice.options for choice in net.space.choices} == {
        "stage1.width": ("3", "5"),
        "stage1.depth": ("1", "2"),
    }


def test_the_space_of_a_run_description() -> None:
    content = {"space": {"kind": "mobile", "expansions": [3], "squeeze": False, "max_depth": 1}}
    space = RunSettings.parse(content, "a test").space
    assert isinstance(space, MobileSettings)
    names = {f"stage{stage}.{choice}" for stage in (1, 2) for choice in ("width", "block1.kernel")}
    assert set(space.build((1, 8, 8), 3).space.choice_names) == names


def test_fully_connected_networks_are_elastic_if_asked_for() -> None:
    assert type(MLPSettings().build((5,), 3)) is MLPSupernet
    net = MLPSettings(elastic=True, width=8, embeddings=("none", "piecewise"), dropouts=(0.0, 0.1)).build((5,), 1)
    assert type(net) is ElasticMLPSupernet
    assert net.space["width"].options == ("2", "4", "8") and net.space["embedding"].options == ("none", "piecewise")
    with pytest.raises(ValueError, match="with elastic = true, and only there"):
        MLPSettings(dropouts=(0.1,))


class Narrow(nn.Sequential):
    """A strided 1x1 convolution of too few channels, once its slice is taken."""

    def __init__(self, width: Sizes, kernel: int | Sizes) -> None:
        padding = 0 if isinstance(kernel, int) else 1
        layers = [ElasticConv2d(3, width, 3, padding=1), ElasticConv2d(width, 4, kernel, stride=2, padding=padding)]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


def test_slices_that_the_processor_cannot_compute_are_refused() -> None:
    for kernel in (1, Sizes("kernel", 1, 3)):
        with pytest.raises(InvalidInput, match="Got 4 in layer"):
            to_device(Narrow(Sizes("width", 4, 32), kernel), torch.device("cpu"))
    to_device(Narrow(Sizes("width", 16, 32), 1), torch.device("cpu"))
    to_device(Narrow(Sizes("width", 4, 32), Sizes("kernel", 3, 5)), torch.device("cpu"))


def test_channels_are_chosen_by_gates_or_by_sizes() -> None:
    model = nn.Sequential(nn.Flatten(), ElasticLinear(16, Sizes("width", 4, 8)), ElasticLinear(4, 2))
    with pytest.raises(InvalidInput, match=r"and elastic layers, whose .* Got ElasticLinear 'width'"):
        build_own(lambda: model, NetworkExample(torch.zeros(2, 1, 4, 4)), 2, gated=True)


TINY = {
    "data.limit": 120, "train.epochs": 1, "retrain.epochs": 1, "retrain.seeds": 1, "retrain.members": 1,
    "retrain.random_architectures": 0, "programs": [], "space.widths": [4, 8], "space.max_depth": 2,
}  # fmt: skip
SEARCH = {"search.budget": 4, "rank.architectures": 3, "rank.supernets": 1, "scores.steps": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [("one-shot", SEARCH), ("darts", {}), ("gdas", {}), ("stochastic", {"stochastic.architectures": 4})],
)
def test_runs_of_every_method_that_chooses_operations(method: str, settings: dict[str, Any], tmp_path: Path) -> None:
    result = polyarch.search(
        "digits", space="resnet", method=method, out=tmp_path, settings={**TINY, **settings}, workers=1, quiet=True
    )
    artifact = result.results.artifact
    assert artifact is not None
    net = ResNetSettings(widths=(4, 8), max_depth=2).build((1, 8, 8), 10)
    assert artifact["parameters"] == net.parameter_count(net.space.architecture(artifact["architecture"]))
