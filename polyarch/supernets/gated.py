"""Any torch module as a supernet of kept and dropped channels.

The hybrid network of Zhou, Sun, Luo, Zha and Zeng (2020), "Posterior-Guided Neural Architecture Search",
arXiv:1906.09557, made of a plain module.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor, nn

from polyarch.data.named_inputs import Inputs, NamedInputs, call_by_name, cycled, shape_of, tensors_of
from polyarch.errors import InvalidInput
from polyarch.nn import ChannelGraph, NetworkCost
from polyarch.nn.channel_gates import ChannelGate, run_gated, slice_count
from polyarch.nn.operations import inner
from polyarch.spaces import Architecture, Choice, Gates, Space
from polyarch.supernets.gate_placement import Groups, install_gates
from polyarch.supernets.supernet import Supernet, require_gates

OPTIONS = ("drop", "keep")
KEEP = OPTIONS.index("keep")

ROWS = 11
"""The batch size of the example that a network is analysed with, in addition to a single row."""


class GatedSupernet(Supernet):
    """A network whose input-channel slices are kept or dropped; see `gate`.

    A dropped slice is a channel that a layer does not read, though others may. The space has one choice per slice, with
    the options ``drop`` and ``keep``, in the order of the gates.

    ``forward`` with an architecture multiplies by zeros and ones, at the cost of the whole network. ``extract`` returns
    a smaller network.

    Args:
        first: choices that precede those of the slices, for subclasses.

    Attributes:
        slice_space: the choices of the slices alone.
    """

    def __init__(
        self,
        model: nn.Module,
        example: Inputs,
        gates: Iterable[ChannelGate],
        *,
        name: str,
        first: tuple[Choice, ...] = (),
    ) -> None:
        gates = tuple(gates)
        slices = tuple(Choice(f"{gate.name}[{k}]", OPTIONS) for gate in gates for k in range(gate.slices))
        super().__init__(Space(name, (*first, *slices)))
        self.slice_space = Space(name, slices) if first else self.space
        self.model = model
        self.gates = gates
        self._graphs: dict[int, ChannelGraph] = {}
        rows = cycled(example, ROWS)
        self._input_names = tuple(rows.keys()) if isinstance(rows, NamedInputs) else None
        for position, tensor in enumerate(tensors_of(rows)):
            self.register_buffer(f"example{position}", tensor, persistent=False)

    @property
    def example(self) -> Inputs:
        """The batch that the network is analysed with."""
        names = self._input_names or ("",)
        tensors = {name: self.get_buffer(f"example{position}") for position, name in enumerate(names)}
        return NamedInputs.unchecked(tensors) if self._input_names else tensors[""]

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The choices of every group with a common drop probability: group -> choice names."""
        names = iter(self.slice_space.choice_names)
        groups: dict[str, list[str]] = {}
        for gate in self.gates:
            groups.setdefault(gate.group, []).extend(next(names) for _ in range(gate.slices))
        return groups

    def forward(self, x: Inputs, architecture: Architecture | Gates) -> Tensor:
        """(B, ...) -> (B, classes), or any other output of the network; gates weight slices by that of ``keep``."""
        if isinstance(architecture, Architecture):
            return self.forward_slices(x, self.slices(architecture))
        return self.forward_slices(x, self.weights(architecture))

    def forward_slices(self, x: Inputs, keep: Tensor) -> Tensor:
        """The output with slices weighted by a tensor in the order of the space, (C,) or per example (B, C)."""
        count = len(self.slice_space.choices)
        if keep.dim() not in (1, 2) or keep.shape[-1] != count:
            raise InvalidInput(
                f"Expected weights of {count} slices, per example or for all. Got shape {tuple(keep.shape)}."
            )
        return run_gated(self.model, x, self.by_gate(keep))

    def slices(self, architecture: Architecture) -> Tensor:
        """1 for every slice that an architecture keeps, 0 for the others, (C,)."""
        indices = self.space.validate(architecture).indices[-len(self.slice_space.choices) :]
        return torch.tensor(indices, dtype=torch.get_default_dtype())

    def weights(self, gates: Gates) -> Tensor:
        """The weights of ``keep`` of all slices, (C,) or per example (B, C)."""
        columns = [require_gates(gates, choice)[..., KEEP] for choice in self.slice_space.choices]
        return torch.stack(torch.broadcast_tensors(*columns), dim=-1)

    def by_gate(self, keep: Tensor) -> dict[str, Tensor]:
        """Splits the weights of all slices, (C,) or (B, C), by gate."""
        parts = keep.split([gate.slices for gate in self.gates], dim=-1)
        return {gate.name: part for gate, part in zip(self.gates, parts, strict=True)}

    def extract(self, architecture: Architecture) -> nn.Module:
        """The network without the dropped slices and everything that nothing reads any more; see `ChannelGraph`.

        ``torch.fx`` must be able to trace the network's ``forward``. Several inputs are one argument of the result,
        a mapping of their names. Constants are folded as they are in evaluation; see `folds`.
        """
        return self.graph(architecture).removed(self.by_gate(self.slices(architecture)))

    def ignores_input(self, architecture: Architecture) -> bool:
        """Whether so much is dropped that the output is the same for all examples."""
        return self.graph(architecture).ignores_input(self.by_gate(self.slices(architecture)))

    def folds(self, architecture: Architecture) -> bool:
        """Whether the extracted network has folded constants: then it equals the masked one in evaluation mode alone.

        In training mode, batch normalisation would take the constants of a layer without inputs for its statistics.
        """
        return self.graph(architecture).folds(self.by_gate(self.slices(architecture)))

    def cost(self, architecture: Architecture) -> NetworkCost:
        """Parameters and multiply-accumulates of the extracted network, without extracting it."""
        return self.graph(architecture).cost(self.by_gate(self.slices(architecture)))

    def graph(self, architecture: Architecture) -> ChannelGraph:
        """The graph to remove slices from; it shares the modules of this network."""
        if not self._graphs:
            self._graphs[0] = ChannelGraph(self.model, self.example)
        return self._graphs[0]

    def whole(self) -> Architecture:
        """The largest network: all slices, and the last option of any other choice."""
        return self.space.architecture([choice.options[-1] for choice in self.space.choices])

    def notation(self, architecture: Architecture) -> str:
        """An architecture as text: the indices of any other choices, then 1 for kept and 0 for dropped slices.

        >>> net = gate(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), torch.zeros(2, 2))
        >>> net.notation(net.space.architecture(["keep", "drop", "keep"]))
        '101'
        """
        indices = self.space.validate(architecture).indices
        first, slices = indices[: -len(self.slice_space.choices)], indices[-len(self.slice_space.choices) :]
        return "|".join([*map(str, first), "".join(map(str, slices))])

    def parse(self, notation: str) -> Architecture:
        """The architecture of a notation."""
        *first, slices = notation.split("|")
        return self.space.validate(Architecture(self.space, tuple(map(int, [*first, *slices]))))

    def gated_kernels(self) -> list[nn.Parameter]:
        """The weights of all layers with gates on their input, each once."""
        return list(dict.fromkeys(kernel for _, kernel in self._kernels()))

    def square_norms(self) -> Tensor:
        """||m||^2 of the kernels of every group, (G,) in the order of ``groups``.

        A gate on an output has no kernel. A channel that it passes on counts as much as the mean slice of the kernels
        that read it, which bear the decay: it is as dear as they are, and the prior alone does not decide it. A fixed
        number, such as 1 for the identity, could not become smaller in training as kernels do.
        """
        positions = {group: position for position, group in enumerate(self.groups)}
        found = next(self.model.parameters()).new_zeros(len(positions))
        for gate in self.gates:
            if gate.side == "output":
                found[positions[gate.group]] += gate.slices * self._mean_slice(gate)
        kernels = list(self._kernels())
        if not kernels:
            return found
        index = torch.tensor([positions[gate.group] for gate, _ in kernels], device=found.device)
        return found.index_add(0, index, torch.stack([inner(kernel, kernel) for _, kernel in kernels]))

    def _mean_slice(self, gate: ChannelGate) -> Tensor:
        """The mean squared norm of the slices that read the output of a gate, a scalar without gradient."""
        layers = [self.model.get_submodule(name) for name in self._readers[gate.name]]
        kernels = [(layer.get_parameter("weight").detach(), slice_count(layer)) for layer in layers]
        means = [inner(kernel, kernel) / slices for kernel, slices in kernels]
        return torch.stack(means).mean() if means else next(self.model.parameters()).new_zeros(())

    @cached_property
    def _readers(self) -> dict[str, list[str]]:
        return self.graph(self.whole()).readers()

    def add_decay(self, factors: Sequence[float]) -> None:
        """Adds the gradient of sum_g factor_g ||m_g||^2 to that of the kernels.

        Args:
            factors: one per group, in the order of ``groups``.
        """
        by_group = dict(zip(self.groups, factors, strict=True))
        with torch.no_grad():
            for gate, kernel in self._kernels():
                if kernel.requires_grad:
                    gradient = torch.zeros_like(kernel) if kernel.grad is None else kernel.grad
                    kernel.grad = gradient.add_(kernel, alpha=2 * by_group[gate.group])

    def slice_costs(self) -> tuple[Tensor, Tensor]:
        """Parameters and multiply-accumulates of every slice in the whole network, (C,) each.

        They do not include the cost of its channel in other layers; a gate on an output costs nothing.
        """
        macs = self.graph(self.whole()).gate_macs()
        costs = {g.name: (kernel.numel() / g.slices, macs[g.name] / g.slices) for g, kernel in self._kernels()}
        counts = torch.tensor([gate.slices for gate in self.gates])
        parameters, work = torch.tensor([costs.get(gate.name, (0.0, 0.0)) for gate in self.gates]).T
        return parameters.repeat_interleave(counts), work.repeat_interleave(counts)

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights of the extracted network."""
        return self.cost(architecture).parameters

    def mac_count(self, architecture: Architecture, example: Inputs | Sequence[int]) -> float:
        """Multiply-accumulates of the extracted network on one example."""
        shape = shape_of(example) if isinstance(example, Tensor | NamedInputs) else tuple(example)
        if shape == shape_of(self.example):
            return self.cost(architecture).macs
        return super().mac_count(architecture, example)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Drops graphs recorded on another device or in another precision."""
        self._graphs.clear()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out graphs, which torch pickles as source code; they are recorded again when needed."""
        return {**self.__dict__, "_graphs": {}}

    def _kernels(self) -> Iterator[tuple[ChannelGate, nn.Parameter]]:
        """Every gate on an input, with the weight of its layer."""
        for gate in self.gates:
            if gate.side == "input":
                yield gate, self.model.get_submodule(gate.name).get_parameter("weight")


def probe(input_shape: Sequence[int]) -> Tensor:
    """Two random examples to try a network on where there are no data, (2, ...); zeros would hide what it computes."""
    return torch.randn(2, *input_shape, generator=torch.Generator().manual_seed(0))


def gate(model: nn.Module, example: Inputs, *, groups: Groups | None = None, name: str | None = None) -> GatedSupernet:
    """A supernet that keeps or drops every channel that the layers of a plain module read.

    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3), nn.Flatten(), nn.Linear(32, 3))
    >>> images = torch.zeros(2, 1, 6, 6)
    >>> net = gate(model, images)
    >>> print(*(f"{one.name}: {one.slices} channels" for one in net.gates), sep=", ")
    2: 4 channels, 4: 32 channels
    >>> tuple(net(images, net.space.architecture(["drop", "keep"] * 18)).shape)
    (2, 3)
    >>> net.extract(net.space.architecture(["drop", "keep"] * 18)).get_submodule("2")
    Conv2d(2, 8, kernel_size=(3, 3), stride=(1, 1))

    Args:
        model: takes one tensor, or several by name if the example is `NamedInputs`. It is used, not copied: its layers
            get hooks that do nothing outside of calls of the supernet. Extracted networks keep numbers that its code
            reads, such as a temperature, as they were at the first extraction or count; make numbers that change
            buffers. In training every example has its own gates, so the inputs of gated layers and the outputs of gated
            poolings must have examples as their first dimension.
        example: a batch of the data, which shows in which order layers run and how large their inputs are. Zeros could
            not show whether the reduced network computes the same.
        groups: which modules have gates, and which of them share a drop probability. Ungrouped convolutions and linear
            layers have gates on their input, modules without parameters, such as poolings, on their output. By default
            every ungrouped convolution and linear layer forms its own group, except for the first one that runs, which
            reads the data, and for those inside a larger layer of torch, such as ``nn.TransformerEncoderLayer``.
        name: of the space; by default the name of the module's class.
    """
    if isinstance(example, NamedInputs) and isinstance(model, nn.Module):
        call_by_name(model)
    return GatedSupernet(model, example, install_gates(model, example, groups), name=name or type(model).__name__)
