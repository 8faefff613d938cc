"""What makes the networks of a run, and where they are computed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import nn

from polyarch.data import NetworkExample
from polyarch.errors import ConfigError, InvalidInput
from polyarch.nn import ElasticConv2d
from polyarch.nn.operations import NARROW
from polyarch.randomness import global_seed
from polyarch.runs.own_module import Builder, build_own
from polyarch.runs.space_settings import SpaceSettings
from polyarch.runs.spaces import as_trained_alone
from polyarch.spaces import Architecture
from polyarch.supernets import DartsSupernet, ElasticSupernet, Supernet, taught_network
from polyarch.tasks import Task

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
        if not isinstance(layer, nn.Conv2d) or layer.groups > 1 or layer.stride == (1, 1):
            continue
        kernel, inputs = max(layer.kernel_size), layer.in_channels
        if isinstance(layer, ElasticConv2d):
            kernel, inputs = layer.kernels[-1], min(layer.inputs.table)
        if kernel == 1 < inputs < least:
            raise InvalidInput(
                f"Expected {least} or more input channels of a 1x1 convolution with a stride on CPU, where torch "
                f"corrupts memory otherwise. Got {inputs} in layer {name!r}; put nn.AvgPool2d(1, "
                f"stride={layer.stride[0]}) before it and give the convolution stride 1."
            )


def _made(space: SpaceSettings, example: NetworkExample, task: Task) -> Supernet:
    """A supernet of the space with fresh weights that suit the task."""
    net = space.build_on(example, task.outputs)
    net.mix_by(task.mix_members)
    if task.starts_at_zero:
        net.start_at_zero()
    return net


def initialise(network: nn.Module) -> None:
    """Draws the weights of all layers anew: slices of the weights of a larger network are too small for this one."""
    for layer in network.modules():
        reset = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()


@dataclass(frozen=True)
class Networks:
    """Makes networks on a device.

    Args:
        make: a supernet with weights from torch's global generator.
        make_plain: the supernet from which networks are extracted that are trained alone, see `as_trained_alone`.
    """

    make: Callable[[], Supernet]
    make_plain: Callable[[], Supernet]
    device: str

    @classmethod
    def of(
        cls, space: SpaceSettings, builder: Builder | None, example: NetworkExample, task: Task, device: str
    ) -> "Networks":
        """Those of a space or, with a ``builder``, of the user's own network."""
        device_named(device)
        if builder is not None:
            own = partial(build_own, builder, example, task.outputs, gated=getattr(space, "gated", False))
            return cls(own, own, device)
        make, alone = partial(_made, space, example, task), as_trained_alone(space)
        return cls(make, make if alone == space else partial(_made, alone, example, task), device)

    def supernet(self, seed: int) -> Supernet:
        """A supernet with fresh weights from the seed."""
        with global_seed(seed, "supernet"):
            return to_device(self.make(), device_named(self.device))

    def plain(self) -> Supernet | None:
        """The supernet of networks that are trained alone; None if it is the one that is searched."""
        if self.make_plain is self.make:
            return None
        with global_seed(0, "plain"):
            return to_device(self.make_plain(), device_named(self.device))

    def fresh(self, architecture: Architecture, *, seed: int) -> nn.Module:
        """One architecture with fresh weights from the seed."""
        with global_seed(seed, "initialise"):
            net = self.make_plain()
            network = net.extract(architecture)
            if isinstance(net, ElasticSupernet):
                initialise(network)
        return to_device(network, device_named(self.device))

    def taught(self, architecture: Architecture, *, seed: int) -> tuple[nn.Module, nn.Module]:
        """The same network and how it is trained by an evaluation, which share their weights; see `taught_network`."""
        with global_seed(seed, "initialise"):
            net = self.make_plain()
            assert isinstance(net, DartsSupernet)  # other spaces have no evaluation
            network, taught = taught_network(net, architecture)
        device = device_named(self.device)
        return to_device(network, device), to_device(taught, device)
