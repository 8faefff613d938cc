"""Records a path through a network as a plain ``torch.fx`` graph by running it on a symbol.

``torch.fx.symbolic_trace`` patches ``nn.Module.__call__`` for the whole process, which breaks other threads. Here,
blocks call their torch modules through `call`, which runs them on tensors and records them on symbols, so that the
same code serves as forward pass and extraction."""

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import GraphAppendingTracer
from torch.utils.flop_counter import FlopCounterMode

from polyarch.data.named_inputs import Inputs, NamedInputs, cycled, mapped
from polyarch.errors import InvalidInput

Path = Callable[[Tensor], Tensor]
"""A function that calls some modules of a network through `call`: (B, ...) -> (B, ...), or several stacked."""


def call(module: nn.Module, x: Tensor, *, known_as: nn.Module | None = None) -> Tensor:
    """module(x), or a new node of the graph if x is one of our symbols; (B, ...) -> (B, ...).

    Args:
        known_as: a module of the network with the same structure, under whose name the module is recorded.
    """
    value: Any = x  # blocks are typed for tensors, but symbols pass through the same code
    if isinstance(value, fx.Proxy) and isinstance(value.tracer, _Recorder):
        value = value.tracer.record(module, known_as or module, value)
    else:
        value = module(value)
    return cast(Tensor, value)


def constant(value: Tensor, x: Tensor, *, owner: nn.Module, name: str) -> Tensor:
    """The value itself; if x is a symbol, a parameter of the recorded network with this initial value.

    Args:
        owner: the module of the network under which the parameter is recorded as ``name``, or as ``name2`` and so on
            if the path comes by several times.
    """
    symbol: Any = x
    if isinstance(symbol, fx.Proxy):
        assert isinstance(symbol.tracer, _Recorder)
        symbol = symbol.tracer.record_constant(value, owner, name)
        return cast(Tensor, symbol)
    return value


class Composed(nn.Module):
    """Base of operations that are not a plain sequence of modules; their ``forward`` uses `call`.

    They are recorded module by module, so that an extracted network contains only torch classes.
    """


class _Recorder(GraphAppendingTracer):
    """Records modules and tensors under their names in the network and keeps those that are used."""

    def __init__(self, graph: fx.Graph, names: Mapping[nn.Module, str], tensors: Mapping[Tensor, str]) -> None:
        super().__init__(graph)
        self._names = names
        self._tensors = tensors
        self.used: dict[str, nn.Module | Tensor] = {}

    def create_arg(self, a: Any) -> Any:
        """Tensors that a function takes besides symbols, such as the weights of a module that `call` did not call."""
        if not isinstance(a, Tensor):
            return super().create_arg(a)
        if a not in self._tensors:
            raise InvalidInput(
                f"Expected a forward pass that combines its input with parameters and buffers of the network only. "
                f"Got another tensor, of shape {tuple(a.shape)}."
            )
        self.used[self._tensors[a]] = a
        return self.graph.get_attr(self._tensors[a])

    def record(self, module: nn.Module, known_as: nn.Module, x: fx.Proxy) -> fx.Proxy:
        if isinstance(module, nn.Sequential):
            assert isinstance(known_as, nn.Sequential)
            for child, place in zip(module, known_as, strict=True):
                x = self.record(child, place, x)
            return x
        if isinstance(module, Composed):
            assert module is known_as  # its modules have their own names
            return cast(fx.Proxy, module(x))
        if known_as not in self._names:
            raise InvalidInput(f"Expected only submodules of the network to be called. Got a {type(module).__name__}.")
        name = self._names[known_as]
        # A second module under the same name would replace the first wherever that was recorded. An elastic layer that
        # is called twice comes as two copies of the same slices, of which the first stands for both.
        first = self.used.setdefault(name, module)
        assert first is module or module is not known_as
        return fx.Proxy(self.graph.call_module(name, (x.node,)), self)

    def record_constant(self, value: Tensor, owner: nn.Module, name: str) -> fx.Proxy:
        first = f"{self._names[owner]}.{name}"
        numbered = (f"{first}{number}" for number in itertools.count(2))
        name = next(name for name in itertools.chain([first], numbered) if name not in self.used)
        self.used[name] = nn.Parameter(value.detach().clone())
        return fx.Proxy(self.graph.get_attr(name), self)


def record(network: nn.Module, path: Path) -> nn.Module:
    """A plain module that computes the same as ``path``, with copies of the modules and constants that it uses."""
    (graph,) = graphs_of(network, [path])
    return copy.deepcopy(graph)


def graphs_of(network: nn.Module, paths: Iterable[Path]) -> list[nn.Module]:
    """Records every path as a graph that uses the network's own modules."""
    names = {module: name for name, module in network.named_modules()}
    tensors = {tensor: name for name, tensor in itertools.chain(network.named_buffers(), network.named_parameters())}
    found: list[nn.Module] = []
    for path in paths:
        graph = fx.Graph()
        recorder = _Recorder(graph, names, tensors)
        symbol: Any = fx.Proxy(graph.placeholder("x"), recorder)
        output: Any = path(symbol)
        for node in graph.nodes:
            if node.op == "call_function" and "training" in node.kwargs:
                raise InvalidInput(
                    f"Expected layers with a training mode to be called through polyarch.nn.call, so that an "
                    f"extracted network follows its own mode. Got a direct call of {node.target.__name__}."
                )
        graph.output(output.node)
        used = nn.Module().train(network.training)
        for name, value in recorder.used.items():
            place(used, name, value)
        found.append(fx.GraphModule(used, graph, class_name="Network"))
    return found


def place(root: nn.Module, name: str, value: nn.Module | Tensor) -> None:
    """Puts a module, parameter or buffer at its dotted name and creates empty modules on the way."""
    *way, last = name.split(".")
    for part in way:
        if not hasattr(root, part):
            root.add_module(part, nn.Module())
        root = getattr(root, part)
    if isinstance(value, nn.Module | nn.Parameter):
        setattr(root, last, value)
    elif not hasattr(root, last):  # else its module brought it along, and knows whether to save it
        root.register_buffer(last, value)


@dataclass(frozen=True)
class NetworkCost:
    """The parameters of a network and its multiply-accumulates per example."""

    parameters: int
    macs: float


def multiply_accumulates(network: nn.Module, example: Inputs | Sequence[int]) -> float:
    """Multiply-accumulates of one example: half of what torch's flop counter finds.

    Leaves the network in evaluation mode.

    Args:
        example: a batch whose first example counts, or the shape of one example, for networks that take zeros.
    """
    inputs = example_input(network.eval(), example)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(inputs)
    return float(counter.get_total_flops()) / 2


def example_input(network: nn.Module, example: Inputs | Sequence[int], *, rows: int = 1) -> Inputs:
    """A batch on the device and in the precision of the network, which may have no parameters.

    Args:
        example: a batch to take examples from, or the shape of one example, for zeros.
    """
    parameter = next(network.parameters(), torch.empty(0))
    if not isinstance(example, Tensor | NamedInputs):
        return torch.zeros(rows, *example, dtype=parameter.dtype, device=parameter.device)

    def moved(inputs: Tensor) -> Tensor:
        return inputs.to(parameter.device, parameter.dtype if inputs.is_floating_point() else inputs.dtype)

    return mapped(moved, cycled(example, rows))
