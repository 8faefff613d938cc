"""Where networks are computed."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from polyarch.errors import ConfigError

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
    return network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
