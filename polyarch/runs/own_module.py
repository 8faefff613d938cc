"""A user's own network or supernet: named on the command line, or handed over in Python."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from polyarch.data import Inputs, NetworkExample
from polyarch.data.named_inputs import shape_text
from polyarch.errors import ConfigError, InvalidInput, PolyarchError, first_line
from polyarch.nn.block_selection import SearchModule
from polyarch.plugins import import_reference
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Space
from polyarch.supernets import Supernet, from_module, gate
from polyarch.supernets.supernet import evaluating

Builder = Callable[..., nn.Module]
"""Makes a network or a `Supernet`.

Its arguments may be, by these names, ``input_shape`` (of one example), ``outputs`` (how many numbers the network gives
per example) or ``classes`` (their number where classes are predicted), ``vocabulary`` (how many different tokens there
are) and ``categories`` (how many indices each categorical column of a table has). With several inputs, shapes and
vocabularies are mappings by the name of the input.
"""

SIZES = ("vocabulary", "categories")

TRIED = 3
"""Architectures of a user's supernet that the dry run extracts."""


def import_builder(reference: str) -> Builder:
    """The function (or class) that ``package.module:function`` names."""
    builder = import_reference(reference)
    if not callable(builder):
        raise ConfigError(f"Expected {reference!r} to make a network. Got a {type(builder).__name__}.")
    made: Builder = builder
    return made


def asks_for_indices(builder: Builder) -> bool:
    """Whether a user's network reads the categories of a table as indices, instead of one-hot encoded.

    Its function says so by the argument ``categories``; a network itself by ``forward(self, numeric, categorical)``.
    """
    is_class = isinstance(builder, type) and issubclass(builder, nn.Module)
    network = builder if is_class else getattr(builder, "module", None)
    if is_class or isinstance(network, nn.Module):
        arguments = inspect.signature(network.forward).parameters  # type: ignore[union-attr]
        if {"numeric", "categorical"} <= arguments.keys():
            return True
    return "categories" in inspect.signature(builder).parameters


def build_own(builder: Builder, example: NetworkExample, outputs: int, *, gated: bool = False) -> Supernet:
    """The supernet of a user's network for such examples; a dry run on them finds what cannot work.

    A user's own supernet is taken as it is.

    Args:
        gated: whether its choices are channels to keep or drop, see `polyarch.supernets.gate`, instead of its blocks. A
            method ``gate_groups`` of the network may say which modules have gates.
    """
    offered: dict[str, Any] = {"input_shape": example.shape, "outputs": outputs, "classes": outputs, **example.sizes}
    taken = inspect.signature(builder).parameters
    for name in SIZES:
        if name in taken and name not in offered and taken[name].default is inspect.Parameter.empty:
            what = "tokens" if name == "vocabulary" else "a table"
            raise InvalidInput(f"Expected {what} for a network that asks for {name}. Got other data.")
    model = builder(**{name: value for name, value in offered.items() if name in taken})
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"Expected the module function to return an nn.Module. Got {type(model).__name__}.")
    inputs = example.inputs
    try:
        net = _supernet(model, inputs, gated=gated)
        network = net.extract(net.space.sample(torch.Generator().manual_seed(0))).eval()
        with torch.no_grad():
            output = network(inputs)
    except PolyarchError:
        raise
    except Exception as error:  # whatever a user's forward can raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(
            f"Expected the network to take a batch of shape {shape_text(inputs)}. Found: {reason}."
        ) from error
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if shape != (len(inputs), outputs):
        raise InvalidInput(f"Expected the network to give outputs of shape {(len(inputs), outputs)}. Got {shape}.")
    return net


def _supernet(model: nn.Module, example: Inputs, *, gated: bool) -> Supernet:
    if not isinstance(model, Supernet):
        return _gated(model, example) if gated else from_module(model, example)
    if gated:
        raise InvalidInput(f"Expected a plain network, whose channels are the choices. Got {type(model).__name__}.")
    _try(model, example)
    return model


def _try(net: Supernet, example: Inputs) -> None:
    """Requires a user's supernet to agree with what is extracted from it, and with its gates if it takes any."""
    name = type(net).__name__
    if not isinstance(getattr(net, "space", None), Space):
        raise InvalidInput(f"Expected {name} to pass its space to Supernet.__init__. Got none.")
    for layer, parameter in net.named_parameters():
        if is_lazy(parameter):
            raise InvalidInput(f"Expected the layers of {name} to have their sizes. Got the lazy parameter {layer!r}.")
    with evaluating(net):
        for position in range(TRIED):
            architecture = net.space.sample(generator_at(0, "dry run", position))
            expected = net(example, architecture)
            _require_same(net.extract(architecture).eval()(example), expected, f"what {name} extracts", architecture)
        if not net.takes_gates:
            return
        try:
            mixed = net(example, architecture.one_hot())
        except Exception as error:  # whatever a user's forward raises
            raise InvalidInput(
                f"Expected {name} to mix options by gates, or to say takes_gates = False. "
                f"Got {type(error).__name__}: {first_line(error)}."
            ) from error
        _require_same(mixed, expected, f"{name} with one-hot gates", architecture)


def _require_same(found: object, expected: object, what: str, architecture: Architecture) -> None:
    if not (isinstance(found, Tensor) and isinstance(expected, Tensor) and found.shape == expected.shape):
        raise InvalidInput(f"Expected {what} to return a tensor of the same shape for {architecture}. Got another.")
    if not torch.allclose(found, expected, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise InvalidInput(
            f"Expected {what} to compute the same as the supernet for {architecture}. "
            f"Got outputs that differ by up to {float((found - expected).abs().max()):.2g}."
        )


def _gated(model: nn.Module, example: Inputs) -> Supernet:
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
