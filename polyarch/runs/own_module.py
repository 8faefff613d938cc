"""A user's own network as a supernet: named on the command line, or handed over in Python."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.data import Inputs, NetworkExample
from polyarch.data.named_inputs import shape_text
from polyarch.errors import ConfigError, InvalidInput, PolyarchError
from polyarch.nn.block_selection import SearchBlock
from polyarch.plugins import import_reference
from polyarch.supernets import Supernet, from_module, gate

Builder = Callable[..., nn.Module]
"""Makes a network.

Its arguments may be, by these names, ``input_shape`` (of one example), ``classes``, ``vocabulary`` (how many different
tokens there are) and ``categories`` (how many indices each categorical column of a table has). With several inputs,
shapes and vocabularies are mappings by the name of the input.
"""

SIZES = ("vocabulary", "categories")


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


def build_own(builder: Builder, example: NetworkExample, classes: int, *, gated: bool = False) -> Supernet:
    """The supernet of a user's network for such examples; a dry run on them finds what cannot work.

    Args:
        gated: whether its choices are channels to keep or drop, see `polyarch.supernets.gate`, instead of its blocks. A
            method ``gate_groups`` of the network may say which modules have gates.
    """
    offered: dict[str, Any] = {"input_shape": example.shape, "classes": classes, **example.sizes}
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
        net = _gated(model, inputs) if gated else from_module(model, inputs)
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
    if shape != (len(inputs), classes):
        raise InvalidInput(f"Expected the network to give logits of shape {(len(inputs), classes)}. Got {shape}.")
    return net


def _gated(model: nn.Module, example: Inputs) -> Supernet:
    for name, module in model.named_modules():
        if isinstance(module, SearchBlock):
            raise InvalidInput(
                f"Expected a network without OneOf, Repeat and Maybe blocks, whose channels are the choices. "
                f"Got block {module.name!r} at {name!r}."
            )
    groups = getattr(model, "gate_groups", dict)
    found = groups() if callable(groups) else groups
    if not isinstance(found, Mapping):
        raise InvalidInput(
            f"Expected gate_groups() of the network to give groups with the names of their modules. "
            f"Got {type(found).__name__}."
        )
    return gate(model, example, groups=found or None)
