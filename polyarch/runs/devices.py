"""Where networks are computed."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from polyarch.errors import ConfigError, InvalidInput
from polyarch.nn.operations import NARROW

Network = TypeVar("Network", bound=nn.Module)


def device_named(name: str) -> torch.device:
    """The device of this machine that goes by this name."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"Expected a device such as cpu or cuda:0. Got {name!r}.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"Expected a device of this machine. Got {name!r}, but CUDA is not available.")
    return device


def to_device(network: Network, device: torch.device) -> Network:
    """Moves a network; convolutions run faster on channels-last weights, on CPU as on GPU."""
    if device.type == "cpu":
        _refuse_narrow_strides(network)
    return network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _refuse_narrow_strides(network: nn.Module) -> None:
    """Such layers end the process or get wrong gradients: see `polyarch.nn.operations.pointwise`."""
    least = NARROW if "AVX512" in torch.backends.cpu.get_cpu_capability() else NARROW // 2
    for name, layer in network.named_modules():
        if (
            isinstance(layer, nn.Conv2d)
            and (layer.kernel_size, layer.groups) == ((1, 1), 1)
            and layer.stride != (1, 1)
            and 1 < layer.in_channels < least
        ):
            raise InvalidInput(
                f"Expected {least} or more input channels of a 1x1 convolution with a stride on CPU, where torch "
                f"corrupts memory otherwise. Got {layer.in_channels} in layer {name!r}; put nn.AvgPool2d(1, "
                f"stride={layer.stride[0]}) before it and give the convolution stride 1."
            )
