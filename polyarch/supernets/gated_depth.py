"""A network whose depth is a choice and whose channels are kept or dropped, with one set of weights.

Combines Antorán et al. (2020), arXiv:2002.02797, with Zhou et al. (2020), arXiv:1906.09557.
"""

from functools import partial

from torch import Tensor, nn

from polyarch.data.named_inputs import Inputs
from polyarch.nn import ChannelGraph, run_gated
from polyarch.nn.channel_gates import sliced
from polyarch.nn.path_recording import graphs_of
from polyarch.spaces import Architecture, Gates
from polyarch.supernets.depth import DepthSupernet
from polyarch.supernets.gate_placement import install_gates
from polyarch.supernets.gated import GatedSupernet
from polyarch.supernets.supernet import mix_logits


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

    The first choice of the space is the depth; those of the slices follow. ``forward_slices`` gives the logits of all
    depths, (D+1, B, classes), from one pass in which an example has the same channels at all depths.

    >>> from polyarch.supernets import ConvolutionalDepth, probe
    >>> depths = ConvolutionalDepth(max_depth=2, channels=4, inner_channels=2)
    >>> net = GatedDepthSupernet(depths, probe((1, 8, 8)))
    >>> net.space.choice_names[:2]
    ('depth', 'depths.blocks.0.2[0]')

    Args:
        depths: used, not copied. The convolutions and linear layers of its blocks get gates, each with its own drop
            probability.
        example: a batch to try it on.
    """

    def __init__(self, depths: DepthSupernet, example: Inputs) -> None:
        model = AllDepths(depths)
        names = [name for name, module in model.named_modules() if ".blocks." in name and sliced(module)]
        gates = install_gates(model, example, {name: [name] for name in names})
        super().__init__(model, example, gates, name=f"{depths.space.name} gated", first=depths.space.choices)

    @property
    def depths(self) -> DepthSupernet:
        """The depth network."""
        assert isinstance(self.model, AllDepths)
        return self.model.depths

    def forward(self, x: Inputs, architecture: Architecture | Gates) -> Tensor:
        """(B, ...) -> (B, classes); gates mix the logits of all depths."""
        if isinstance(architecture, Architecture):
            at_depth = partial(self.depths, architecture=self._depth(architecture))
            return run_gated(at_depth, x, self.by_gate(self.slices(architecture)))
        return mix_logits(architecture["depth"], self.forward_slices(x, self.weights(architecture)))

    def start_at_zero(self) -> None:
        """As the depth network does."""
        self.depths.start_at_zero()

    def graph(self, architecture: Architecture) -> ChannelGraph:
        """The graph of the network at the architecture's depth; it shares the modules of this network."""
        depth = self._depth(architecture)
        if depth["depth"] not in self._graphs:
            (network,) = graphs_of(self.depths, [lambda x: self.depths(x, depth)])
            self._graphs[depth["depth"]] = ChannelGraph(network, self.example)
        return self._graphs[depth["depth"]]

    def _depth(self, architecture: Architecture) -> Architecture:
        return self.depths.space.members[self.space.validate(architecture)["depth"]]
