"""Gates on the channels of a user's network: on the inputs of a layer or the outputs of a branch.

A gate multiplies channels by weights: 1 keeps a channel, 0 drops it. Gates are hooks, so the network's code does not
change. The current supernet call passes their weights through a context variable: modules hold no state, and threads do
not interfere. Outside a supernet call gates do nothing.
"""

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, cast

from torch import Tensor, fx, nn

from polyarch.data.named_inputs import Inputs
from polyarch.errors import InvalidInput
from polyarch.nn.block_selection import OptionWeights, SelectedOptions, marked, noted

Side = Literal["input", "output"]
"""Which channels a gate is on: the inputs of a convolution or linear layer, or the outputs of any module."""


@dataclass(frozen=True, slots=True)
class ChannelGate:
    """A gate on a module."""

    name: str  # the dotted name of the module in the network
    group: str  # gates of a group share one drop probability
    slices: int  # K, the number of channels
    side: Side = "input"


CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def depthwise(module: nn.Module) -> bool:
    """Whether a module is a convolution of each channel by itself."""
    return isinstance(module, CONVOLUTIONS) and module.groups == module.in_channels == module.out_channels


def sliced(module: nn.Module) -> bool:
    """Whether a module is a convolution, transposed or not, or a linear layer, with a slice per input channel.

    Depthwise convolutions, whose slices read one channel and make one, do not count, nor do kernels that are computed
    from other parameters, as in weight normalisation.
    """
    convolution = isinstance(module, CONVOLUTIONS) and (module.groups == 1 or module.groups < module.in_channels)
    transposed = isinstance(module, TRANSPOSED) and module.groups == 1
    return (convolution or transposed or isinstance(module, nn.Linear)) and "weight" in module._parameters


def slice_count(module: nn.Module) -> int:
    """The number of slices of a sliced module, that of its input channels."""
    return int(module.in_features if isinstance(module, nn.Linear) else module.in_channels)  # type: ignore[arg-type]


def install(module: nn.Module, gate: ChannelGate) -> None:
    """Puts a gate on a module that has none yet."""
    if gate_hooks(module):
        raise InvalidInput(f"Expected {gate.name!r} to have no gate yet. Got a gated module.")
    if gate.side == "output":
        module.register_forward_hook(_OutputGate(gate.name))
    else:
        dim = -1 if isinstance(module, nn.Linear) else 1
        module.register_forward_pre_hook(_InputGate(gate.name, dim), with_kwargs=True)


def gate_hooks(module: nn.Module) -> list[tuple[dict[int, Any], int]]:
    """The gates among the hooks of a module, each as its dictionary and key."""
    places = (module._forward_pre_hooks, module._forward_hooks)
    return [
        (hooks, key) for hooks in places for key, hook in hooks.items() if isinstance(hook, _InputGate | _OutputGate)
    ]


def remove_gates(network: nn.Module) -> None:
    """Removes the gates from all modules of a network."""
    for module in network.modules():
        for hooks, key in gate_hooks(module):
            del hooks[key]
            module._forward_pre_hooks_with_kwargs.pop(key, None)


_kept: ContextVar[SelectedOptions | None] = ContextVar("polyarch_kept", default=None)


def run_gated(model: Callable[[Any], Any], x: Inputs, weights: Mapping[str, Tensor]) -> Tensor:
    """model(x) with gates: name -> weights (K,) for the whole batch, or (B, K) per example.

    Activation checkpointing, which recomputes parts of the network in the backward pass, uses the same gates again.
    """
    selected = SelectedOptions(
        {name: OptionWeights(weight, range(weight.shape[-1])) for name, weight in weights.items()}
    )
    token = _kept.set(selected)
    try:
        output = model(x)
    finally:
        _kept.reset(token)
    return cast(Tensor, marked(output, selected))


def gated(x: Tensor, name: str, dim: int) -> Tensor:
    """Multiplies the channels of x, in dimension ``dim``, by the current weights of a gate."""
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
    """`gated(x)`, recorded as a node if x is a symbol."""
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
