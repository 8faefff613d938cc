"""The NAS-Bench-1shot1 supernet: operations on the nodes of a cell that is repeated as in NAS-Bench-101.

Zela, Siems and Hutter (2020), "NAS-Bench-1Shot1: Benchmarking and Dissecting One-shot Neural Architecture Search",
arXiv:2001.10422.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

import torch
from torch import Tensor, nn

from polyarch.nn import ChoiceBlock, call, gate_for, plus, skips_zeros
from polyarch.nn.operations import conv_bn_relu, nb101_operation, relu_conv_bn
from polyarch.spaces import NB101_OPERATIONS, NB101_PARENTS, Architecture, Gates, Space, nb101_parents, nb101_space
from polyarch.spaces.nb101 import parents_of
from polyarch.supernets.supernet import Supernet, count_parameters, pooled_head, require_sizes

Feeds = tuple[Mapping[int, Tensor | None], ...]
"""For every node, the nodes that feed it and their weights () or (B,); None is a weight of one."""


class GraphCell(nn.Module):
    """Node j is its operation on the sum of its parents; the output is the concatenation of its parents.

    Nodes have C channels. Where the input is a parent, a 1x1 convolution projects it, one for each node and one for the
    output. Nodes that are not parents of the output leave their part of it zero, so that shapes and weights of the next
    cell are the same for all architectures: (B, inputs, H, W) -> (B, (nodes + 1) C, H, W).
    """

    def __init__(self, inputs: int, channels: int, nodes: int) -> None:
        super().__init__()
        self.projections = nn.ModuleList(conv_bn_relu(inputs, channels, 1) for _ in range(nodes + 1))
        self.blocks = nn.ModuleList(
            ChoiceBlock(f"node{node}_operation", [nb101_operation(name, channels) for name in NB101_OPERATIONS])
            for node in range(1, nodes + 1)
        )

    def forward(self, x: Tensor, feeds: Feeds, operations: Architecture | Gates) -> Tensor:
        """(B, inputs, H, W) -> (B, (nodes + 1) C, H, W)."""
        values: dict[int, Tensor] = {}
        for node, block in enumerate(self.blocks, start=1):
            terms = self._terms(x, node, feeds[node], values)
            if terms:  # otherwise nothing depends on it
                assert isinstance(block, ChoiceBlock)
                values[node] = block(sum(terms[1:], start=terms[0]), operations[block.choice])
        last = len(self.projections)
        parts = dict(zip(feeds[last], self._terms(x, last, feeds[last], values), strict=True))
        nothing = torch.zeros_like(next(iter(parts.values())))
        return torch.cat([parts.get(node, nothing) for node in range(last)], dim=1)

    def _terms(
        self, x: Tensor, node: int, sources: Mapping[int, Tensor | None], values: Mapping[int, Tensor]
    ) -> list[Tensor]:
        """The weighted features of the sources of a node."""
        terms = []
        for source, weight in sources.items():
            value = values[source] if source else call(self.projections[node - 1], x)
            terms.append(value if weight is None else gate_for(weight.unsqueeze(-1), 0, value) * value)
        return terms


@lru_cache(maxsize=65536)
def live_feeds(parents: tuple[tuple[int, ...], ...]) -> Feeds:
    """The parents of the nodes that the output depends on; other nodes have none."""
    return _useful([dict.fromkeys(sources) for sources in parents])


def _useful(feeds: Sequence[Mapping[int, Tensor | None]]) -> Feeds:
    """The sources of nodes that the output depends on; nothing for other nodes."""
    used = {len(feeds) - 1}
    for node in reversed(range(len(feeds))):
        if node in used:
            used.update(feeds[node])
    return tuple(sources if node in used else {} for node, sources in enumerate(feeds))


def weighted_feeds(gates: Gates, space: Space) -> Feeds:
    """All nodes feed all later ones, weighted by the summed gates of the wiring options that name them."""
    feeds: list[dict[int, Tensor | None]] = [{}]
    for choice in space.choices:
        if choice.kind == "wiring":
            weights: dict[int, Tensor | None] = {}
            for index, option in enumerate(choice.options):
                for source in parents_of(option):
                    weights[source] = plus(weights.get(source), gates[choice.name][..., index])
            feeds.append(weights)
    return feeds_run(feeds)


def feeds_run(feeds: Sequence[Mapping[int, Tensor | None]]) -> Feeds:
    """The weighted sources that a pass runs: all of them, or inside `skipping_zeros` those that reach the output."""
    if not skips_zeros():
        return tuple(feeds)
    # A node whose sources all have weight zero keeps them: its operation turns zeros into something else.
    return _useful(
        [{source: w for source, w in sources.items() if w is None or w.any()} or sources for sources in feeds]
    )


class NB101Supernet(Supernet):
    """Stem, three stacks of cells with max-pooling between them, 1x1 convolution, pooled linear head.

    As in NAS-Bench-1shot1's own supernet, all nodes have the same width, and the output of a cell concatenates them
    all. NAS-Bench-101 divides the width among the parents of the output instead. Accepts images of any size:
    (B, in_channels, H, W) -> (B, classes).

    Args:
        space: 1, 2 or 3.
        channels: C of the stem and the first stack; it doubles with each stack. The benchmark's networks have 128.
        cells: cells per stack; the benchmark's networks and 1shot1's supernet have 3.
    """

    def __init__(
        self, space: int = 1, *, channels: int = 16, cells: int = 3, in_channels: int = 3, classes: int = 10
    ) -> None:
        super().__init__(nb101_space(space))
        require_sizes(classes, channels=channels, cells=cells, in_channels=in_channels)
        nodes = len(NB101_PARENTS[space]) - 2
        self.stem = conv_bn_relu(in_channels, channels, 3)
        layers: list[nn.Module] = []
        inputs = width = channels
        for stack in range(3):
            width = channels * 2**stack
            if stack:
                layers.append(nn.MaxPool2d(2, stride=2, ceil_mode=True))
            for _ in range(cells):
                layers.append(GraphCell(inputs, width, nodes))
                inputs = (nodes + 1) * width
        self.layers = nn.ModuleList(layers)
        self.head = pooled_head(relu_conv_bn(inputs, width, 1, affine=False), width=width, classes=classes)

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes)."""
        if isinstance(architecture, Architecture):
            feeds = live_feeds(nb101_parents(self.space.validate(architecture)))
        else:
            feeds = weighted_feeds(architecture, self.space)
        return self.forward_feeds(x, feeds, architecture)

    def forward_feeds(self, x: Tensor, feeds: Feeds, operations: Architecture | Gates) -> Tensor:
        """Logits (B, classes) from what feeds every node of the cells, and the operations on their nodes."""
        x = call(self.stem, x)
        for layer in self.layers:
            x = layer(x, feeds, operations) if isinstance(layer, GraphCell) else call(layer, x)
        return call(self.head, x)

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights of the extracted network, without unused nodes, as in NAS-Bench-101."""
        feeds = live_feeds(nb101_parents(architecture))
        everything, operations = self._parameter_table
        unused = sum(self._projection_sizes[node] for node, sources in enumerate(feeds) if 0 not in sources)
        names = (f"node{node}_operation" for node, sources in enumerate(feeds[:-1]) if sources)
        return everything - unused + sum(operations[name, architecture[name]] for name in names)

    @cached_property
    def _projection_sizes(self) -> list[int]:
        """For every node, the parameters of the projections of the input to it, over all cells."""
        cells = [layer for layer in self.layers if isinstance(layer, GraphCell)]
        rows = zip(*(cell.projections for cell in cells), strict=True)
        return [0, *(count_parameters(*row) for row in rows)]
