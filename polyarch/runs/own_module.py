"""A user's own network as a supernet: named on the command line, or handed over in Python."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.errors import ConfigError, InvalidInput, PolyarchError
from polyarch.nn.block_selection import SearchModule
from polyarch.plugins import import_reference
from polyarch.supernets import Supernet, from_module, gate, probe

Builder = Callable[..., nn.Module]
"""Makes a network; its arguments may be ``input_shape`` (of one example) and ``outputs`` (how many numbers the network
returns per example), or ``classes``, their number where classes are predicted, by these names."""


def import_builder(reference: str) -> Builder:
    """The function (or class) that ``package.module:function`` names."""
    builder = import_reference(reference)
    if not callable(builder):
        raise ConfigError(f"Expected {reference!r} to make a network. Got a {type(builder).__name__}.")
    made: Builder = builder
    return made


def build_own(builder: Builder, input_shape: tuple[int, ...], outputs: int, *, gated: bool = False) -> Supernet:
    """The supernet of a user's network for examples of this shape; a dry run finds what cannot work.

    Args:
        gated: whether its choices are channels to keep or drop, see `polyarch.supernets.gate`, instead of its blocks. A
            method ``gate_groups`` of the network may say which modules have gates.
    """
    offered: dict[str, Any] = {"input_shape": input_shape, "outputs": outputs, "classes": outputs}
    taken = inspect.signature(builder).parameters
    model = builder(**{name: value for name, value in offered.items() if name in taken})
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"Expected the module function to return an nn.Module. Got {type(model).__name__}.")
    example = probe(input_shape)
    try:
        net = _gated(model, example) if gated else from_module(model, example)
        network = net.extract(net.space.sample(torch.Generator().manual_seed(0))).eval()
        with torch.no_grad():
            output = network(example)
    except PolyarchError:
        raise
    except Exception as error:  # whatever a user's forward can raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(
            f"Expected the network to take a batch of shape {tuple(example.shape)}. Found: {reason}."
        ) from error
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if shape != (len(example), outputs):
        raise InvalidInput(f"Expected the network to give outputs of shape {(len(example), outputs)}. Got {shape}.")
    return net


def _gated(model: nn.Module, example: Tensor) -> Supernet:
    for name, module in model.named_modules():
        if isinstance(module, SearchModule):
            raise InvalidInput(
                f"Expected a network without OneOf, Repeat and Maybe blocks and elastic layers, whose channels are the "
                f"choices. Got {type(module).__name__} {', '.join(map(repr, module.names))} at {name!r}."
            )
    groups = getattr(model, "gate_groups", dict)
    found = groups() if callable(groups) else groups
    if not isinstance(found, Mapping):
        raise InvalidInput(
            f"Expected gate_groups() of the network to give groups with the names of their modules. "
            f"Got {type(found).__name__}."
        )
    return gate(model, example, groups=found or None)
