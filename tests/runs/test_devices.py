"""Where networks are computed, and layers that torch computes wrongly there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from polyarch.errors import ConfigError, InvalidInput
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.networks import device_named, to_device
from polyarch.supernets import DartsSupernet, MacroSupernet, Supernet

CPU = torch.device("cpu")


def test_unknown_devices_are_one_sentence() -> None:
    assert device_named("cpu") == CPU
    with pytest.raises(ConfigError, match="Expected a device such as cpu"):
        device_named("gpu7")


@pytest.mark.parametrize(("capability", "least"), [("AVX2", 8), ("AVX512", 16)])
def test_narrow_strided_convolutions_are_refused(capability: str, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    to_device(nn.Conv2d(least, 2, 1, stride=2), CPU)
    for harmless in (nn.Conv2d(4, 2, 1), nn.Conv2d(4, 2, 3, stride=2), nn.Conv2d(4, 4, 1, stride=2, groups=4)):
        to_device(harmless, CPU)
    network = nn.Sequential()
    network.add_module("shortcut", nn.Conv2d(least - 1, 2, 1, stride=2))
    with pytest.raises(
        InvalidInput, match=f"Expected {least} or more .* Got {least - 1} in layer 'shortcut'"
    ) as caught:
        to_device(network, CPU)
    assert "nn.AvgPool2d(1, stride=2)" in str(caught.value)


def macro() -> Supernet:
    return MacroSupernet(channels=4, head_channels=8, classes=3)


def darts() -> Supernet:
    return DartsSupernet(layers=3, channels=2, classes=3)


@pytest.mark.parametrize("make", [macro, darts])
def test_narrow_supernets_have_the_gradients_of_the_plain_layout(make: Callable[[], Supernet]) -> None:
    """In channels-last float32 as in contiguous float64; those of the strided layers were wrong by half and more."""
    with global_seed(0, "weights"):
        net = make()
    x = torch.randn(8, 3, 16, 16, generator=generator_at(0, "x"))
    architecture = net.space.sample(generator_at(0, "architecture"))
    found = []
    for layout, dtype in ((torch.contiguous_format, torch.float64), (torch.channels_last, torch.float32)):
        own = net.extract(architecture).to(dtype)
        own = to_device(own, CPU) if layout is torch.channels_last else own
        own(x.to(dtype).contiguous(memory_format=layout)).square().sum().backward()
        found.append([weight.grad.double() for weight in own.parameters() if weight.grad is not None])
    for exact, single in zip(*found, strict=True):
        torch.testing.assert_close(single, exact, rtol=0.0, atol=0.05 * float(exact.abs().max()) + 1e-4)
