"""Some channels of images: both ways give the same, and one can stand in place of the other."""

from __future__ import annotations

import torch
from torch import nn

from polyarch.distributions import KeepDrop
from polyarch.networks import MultiBranchResNet
from polyarch.nn.channel_selection import select_channels, select_planes, with_planes
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import gate

IMAGES = torch.randn(3, 6, 4, 5, generator=generator_at(0, "images"))
POSITIONS = torch.tensor([4, 0, 3])


def test_both_are_selections() -> None:
    for images in (IMAGES, IMAGES.contiguous(memory_format=torch.channels_last)):
        for select in (select_channels, select_planes):
            assert select(images, POSITIONS).equal(images[:, POSITIONS])


def test_channels_last_stays_channels_last() -> None:
    images = IMAGES.contiguous(memory_format=torch.channels_last)
    assert select_channels(images, POSITIONS).is_contiguous(memory_format=torch.channels_last)


def test_one_in_place_of_the_other() -> None:
    with global_seed(0, "network"):
        model = MultiBranchResNet(width=3, stages=2, kernels=(1, 3), stem_channels=4)
    net = gate(model, torch.zeros(2, 3, 6, 6), groups=model.gate_groups()).eval()
    (architecture,) = KeepDrop(net.space, net.groups, drop=0.4).sample(1, generator=generator_at(0, "draw"))
    x = torch.randn(4, 3, 6, 6, generator=generator_at(0, "x"))
    network = net.extract(architecture)
    expected = network(x)
    assert "permute" in _code(network)
    changed = with_planes(nn.ModuleList([network]))[0]  # type: ignore[index]
    assert "permute" not in _code(changed) and "index_select" in _code(changed)
    assert changed(x).equal(expected)


def _code(network: nn.Module) -> str:
    code: str = network.code  # type: ignore[assignment]
    return code
