"""The chain supernet: published size, shared prefixes, skips."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.supernets import ChainSupernet, fairnas_chain


def small() -> ChainSupernet:
    return ChainSupernet(channels=(4, 4, 6), kernels=(3, 5), expansions=(1,), stem_channels=4, head_channels=8)


def test_literature_supernet_has_the_published_size() -> None:
    with torch.device("meta"):
        net = fairnas_chain(classes=100)
    assert sum(parameter.numel() for parameter in net.parameters()) == 14_839_700
    assert [len(choice) for choice in net.space.choices] == [6] * 19


def test_only_shape_preserving_layers_can_be_skipped() -> None:
    options = [choice.options for choice in small().space.choices]
    assert options == [("k3e1", "k5e1", "skip"), ("k3e1", "k5e1", "skip"), ("k3e1", "k5e1")]
    strided = ChainSupernet(channels=(4, 4), strides=(2, 1), stem_channels=4, kernels=(3,), expansions=(1,))
    assert [choice.options for choice in strided.space.choices] == [("k3e1",), ("k3e1", "skip")]
    assert all("skip" not in c.options for c in ChainSupernet(channels=(16, 16), skip=False).space.choices)


def test_a_skipped_layer_passes_its_input_on() -> None:
    net = small().eval()
    x = torch.randn(2, 3, 6, 6, generator=generator_at(0, "images"))
    architecture = net.space.architecture(("skip", "skip", "k5e1"))
    expected = net.head(net.layers[2](net.stem(x), 1))
    torch.testing.assert_close(net(x, architecture), expected)


def test_shared_prefixes_are_computed_once() -> None:
    net = small()
    calls: list[int] = []
    for position, layer in enumerate(net.layers):
        layer.register_forward_hook(lambda *_, position=position: calls.append(position))
    architectures = [
        net.space.architecture(names)
        for names in [("k3e1", "k3e1", "k3e1"), ("k3e1", "k3e1", "k5e1"), ("k3e1", "skip", "k3e1")]
    ]
    net.forward_many(torch.randn(4, 3, 6, 6, generator=generator_at(0, "images")), architectures)
    assert calls == [0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": ()}, "one stride per layer"),
        ({"channels": (4, 4), "strides": (1,)}, "2 layers, 1 strides"),
        ({"kernels": ()}, "at least one kernel"),
        ({"expansions": ()}, "at least one kernel"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ChainSupernet(**settings)
