"""What makes the networks of a run: supernets, and single architectures with fresh weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from polyarch.randomness import global_seed
from polyarch.runs.devices import device_named, to_device
from polyarch.runs.own_module import Builder, build_own
from polyarch.runs.spaces import SpaceSettings, as_trained_alone
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


@dataclass(frozen=True)
class Networks:
    """Makes networks on a device.

    Args:
        make: a supernet with weights from torch's global generator.
        make_plain: the same without inter-choice weights, which networks that are trained alone do not have.
    """

    make: Callable[[], Supernet]
    make_plain: Callable[[], Supernet]
    device: str

    @classmethod
    def of(
        cls, space: SpaceSettings, builder: Builder | None, input_shape: tuple[int, ...], classes: int, device: str
    ) -> Networks:
        """Those of a space or, with a ``builder``, of the user's own network."""
        device_named(device)
        if builder is not None:
            own = partial(build_own, builder, input_shape, classes, gated=getattr(space, "gated", False))
            return cls(own, own, device)
        plain = as_trained_alone(space)
        return cls(partial(space.build, input_shape, classes), partial(plain.build, input_shape, classes), device)

    def supernet(self, seed: int) -> Supernet:
        """A supernet with fresh weights from the seed."""
        with global_seed(seed, "supernet"):
            return to_device(self.make(), device_named(self.device))

    def fresh(self, architecture: Architecture, *, seed: int) -> nn.Module:
        """One architecture with fresh weights from the seed."""
        with global_seed(seed, "initialise"):
            network = self.make_plain().extract(architecture)
        return to_device(network, device_named(self.device))
