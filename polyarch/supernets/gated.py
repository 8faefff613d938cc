"""Any torch module as a supernet of kept and dropped channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import ChannelGraph, NetworkCost
from polyarch.nn.channel_gates import ChannelGate, run_gated
from polyarch.nn.operations import inner
from polyarch.spaces import Architecture, Choice, Gates, Space
from polyarch.supernets.gate_placement import Groups, install_gates
from polyarch.supernets.supernet import Supernet

OPTIONS = ("drop", "keep")
KEEP = OPTIONS.index("keep")

ROWS = 11
"""Of the example that a network is analysed with, beside one row of it."""


class GatedSupernet(Supernet):
    """A network whose input-channel slices are kept or dropped; see `gate`.

    A dropped slice is a channel that a layer does not read, others may. The space has one choice per slice, with the
    options ``drop`` and ``keep``. In order, all choices of the first gate come first, then those of the second.

    ``forward`` with an architecture multiplies by zeros and ones, at the cost of the whole network. ``extract`` gives
    the network that is really smaller.

    Args:
        first: choices that come before those of the slices, for subclasses.

    Attributes:
        slice_space: the choices of the slices alone.
    """

    example: Tensor

    def __init__(
        self,
        model: nn.Module,
        example: Tensor,
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
        self.register_buffer("example", example[torch.arange(ROWS) % len(example)], persistent=False)

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The choices of every group that shares a drop probability: group -> choice names."""
        names = iter(self.slice_space.choice_names)
        groups: dict[str, list[str]] = {}
        for gate in self.gates:
            groups.setdefault(gate.group, []).extend(next(names) for _ in range(gate.slices))
        return groups

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, ...) -> (B, classes), or whatever the network gives; of gates (O,) or (B, O) the weights of ``keep``."""
        if isinstance(architecture, Architecture):
            return self.forward_slices(x, self.slices(architecture))
        return self.forward_slices(x, self.weights(architecture))

    def forward_slices(self, x: Tensor, keep: Tensor) -> Tensor:
        """The same from one tensor: weights of all slices in the order of the space, (C,) or per example (B, C)."""
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
        """How much of every slice gates keep, (C,) or per example (B, C)."""
        columns = [self._column(gates, name) for name in self.slice_space.choice_names]
        return torch.stack(torch.broadcast_tensors(*columns), dim=-1)

    def by_gate(self, keep: Tensor) -> dict[str, Tensor]:
        """Weights of all slices, (C,) or (B, C), by the name of the gate."""
        parts = keep.split([gate.slices for gate in self.gates], dim=-1)
        return {gate.name: part for gate, part in zip(self.gates, parts, strict=True)}

    def extract(self, architecture: Architecture) -> nn.Module:
        """The network without the dropped slices, and without all that is read by nobody then; see `ChannelGraph`.

        The forward of the network has to be one that can be written down as a graph, as for ``torch.fx``.
        """
        return self.graph(architecture).removed(self.by_gate(self.slices(architecture)))

    def cost(self, architecture: Architecture) -> NetworkCost:
        """Parameters and multiply-accumulates of the extracted network, without extracting it."""
        return self.graph(architecture).cost(self.by_gate(self.slices(architecture)))

    def graph(self, architecture: Architecture) -> ChannelGraph:
        """The network out of which slices are removed, over the very modules of this one."""
        if not self._graphs:
            self._graphs[0] = ChannelGraph(self.model, self.example)
        return self._graphs[0]

    def whole(self) -> Architecture:
        """The network with everything in it: all slices, and the last option of any other choice."""
        return self.space.architecture([choice.options[-1] for choice in self.space.choices])

    def notation(self, architecture: Architecture) -> str:
        """An architecture in a line: first any other choice by its index, then 1 for kept and 0 for dropped slices.

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
        """The weights that have gates on what they read, each once."""
        layers = (self.model.get_submodule(gate.name) for gate in self.gates if gate.side == "input")
        return list(dict.fromkeys(layer.get_parameter("weight") for layer in layers))

    def square_norms(self) -> Tensor:
        """||m||^2 of the kernels of every group, (G,) in the order of ``groups``.

        A gate on an output has no kernel: a channel passed on unchanged counts as the kernel 1.
        """
        positions = {group: position for position, group in enumerate(self.groups)}
        found = next(self.model.parameters()).new_zeros(len(positions))
        kernels, index = [], []
        for gate in self.gates:
            if gate.side == "input":
                kernels.append(self.model.get_submodule(gate.name).get_parameter("weight"))
                index.append(positions[gate.group])
            else:
                found[positions[gate.group]] += gate.slices
        if not kernels:
            return found
        norms = torch.stack([inner(kernel, kernel) for kernel in kernels])
        return found.index_add(0, torch.tensor(index, device=found.device), norms)

    def add_decay(self, factors: Sequence[float]) -> None:
        """Adds the gradient of sum_g factor_g ||m_g||^2 to that of the kernels, in one pass over them.

        Args:
            factors: of every group, in the order of ``groups``.
        """
        by_group = dict(zip(self.groups, factors, strict=True))
        with torch.no_grad():
            for gate in self.gates:
                if gate.side == "output":
                    continue
                kernel = self.model.get_submodule(gate.name).get_parameter("weight")
                if kernel.requires_grad:
                    gradient = torch.zeros_like(kernel) if kernel.grad is None else kernel.grad
                    kernel.grad = gradient.add_(kernel, alpha=2 * by_group[gate.group])

    def slice_costs(self) -> tuple[Tensor, Tensor]:
        """Parameters and multiply-accumulates of every slice in the whole network, (C,) each.

        What its channel costs elsewhere is not in it; a gate on an output costs nothing.
        """
        macs = self.graph(self.whole()).gate_macs()
        sizes, works = [], []
        for gate in self.gates:
            weight = self.model.get_submodule(gate.name).get_parameter("weight") if gate.side == "input" else None
            sizes.append(0.0 if weight is None else weight.numel() / gate.slices)
            works.append(0.0 if weight is None else macs[gate.name] / gate.slices)
        counts = torch.tensor([gate.slices for gate in self.gates])
        return torch.tensor(sizes).repeat_interleave(counts), torch.tensor(works).repeat_interleave(counts)

    def parameter_count(self, architecture: Architecture) -> int:
        """The weights of the extracted network."""
        return self.cost(architecture).parameters

    def mac_count(self, architecture: Architecture, input_shape: Sequence[int]) -> float:
        """Multiply-accumulates of the extracted network for one example."""
        if tuple(input_shape) == tuple(self.example.shape[1:]):
            return self.cost(architecture).macs
        return super().mac_count(architecture, input_shape)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What was written down on another device, or in another precision, is of no use."""
        self._graphs.clear()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without graphs, which are written down again where they are needed: torch pickles them as source code."""
        return {**self.__dict__, "_graphs": {}}

    @staticmethod
    def _column(gates: Gates, name: str) -> Tensor:
        weights = gates.get(name)
        if weights is None or weights.dim() not in (1, 2) or weights.shape[-1] != 2:
            found = "nothing" if weights is None else f"shape {tuple(weights.shape)}"
            raise InvalidInput(f"Expected gates (2,) or (batch, 2) for {name!r}. Got {found}.")
        return weights[..., KEEP]


def probe(input_shape: Sequence[int]) -> Tensor:
    """Two examples to try a network on, (2, ...): random, as zeros would hide what it does with numbers."""
    return torch.randn(2, *input_shape, generator=torch.Generator().manual_seed(0))


def gate(model: nn.Module, example: Tensor, *, groups: Groups | None = None, name: str | None = None) -> GatedSupernet:
    """A supernet whose choices are to keep or drop every channel that a layer of a plain module reads.

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
        model: takes one tensor. It is used, not copied: its layers get hooks, which pass everything on outside of calls
            of the supernet. Numbers that its code reads, such as a temperature that changes with time, are in extracted
            networks as they were when the first one was extracted or counted; make them buffers. In training every
            example has gates of its own: what a gated layer reads, or a pooling gives, must have examples first.
        example: a batch to try it on: it tells in which order layers run, and the sizes of what they read. `probe`
            makes one; of zeros, it could not tell whether the network that is cut computes the same.
        groups: which modules have gates, and which of them share one drop probability. Convolutions without groups and
            linear layers are gated on their input, modules without parameters, such as a pooling, on their output. By
            default every convolution without groups and every linear layer is a group of its own, but for the first
            one that runs, which reads the data, and for those inside of a larger layer of torch, such as
            ``nn.TransformerEncoderLayer``.
        name: the name of the space; by default that of the module's class.
    """
    return GatedSupernet(model, example, install_gates(model, example, groups), name=name or type(model).__name__)
