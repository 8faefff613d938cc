"""The relaxation of a supernet for differentiable search: weighted choices, mixed passes, and discretisation.

Liu, Simonyan and Yang (2019), "DARTS: Differentiable Architecture Search", arXiv:1806.09055. Edge normalisation: Xu et
al. (2020), "PC-DARTS: Partial Channel Connections for Memory-Efficient Architecture Search", arXiv:1907.05737.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.spaces import DARTS_CELLS, DARTS_EDGES, DARTS_NODES, Architecture, Choice, Edge, Gates, Space, edge_name
from polyarch.supernets.darts import DartsSupernet
from polyarch.supernets.supernet import Supernet, require_gates_for

ChosenOptions = dict[str, int]
"""Choice -> the option that an architecture takes there, without choices that it does not use."""


class Relaxation(nn.Module):
    """Weighs the choices of the supernet's own space and selects the option of largest weight for each.

    A differentiable search learns a distribution over ``space``, which differs from ``net.space`` if it weighs more
    edges than an architecture has.
    """

    def __init__(self, net: Supernet, space: Space | None = None) -> None:
        super().__init__()
        require_gates_for("a relaxation", net)
        self.net = net
        self.space = space or net.space

    def forward(self, x: Any, gates: Gates) -> Tensor:
        """Logits (B, classes) with the options of every choice mixed by gates (O,) or (B, O)."""
        logits: Tensor = self.net(x, gates)
        return logits

    def chosen(self, weights: Gates) -> ChosenOptions:
        """The option of largest weight of every choice, the first among equals."""
        return {name: int(weights[name].argmax()) for name in self.space.choice_names}

    def architecture(self, weights: Gates) -> Architecture:
        """The architecture in ``net.space`` that the weights (O,) of all choices select."""
        return Architecture(self.net.space, tuple(self.chosen(weights)[name] for name in self.net.space.choice_names))


class DartsRelaxation(Relaxation):
    """Weighs the operations on all 14 edges of both cells and keeps the two strongest edges into every node.

    Choices such as ``normal 0->2`` have the operations of the space, and ``none`` if the space weighs it, which takes
    weight and passes nothing on. The strength of an edge is the largest weight of an operation on it, times the weight
    of the edge if it has one.

    Args:
        weigh_edges: whether edges into a node have weights that sum to one, in choices such as ``normal 2`` (the edge
            normalisation of PC-DARTS).
    """

    net: DartsSupernet

    def __init__(self, net: DartsSupernet, *, weigh_edges: bool = False) -> None:
        operations = net.space[f"{DARTS_CELLS[0]}{DARTS_NODES[0]}_first"].options
        options = (*operations, "none") if net.space.weighs_none else operations
        choices = [Choice(f"{cell} {edge_name(*edge)}", options) for cell in DARTS_CELLS for edge in DARTS_EDGES]
        if weigh_edges:
            choices += [
                Choice(f"{cell} {node}", tuple(map(str, range(node))), "wiring")
                for cell in DARTS_CELLS
                for node in DARTS_NODES
            ]
        super().__init__(net, Space(f"{net.space.name} edges", tuple(choices)))
        self.weigh_edges = weigh_edges
        self._operations = len(operations)

    def forward(self, x: Tensor, gates: Gates) -> Tensor:
        """Logits (B, classes) with the operations on every edge mixed."""
        return self.net.forward_edges(x, {cell: self._edge_weights(gates, cell) for cell in DARTS_CELLS})

    def chosen(self, weights: Gates) -> ChosenOptions:
        """The operations on the eight edges of each cell that the architecture keeps."""
        found: ChosenOptions = {}
        for cell in DARTS_CELLS:
            on_edges = self._edge_weights(weights, cell)
            for node in DARTS_NODES:
                strengths = {source: float(on_edges[source, node].max()) for source in range(node)}
                for source in sorted(sorted(strengths, key=lambda edge: -strengths[edge])[:2]):
                    found[f"{cell} {edge_name(source, node)}"] = int(on_edges[source, node].argmax())
        return found

    def architecture(self, weights: Gates) -> Architecture:
        """The two strongest edges into every node, each with its strongest operation other than ``none``."""
        chosen = self.chosen(weights)
        options: dict[str, str] = {}
        for cell in DARTS_CELLS:
            for node in DARTS_NODES:
                names = {source: f"{cell} {edge_name(source, node)}" for source in range(node)}
                edges = {source: chosen[name] for source, name in names.items() if name in chosen}
                options[f"{cell}{node}_inputs"] = ",".join(map(str, edges))
                for place, option in zip(("first", "second"), edges.values(), strict=True):
                    options[f"{cell}{node}_{place}"] = self.net.space[f"{cell}{node}_{place}"].options[option]
        return self.net.space.architecture(options)

    def _edge_weights(self, gates: Gates, cell: str) -> Mapping[Edge, Tensor]:
        """The weights of the operations other than ``none`` on every edge, (O,) or (B, O)."""
        weights: dict[Edge, Tensor] = {}
        for source, target in DARTS_EDGES:
            gate = gates[f"{cell} {edge_name(source, target)}"][..., : self._operations]
            if self.weigh_edges:
                gate = gate * gates[f"{cell} {target}"][..., source, None]
            weights[source, target] = gate
        return weights


def relaxation_of(net: Supernet, *, weigh_edges: bool = False) -> Relaxation:
    """The relaxation of a supernet: over edges for DARTS cells, over the choices of the space for all others."""
    return DartsRelaxation(net, weigh_edges=weigh_edges) if isinstance(net, DartsSupernet) else Relaxation(net)


def without_option(weights: Gates, choice: str, option: int) -> dict[str, Tensor]:
    """The weights with that of one option set to 0 and the others rescaled to the same sum."""
    kept = weights[choice].clone()
    kept[option] = 0.0
    total = kept.sum()
    return {**weights, choice: kept * (weights[choice].sum() / total) if total > 0 else torch.zeros_like(kept)}
