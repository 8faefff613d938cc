"""Gates on the channels of a network of one's own: what a layer reads, or a branch gives, channel by channel.

A gate multiplies channels by weights: 1 keeps a channel, 0 drops it. Gates are hooks on the modules, so the code of
the network stays as it is. Their weights come from the supernet call under way, through a context variable: nothing is
stored on a module, and threads do not disturb each other. Outside of any supernet call a gate passes everything on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, cast

from torch import Tensor, fx, nn

from polyarch.errors import InvalidInput
from polyarch.nn.block_selection import OptionWeights, SelectedOptions, marked, noted

Side = Literal["input", "output"]
"""Which channels a gate is on: those that a convolution or linear layer reads, or those that any module gives."""


@dataclass(frozen=True, slots=True)
class ChannelGate:
    """A gate on a module.

    Args:
        name: where the module is found in the network.
        group: gates of one group have one drop probability.
        slices: K, the number of channels.
    """

    name: str
    group: str
    slices: int
    side: Side = "input"


def sliced(module: nn.Module) -> bool:
    """Whether the kernel of a module is made of one slice per input channel: ungrouped convolutions, linear layers.

    A kernel that is made of other parameters, as weight normalisation does, is not.
    """
    convolution = isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) and module.groups == 1
    return (convolution or isinstance(module, nn.Linear)) and "weight" in module._parameters


def install(module: nn.Module, gate: ChannelGate) -> None:
    """Puts a gate on a module; there is one at most."""
    if gate_hooks(module):
        raise InvalidInput(f"Expected {gate.name!r} to have no gate yet. Got one that is gated already.")
    if gate.side == "output":
        module.register_forward_hook(_OutputGate(gate.name))
    else:
        dim = -1 if isinstance(module, nn.Linear) else 1
        module.register_forward_pre_hook(_InputGate(gate.name, dim), with_kwargs=True)


def gate_hooks(module: nn.Module) -> list[tuple[dict[int, Any], int]]:
    """The gates among the hooks of a module: the dictionary and the key of each."""
    places = (module._forward_pre_hooks, module._forward_hooks)
    return [
        (hooks, key) for hooks in places for key, hook in hooks.items() if isinstance(hook, _InputGate | _OutputGate)
    ]


def remove_gates(network: nn.Module) -> None:
    """Takes the gates off all modules of a network."""
    for module in network.modules():
        for hooks, key in gate_hooks(module):
            del hooks[key]
            module._forward_pre_hooks_with_kwargs.pop(key, None)


_kept: ContextVar[SelectedOptions | None] = ContextVar("polyarch_kept", default=None)


@contextmanager
def _keeping(selected: SelectedOptions) -> Iterator[None]:
    token = _kept.set(selected)
    try:
        yield
    finally:
        _kept.reset(token)


def run_gated(model: Callable[[Tensor], Any], x: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """model(x) with gates: name -> weights (K,) for the whole batch, or (B, K) per example.

    A part of the network that is recomputed in the backward pass (activation checkpointing) has the same gates again.
    """
    selected = SelectedOptions(
        {name: OptionWeights(weight, range(weight.shape[-1])) for name, weight in weights.items()}
    )
    with _keeping(selected):
        output = model(x)
    return cast(Tensor, marked(output, selected))


def gated(x: Tensor, name: str, dim: int) -> Tensor:
    """x with its channels, in dimension ``dim``, times the weights that are in force for a gate."""
    selected = _kept.get() or noted(name)
    selection = None if selected is None else selected.selections.get(name)
    if not isinstance(selection, OptionWeights):
        return x
    weights = selection.weights.to(x)
    if weights.shape[-1] != x.shape[dim] or (weights.dim() == 2 and len(weights) != len(x)):
        raise InvalidInput(
            f"Expected {name!r} to be gated on one row per example and one channel per weight. "
            f"Got weights {tuple(weights.shape)} for an input of shape {tuple(x.shape)}."
        )
    shape = [1] * x.dim()
    shape[dim] = weights.shape[-1]
    if weights.dim() == 2:
        shape[0] = len(x)
    return x * weights.view(shape)


def _gated(x: Any, name: str, dim: int) -> Any:
    """`gated`, or a node of the graph that x is a symbol of."""
    if isinstance(x, fx.Proxy):
        return x.tracer.create_proxy("call_function", gated, (x, name, dim), {})
    return gated(x, name, dim)


@dataclass(frozen=True, slots=True)
class _InputGate:
    name: str
    dim: int

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if args:
            return (_gated(args[0], self.name, self.dim), *args[1:]), kwargs
        _, first, *_ = inspect.signature(type(module).forward).parameters
        return (), {**kwargs, first: _gated(kwargs[first], self.name, self.dim)}


@dataclass(frozen=True, slots=True)
class _OutputGate:
    name: str

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        return _gated(output, self.name, 1)
