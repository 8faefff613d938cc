"""A network whose depth is a choice and whose channels are kept or dropped: both posteriors on one set of weights."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from polyarch.nn import ChannelGraph, run_gated
from polyarch.nn.channel_gates import sliced
from polyarch.nn.path_recording import graphs_of
from polyarch.spaces import Architecture, Gates
from polyarch.supernets.depth import DepthSupernet
from polyarch.supernets.gate_placement import install_gates
from polyarch.supernets.gated import GatedSupernet


class AllDepths(nn.Module):
    """The logits of all depths of a network: (B, ...) -> (D+1, B, classes)."""

    def __init__(self, depths: DepthSupernet) -> None:
        super().__init__()
        self.depths = depths

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (D+1, B, classes)."""
        return self.depths.forward_many(x, self.depths.space.members)


class GatedDepthSupernet(GatedSupernet):
    """A depth network whose blocks read channels that are kept or dropped.

    The first choice of the space is the depth, then come those of the slices. All depths come from one walk, in which
    an example has the same channels at all depths: ``forward_slices`` gives their logits, (D+1, B, classes).

    >>> from polyarch.supernets import ConvolutionalDepth
    >>> depths = ConvolutionalDepth(max_depth=2, channels=4, inner_channels=2)
    >>> net = GatedDepthSupernet(depths, torch.zeros(2, 1, 8, 8))
    >>> net.space.choice_names[:2]
    ('depth', 'depths.blocks.0.2[0]')

    Args:
        depths: it is used, not copied: the convolutions and linear layers of its blocks get gates, each with a drop
            probability of its own.
        example: a batch to try it on.
    """

    def __init__(self, depths: DepthSupernet, example: Tensor) -> None:
        model = AllDepths(depths)
        names = [name for name, module in model.named_modules() if ".blocks." in name and sliced(module)]
        gates = install_gates(model, example, {name: [name] for name in names})
        super().__init__(model, example, gates, name=f"{depths.space.name} gated", first=depths.space.choices)

    @property
    def depths(self) -> DepthSupernet:
        """The network of which every depth is a choice."""
        assert isinstance(self.model, AllDepths)
        return self.model.depths

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, ...) -> (B, classes); gates mix the logits of all depths."""
        if isinstance(architecture, Architecture):
            walk = partial(self.depths, architecture=self._depth(architecture))
            return run_gated(walk, x, self.by_gate(self.slices(architecture)))
        logits = self.forward_slices(x, self.weights(architecture))
        weights = architecture["depth"].to(logits)
        return torch.einsum("d,dbc->bc" if weights.dim() == 1 else "bd,dbc->bc", weights, logits)

    def graph(self, architecture: Architecture) -> ChannelGraph:
        """The network of the architecture's depth, over the very modules of this one."""
        depth = self._depth(architecture)
        if depth["depth"] not in self._graphs:
            (network,) = graphs_of(self.depths, [lambda x: self.depths(x, depth)])
            self._graphs[depth["depth"]] = ChannelGraph(network, self.example)
        return self._graphs[depth["depth"]]

    def _depth(self, architecture: Architecture) -> Architecture:
        return self.depths.space.members[self.space.validate(architecture)["depth"]]
