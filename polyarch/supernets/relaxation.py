"""The relaxation of a supernet for differentiable search: weighted choices, mixed passes, and discretisation.

Liu, Simonyan and Yang (2019), "DARTS: Differentiable Architecture Search", arXiv:1806.09055. Edge normalisation: Xu et
al. (2020), "PC-DARTS: Partial Channel Connections for Memory-Efficient Architecture Search", arXiv:1907.05737. Edges of
choice blocks: Zela, Siems and Hutter (2020), "NAS-Bench-1Shot1: Benchmarking and Dissecting One-shot Neural
Architecture Search", arXiv:2001.10422.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.spaces import DARTS_CELLS, DARTS_EDGES, DARTS_NODES, Architecture, Choice, Edge, Gates, Space, edge_name
from polyarch.spaces.nb101 import parents_of
from polyarch.supernets.darts import DartsSupernet
from polyarch.supernets.nb101 import NB101Supernet, feeds_run
from polyarch.supernets.supernet import Supernet, require_gates_for

ChosenOptions = list[tuple[str, int]]
"""The weighed choices and options that an architecture takes, without choices that it does not use."""


EDGES_KEPT = 2
"""The edges into a node of a DARTS cell."""


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
        self.edges_kept: Mapping[str, int] = {}
        """Choice between edges into a node -> how many of them an architecture keeps; other choices keep one option."""

    def forward(self, x: Any, gates: Gates) -> Tensor:
        """Logits (B, classes) with the options of every choice mixed by gates (O,) or (B, O)."""
        logits: Tensor = self.net(x, gates)
        return logits

    def chosen(self, weights: Gates) -> ChosenOptions:
        """The option of largest weight of every choice, the first among equals."""
        return [(name, int(weights[name].argmax())) for name in self.space.choice_names]

    def architecture(self, weights: Gates) -> Architecture:
        """The architecture in ``net.space`` that the weights (O,) of all choices select."""
        return Architecture(self.net.space, tuple(option for _, option in self.chosen(weights)))


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
        if weigh_edges:
            self.edges_kept = {f"{cell} {node}": EDGES_KEPT for cell in DARTS_CELLS for node in DARTS_NODES}
        self._operations = len(operations)

    def forward(self, x: Tensor, gates: Gates) -> Tensor:
        """Logits (B, classes) with the operations on every edge mixed."""
        return self.net.forward_edges(x, {cell: self._edge_weights(gates, cell) for cell in DARTS_CELLS})

    def chosen(self, weights: Gates) -> ChosenOptions:
        """The operations on the eight edges of each cell that the architecture keeps."""
        found: ChosenOptions = []
        for cell in DARTS_CELLS:
            on_edges = self._edge_weights(weights, cell)
            for node in DARTS_NODES:
                strengths = [float(on_edges[source, node].max()) for source in range(node)]
                for source in _largest(strengths, EDGES_KEPT):
                    found.append((f"{cell} {edge_name(source, node)}", int(on_edges[source, node].argmax())))
        return found

    def architecture(self, weights: Gates) -> Architecture:
        """The two strongest edges into every node, each with its strongest operation other than ``none``."""
        chosen = dict(self.chosen(weights))
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


class NB101Relaxation(Relaxation):
    """Weighs the edges into the choice blocks and into the output, and the operations of the choice blocks.

    Node j with values x_i of the nodes before it, of which x_0 is the projected input, is

        x_j = sum_o w_jo o(sum_{i<j} e_ij x_i),    sum_o w_jo = 1,    sum_{i<j} e_ij = 1,

    and the output concatenates all e_i x_i. The architecture takes the strongest operation of every node and the k
    strongest of its edges, where k is the number of its parents. Choices such as ``node3_edges`` have an option for
    each earlier node. Where all earlier nodes are parents there is nothing to choose, and each e_ij is 1.
    """

    net: NB101Supernet

    def __init__(self, net: NB101Supernet) -> None:
        operations = [choice for choice in net.space.choices if choice.kind != "wiring"]
        wirings = [choice for choice in net.space.choices if choice.kind == "wiring"]
        counts = {
            choice.name.replace("parents", "edges"): (node, len(parents_of(choice.options[0])))
            for node, choice in enumerate(wirings, start=1)
        }
        edges = [
            Choice(name, tuple(map(str, range(node))), "wiring") for name, (node, kept) in counts.items() if kept < node
        ]
        super().__init__(net, Space(f"{net.space.name} edges", (*operations, *edges)))
        self._names = tuple(counts)
        self.edges_kept = {choice.name: counts[choice.name][1] for choice in edges}

    def forward(self, x: Tensor, gates: Gates) -> Tensor:
        """Logits (B, classes) with edges and operations mixed by gates (O,) or (B, O)."""
        feeds: list[Mapping[int, Tensor | None]] = [{}]
        for node, name in enumerate(self._names, start=1):
            weighed = name in self.edges_kept
            feeds.append({source: gates[name][..., source] if weighed else None for source in range(node)})
        return self.net.forward_feeds(x, feeds_run(feeds), gates)

    def chosen(self, weights: Gates) -> ChosenOptions:
        """The strongest operation of every node, and the strongest edges into it and into the output."""
        found: ChosenOptions = []
        for name in self.space.choice_names:
            found += [(name, option) for option in _largest(weights[name].tolist(), self.edges_kept.get(name, 1))]
        return found

    def architecture(self, weights: Gates) -> Architecture:
        """The architecture in ``net.space`` of the strongest operations and edges."""
        chosen = self.chosen(weights)
        options: dict[str, str] = {}
        for choice in self.net.space.choices:
            if choice.kind != "wiring":
                options[choice.name] = choice.options[dict(chosen)[choice.name]]
                continue
            name = choice.name.replace("parents", "edges")
            parents = [str(option) for weighed, option in chosen if weighed == name]
            options[choice.name] = ",".join(parents) if parents else choice.options[0]
        return self.net.space.architecture(options)


def relaxation_of(net: Supernet, *, weigh_edges: bool = False) -> Relaxation:
    """The relaxation of a supernet: with edges for DARTS and 1shot1 cells, over the choices of the space for others."""
    if isinstance(net, DartsSupernet):
        return DartsRelaxation(net, weigh_edges=weigh_edges)
    return NB101Relaxation(net) if isinstance(net, NB101Supernet) else Relaxation(net)


def without_option(weights: Gates, choice: str, option: int) -> dict[str, Tensor]:
    """The weights with that of one option set to 0 and the others rescaled to the same sum."""
    kept = weights[choice].clone()
    kept[option] = 0.0
    total = kept.sum()
    return {**weights, choice: kept * (weights[choice].sum() / total) if total > 0 else torch.zeros_like(kept)}


def _largest(weights: Sequence[float], count: int) -> list[int]:
    """The positions of the largest weights in ascending order; the first among equals."""
    return sorted(sorted(range(len(weights)), key=lambda position: -weights[position])[:count])
