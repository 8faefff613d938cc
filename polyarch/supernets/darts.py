"""The DARTS supernet: normal cells with a reduction cell at one and at two thirds of the depth.

Liu, Simonyan and Yang (2019), "DARTS: Differentiable Architecture Search", arXiv:1806.09055.
"""

from collections.abc import Mapping
from functools import cached_property
from itertools import combinations
from typing import cast

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import PartialChannels, Selection, call, gate_for, options_run, plus, require_parts, skips_zeros
from polyarch.nn.operations import FactorizedReduce, darts_operation, relu_conv_bn, weighted
from polyarch.spaces import (
    DARTS_CELLS,
    DARTS_EDGES,
    DARTS_NODES,
    DARTS_OPERATIONS,
    Architecture,
    Edge,
    Gates,
    darts_edges,
    darts_space,
    edge_name,
)
from polyarch.supernets.supernet import Supernet, count_parameters, pooled_head

EdgeSelections = Mapping[Edge, Selection]
"""Edge -> index of its operation, or weights (O,) or (B, O) of all of them; missing edges are not used."""


class EdgeOperations(nn.Module):
    """The operations on an edge: an index runs one, weights give sum_o weight_o * operation_o(x)."""

    def __init__(
        self, channels: int, operations: tuple[str, ...], *, stride: int, affine: bool, partial: int = 1
    ) -> None:
        super().__init__()
        self.operations = nn.ModuleList(
            darts_operation(name, channels // partial, stride=stride, affine=affine) for name in operations
        )
        self.partial = None if partial == 1 else PartialChannels(channels, partial, stride=stride)

    def forward(self, x: Tensor, selection: Selection) -> Tensor:
        """(B, C, H, W) -> (B, C, H/stride, W/stride)."""
        if self.partial is None:
            return self._operated(x, selection)
        return cast(Tensor, self.partial(x, selection, lambda seen: self._operated(seen, selection)))

    def _operated(self, x: Tensor, selection: Selection) -> Tensor:
        if isinstance(selection, int):
            return call(self.operations[selection], x)
        terms: list[Tensor] = [
            weighted(self.operations[index], x, gate_for(selection, index, x))
            for index in options_run(selection, range(len(self.operations)))
        ]
        return sum(terms[1:], start=terms[0])


class DartsCell(nn.Module):
    """Nodes 0 and 1 are the inputs; node j is the sum over i < j of the operation on edge i->j applied to node i.

    The output is the concatenation of nodes 2 to 5. Weights belong to an edge and an operation. The operation ``none``
    of differentiable searches has no module: the weights of an edge simply leave it out.

    Args:
        earlier: channels of the output of the last cell but one.
        previous: channels of the output of the last cell.
        channels: of every node.
        reduction: whether operations on the inputs halve the resolution.
        after_reduction: whether the last cell did, so that the earlier output has to be reduced too.
        partial: k; the operations see one in k channels of a node.
    """

    def __init__(
        self,
        earlier: int,
        previous: int,
        channels: int,
        operations: tuple[str, ...],
        *,
        reduction: bool,
        after_reduction: bool,
        affine: bool,
        partial: int = 1,
    ) -> None:
        super().__init__()
        self.kind = "reduce" if reduction else "normal"
        self.earlier = (
            FactorizedReduce(earlier, channels, affine=affine)
            if after_reduction
            else relu_conv_bn(earlier, channels, 1, affine=affine)
        )
        self.previous = relu_conv_bn(previous, channels, 1, affine=affine)
        self.edges = nn.ModuleDict({
            edge_name(source, target): EdgeOperations(
                channels, operations, stride=2 if reduction and source < 2 else 1, affine=affine, partial=partial
            )
            for source, target in DARTS_EDGES
        })  # fmt: skip

    def forward(
        self, earlier: Tensor, previous: Tensor, selections: EdgeSelections, drop: nn.Module | None = None
    ) -> Tensor:
        """(B, C'', H'', W''), (B, C', H, W) -> (B, 4C, H, W), or half that resolution.

        Args:
            drop: what outputs of single operations pass through, but for identities.
        """
        if skips_zeros():
            selections = {edge: s for edge, s in selections.items() if isinstance(s, int) or s.any()}
        nodes = [call(self.earlier, earlier), call(self.previous, previous)]
        step = 2 if self.kind == "reduce" else 1
        for target in DARTS_NODES:
            terms: list[Tensor] = [
                self._edge((source, target), nodes[source], selections[source, target], drop)
                for source in range(target)
                if (source, target) in selections
            ]
            nodes.append(sum(terms[1:], start=terms[0]) if terms else torch.zeros_like(nodes[0][:, :, ::step, ::step]))
        return torch.cat(nodes[2:], dim=1)

    def _edge(self, edge: Edge, x: Tensor, selection: Selection, drop: nn.Module | None) -> Tensor:
        block = self.edges[edge_name(*edge)]
        assert isinstance(block, EdgeOperations)
        result: Tensor = block(x, selection)
        if drop is None or (isinstance(selection, int) and isinstance(block.operations[selection], nn.Identity)):
            return result
        return call(drop, result)


class DartsSupernet(Supernet):
    """Stem, a sequence of cells that read the outputs of the two before them, pooled linear head.

    Accepts images of 4x4 or more: (B, in_channels, H, W) -> (B, classes).

    Args:
        layers: number of cells, 3 or more; DARTS searches with 8 and evaluates with 20.
        channels: C of the first cells, doubled by each reduction cell; the stem has 3C, the output of a cell 4C.
        operations: which of the seven operations the edges offer.
        none: whether a differentiable search also weighs ``none``, see `darts_space`.
        affine: True for the layers of the evaluation network, where normalisation layers in cells have scale and
            shift, and poolings are not normalised. Weight-sharing supernets usually set it to False.
        partial: k; the operations see one in k channels, see `PartialChannels`.

    Attributes:
        reductions: the positions of the reduction cells.
        widths: channels of the output of every cell.
    """

    def __init__(
        self,
        *,
        layers: int = 8,
        channels: int = 16,
        in_channels: int = 3,
        classes: int = 10,
        operations: tuple[str, ...] = DARTS_OPERATIONS,
        none: bool | None = None,
        affine: bool = False,
        partial: int = 1,
    ) -> None:
        super().__init__(darts_space(operations, none=none))
        if layers < 3 or channels < 2 or in_channels < 1 or classes < 2:
            raise InvalidInput(
                "Expected 3 or more layers, 2 or more channels and classes, and 1 or more in_channels. "
                f"Got {layers=}, {channels=}, {in_channels=}, {classes=}."
            )
        require_parts(channels, partial, least=2)
        self._operations = operations
        self.classes = classes
        wide = 3 * channels
        self.stem = nn.Sequential(nn.Conv2d(in_channels, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide))
        cells: list[DartsCell] = []
        earlier, previous, width = wide, wide, channels
        self.reductions = (layers // 3, 2 * layers // 3)
        self.widths: list[int] = []
        for layer in range(layers):
            if layer in self.reductions:
                width *= 2
            cell = DartsCell(
                earlier,
                previous,
                width,
                operations,
                reduction=layer in self.reductions,
                after_reduction=layer - 1 in self.reductions,
                affine=affine,
                partial=partial,
            )
            cells.append(cell)
            earlier, previous = previous, len(DARTS_NODES) * width
            self.widths.append(previous)
        self.cells = nn.ModuleList(cells)
        self.head = pooled_head(width=previous, classes=classes)

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes).

        Gates give edge i->j the weights sum_p w_p g over the pairs p of inputs of node j that contain i, where g are
        the gates of the operation on the first or second input, whichever i is.
        """
        if isinstance(architecture, Architecture):
            self.space.validate(architecture)
            return self.forward_edges(x, self.chosen(architecture))
        return self.forward_edges(x, {cell: edge_weights(architecture, cell) for cell in DARTS_CELLS})

    def forward_edges(self, x: Tensor, selections: Mapping[str, EdgeSelections]) -> Tensor:
        """Logits (B, classes) from the selections of every edge of the ``normal`` and the ``reduce`` cells."""
        return call(self.head, self.cell_outputs(x, selections)[-1])

    def cell_outputs(
        self, x: Tensor, selections: Mapping[str, EdgeSelections], drop: nn.Module | None = None
    ) -> list[Tensor]:
        """What every cell passes on, (B, C, H, W) each, C as in ``widths``; ``drop`` as in `DartsCell`."""
        outputs: list[Tensor] = []
        earlier = previous = call(self.stem, x)
        for cell in self.cells:
            assert isinstance(cell, DartsCell)
            earlier, previous = previous, cell(earlier, previous, selections[cell.kind], drop)
            outputs.append(previous)
        return outputs

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights outside the edges and of the chosen operations, which all reach the output."""
        fixed, operations = self._edge_table
        chosen = self.chosen(architecture)
        return fixed + sum(operations[cell, edge, option] for cell in chosen for edge, option in chosen[cell].items())

    def chosen(self, architecture: Architecture) -> dict[str, dict[Edge, int]]:
        """The operations of an architecture, cell -> edge -> index."""
        return {
            cell: {edge: self._operations.index(name) for edge, name in darts_edges(architecture, cell).items()}
            for cell in DARTS_CELLS
        }

    @cached_property
    def _edge_table(self) -> tuple[int, dict[tuple[str, Edge, int], int]]:
        """Parameters outside the edges, and those of every (kind of cell, edge, option), over all cells."""
        table: dict[tuple[str, Edge, int], int] = {}
        for cell in self.cells:
            assert isinstance(cell, DartsCell)
            for edge, block in zip(DARTS_EDGES, cell.edges.values(), strict=True):
                assert isinstance(block, EdgeOperations)
                for option, operation in enumerate(block.operations):
                    key = (cell.kind, edge, option)
                    table[key] = table.get(key, 0) + count_parameters(operation)
        return count_parameters(self) - sum(table.values()), table


def edge_weights(gates: Gates, cell: str) -> dict[Edge, Tensor]:
    """The weights (O,) or (B, O) of the operations on every edge of a cell, from the gates of the space's choices."""
    weights: dict[Edge, Tensor] = {}
    for node in DARTS_NODES:
        inputs = gates[f"{cell}{node}_inputs"]
        operations = gates[f"{cell}{node}_first"], gates[f"{cell}{node}_second"]
        for option, pair in enumerate(combinations(range(node), 2)):
            for source, gate in zip(pair, operations, strict=True):
                weights[source, node] = plus(weights.get((source, node)), inputs[..., option, None] * gate)
    return weights
