"""The NAS-Bench-201 supernet: the same cell of four nodes and six edges, repeated.

Dong and Yang (2020), "NAS-Bench-201: Extending the Scope of Reproducible Neural Architecture Search", arXiv:2001.00326.
Inter-choice weights: Laube and Zell (2021), "Inter-choice dependent super-network weights", arXiv:2104.11522.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import (
    ChoiceBlock,
    InterChoice,
    PartialChannels,
    ReductionBlock,
    Selection,
    adds,
    call,
    dependent_weights,
    plus,
    require_parts,
    skips_zeros,
)
from polyarch.nn.operations import nb201_operation
from polyarch.spaces import NB201_EDGES, NB201_OPERATIONS, Architecture, Gates, edge_name, nb201_space
from polyarch.supernets.shifted_path import Step, shifted_path
from polyarch.supernets.supernet import Supernet, pooled_head, require_sizes

EdgePredecessors = tuple[tuple[int, ...], ...]
"""For every edge, the edges whose choices its inter-choice weights depend on."""

Flag = TypeVar("Flag", bool, Tensor)

INDEPENDENT: EdgePredecessors = ((),) * len(NB201_EDGES)


class Cell(nn.Module):
    """Nodes 0..3; node j is the sum over i < j of the operation on edge i->j applied to node i."""

    def __init__(
        self,
        channels: int,
        operations: tuple[str, ...],
        *,
        affine: bool,
        pool_convolution: bool = False,
        interchoice: InterChoice | None = None,
        partial: int = 1,
    ) -> None:
        super().__init__()
        self.predecessors = predecessors_of(interchoice)
        blocks = []
        for edge, before in zip(NB201_EDGES, self.predecessors, strict=True):
            modules = [
                nb201_operation(name, channels // partial, affine=affine, pool_convolution=pool_convolution)
                for name in operations
            ]
            previous = [len(operations)] * len(before)
            weights = dependent_weights(interchoice, modules, channels=channels, previous=previous)
            blocks.append(ChoiceBlock(edge_name(*edge), modules, weights))
        self.edges = nn.ModuleList(blocks)
        self.adds = adds(weights)
        self.partial = None if partial == 1 else PartialChannels(channels, partial)

    def forward(
        self, x: Tensor, selection: tuple[Step, ...] | Gates, shift: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """(B, C, H, W) -> (B, C, H, W) and a shift still to be added to it, (C, 1, 1) or None.

        Args:
            shift: still to be added to x; only for hard paths.
        """
        return self._hard(x, selection, shift) if isinstance(selection, tuple) else (self._soft(x, selection), None)

    def _hard(self, x: Tensor, steps: tuple[Step, ...], shift: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if self.adds:
            blocks = cast(Sequence[ChoiceBlock], tuple(self.edges))
            ride = self.training and isinstance(x, Tensor)  # not while the path is being recorded
            output, shift = shifted_path(blocks, steps, x, shift, ride=ride)
            return (torch.zeros_like(x), None) if output is None else (output, shift)
        nodes: list[Tensor | None] = [x, None, None, None]
        for edge, source, target, option, previous in steps:
            value = nodes[source]
            assert value is not None  # `live_steps` lists nodes before the nodes they feed
            nodes[target] = plus(nodes[target], self._on_edge(edge, value, option, previous))
        return (torch.zeros_like(x) if nodes[3] is None else nodes[3]), None

    def _soft(self, x: Tensor, gates: Gates) -> Tensor:
        nodes, live = [x], self._live_edges(gates)
        edges_run = [edge for edge in range(len(live)) if not skips_zeros() or live[edge].any()]
        for target in (1, 2, 3):
            value: Tensor | None = None
            for edge, (source, edge_target) in enumerate(NB201_EDGES):
                if edge_target != target or edge not in edges_run:
                    continue
                block = self.edges[edge]
                assert isinstance(block, ChoiceBlock)
                previous = [gates[edge_name(*NB201_EDGES[other])] for other in self.predecessors[edge]]
                # Masking the weights, not the output, saves a pass over the values.
                weights = gates[block.choice] * live[edge].unsqueeze(-1)
                value = plus(value, self._on_edge(edge, nodes[source], weights, previous))
            nodes.append(torch.zeros_like(x) if value is None else value)
        return nodes[3]

    def _live_edges(self, gates: Gates) -> list[Tensor]:
        """Which edges carry something from the input: () or (B,) for each, all true for relaxed gates.

        A node without input passes nothing on, not even the constant that a normalisation layer would make of zeros.
        If zeros are skipped, an edge also has to lead to the output.
        """
        blocks = cast(Sequence[ChoiceBlock], tuple(self.edges))
        passing = [(gates[block.choice][..., block.passing] != 0).any(-1) for block in blocks]
        yes, no = torch.ones_like(passing[0]), torch.zeros_like(passing[0])
        return live_edges(passing, yes, no, to_output=skips_zeros())

    def _on_edge(self, edge: int, x: Tensor, selection: Selection, previous: Sequence[Selection]) -> Tensor:
        block = self.edges[edge]
        if self.partial is None:
            return cast(Tensor, block(x, selection, previous))
        assert isinstance(block, ChoiceBlock)
        passing = selection if isinstance(selection, int) else selection[..., block.passing]
        return cast(Tensor, self.partial(x, passing, lambda seen: block(seen, selection, previous)))


def predecessors_of(interchoice: InterChoice | None) -> EdgePredecessors:
    """The predecessors of every edge; none without inter-choice weights."""
    if interchoice is None:
        return INDEPENDENT
    feeding = [[other for other, (_, end) in enumerate(NB201_EDGES) if end == source] for source, _ in NB201_EDGES]
    return tuple(interchoice.before(edge, edges) for edge, edges in enumerate(feeding))


def live_edges(passing: Sequence[Flag], yes: Flag, no: Flag, *, to_output: bool) -> list[Flag]:
    """Which edges lie on a path of passing edges from the input and, if asked for, to the output."""
    edges = [(source, target, passes) for (source, target), passes in zip(NB201_EDGES, passing, strict=True)]
    fed = [yes, no, no, no]
    for source, target, passes in edges:  # in order of their targets, so one pass is enough
        fed[target] = fed[target] | fed[source] & passes
    useful = [no, no, no, yes] if to_output else [yes] * 4
    for source, target, passes in reversed(edges):
        useful[source] = useful[source] | useful[target] & passes
    return [fed[source] & passes & useful[target] for source, target, passes in edges]


@lru_cache(maxsize=65536)
def live_steps(
    options: tuple[int, ...], passing: tuple[bool, ...], predecessors: EdgePredecessors = INDEPENDENT
) -> tuple[Step, ...]:
    """The operations of a cell that lie on a path from input to output, in order of execution.

    Args:
        options: the option chosen on each of the six edges.
        passing: whether each option passes anything on.
    """
    live = live_edges([passing[option] for option in options], True, False, to_output=True)
    return tuple(
        (edge, *NB201_EDGES[edge], option, tuple(options[other] for other in predecessors[edge]))
        for edge, option in enumerate(options)
        if live[edge]
    )


class NB201Supernet(Supernet):
    """Stem, three stages of cells with a reduction block between them, pooled linear head.

    Accepts images of 4x4 or more: (B, in_channels, H, W) -> (B, classes).

    Args:
        channels: width C of the first stage; it doubles at each reduction.
        cells: cells per stage; the benchmark's networks have 5, supernets in the literature 2.
        operations: which of the five operations the edges offer.
        affine: whether normalisation layers inside cells have scale and shift, as in the benchmark's standalone
            networks but usually not in weight-sharing supernets.
        pool_convolution: whether a ReLU, a 1x1 convolution and a normalisation precede the pooling operation, as in
            the code of Laube and Zell. The benchmark has none.
        interchoice: weights that depend on the choices on other edges.
        partial: k; the operations see one in k channels, see `PartialChannels`. Not with inter-choice weights.
    """

    def __init__(
        self,
        *,
        channels: int = 16,
        cells: int = 2,
        in_channels: int = 3,
        classes: int = 10,
        operations: tuple[str, ...] = NB201_OPERATIONS,
        affine: bool = False,
        pool_convolution: bool = False,
        interchoice: InterChoice | None = None,
        partial: int = 1,
    ) -> None:
        super().__init__(nb201_space(operations, pool_weights=pool_convolution))
        require_sizes(classes, channels=channels, cells=cells, in_channels=in_channels)
        require_parts(channels, partial)
        if partial > 1 and interchoice is not None:
            raise InvalidInput(f"Expected no inter-choice weights with partial channels. Got {partial=}.")
        self._passing = tuple(name != "none" for name in operations)
        self._predecessors = predecessors_of(interchoice)
        self.stem = nn.Sequential(nn.Conv2d(in_channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
        layers: list[nn.Module] = []
        for stage in range(3):
            width = channels * 2**stage
            if stage:
                layers.append(ReductionBlock(width // 2, width))
            layers.extend(
                Cell(
                    width,
                    operations,
                    affine=affine,
                    pool_convolution=pool_convolution,
                    interchoice=interchoice,
                    partial=partial,
                )
                for _ in range(cells)
            )
        self.layers = nn.ModuleList(layers)
        width = 4 * channels
        self.head = pooled_head(nn.BatchNorm2d(width), nn.ReLU(), width=width, classes=classes)

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes)."""
        selection: tuple[Step, ...] | Gates = (
            self._steps(architecture) if isinstance(architecture, Architecture) else architecture
        )
        x = call(self.stem, x)
        shift: Tensor | None = None
        for layer in self.layers:
            if isinstance(layer, Cell):
                x, shift = layer(x, selection, shift)
            else:
                x, shift = layer(plus(shift, x)), None
        return call(self.head, plus(shift, x))

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights of the extracted network, without operations that do not reach the output."""
        fixed, options = self._parameter_table
        names = self.space.choice_names
        return fixed + sum(options.get((names[edge], option), 0) for edge, _, _, option, _ in self._steps(architecture))

    def _steps(self, architecture: Architecture) -> tuple[Step, ...]:
        return live_steps(self.space.validate(architecture).indices, self._passing, self._predecessors)
