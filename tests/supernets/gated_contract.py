"""The contract of supernets whose channels are kept or dropped."""

from __future__ import annotations

import torch

from polyarch.randomness import generator_at
from polyarch.supernets import GatedSupernet
from polyarch.testing import SupernetContract


class GatedContract(SupernetContract):
    """As for all supernets, but the layers of a path run with all of their channels.

    An extracted network with folded constants equals its path in evaluation mode alone.
    """

    def test_extracted_network_follows_its_mode(self) -> None:
        net, x, architectures = self._trained()
        assert isinstance(net, GatedSupernet)
        unfolded = [architecture for architecture in architectures if not net.folds(architecture)]
        assert unfolded
        for architecture in architectures:
            network = net.extract(architecture)
            for mode in (False, True) if architecture in unfolded else (False,):  # training updates the statistics
                network.train(mode)
                assert all(module.training == mode for module in network.modules())
                self._assert_close(network(x), net.train(mode)(x, architecture))

    def test_a_path_computes_only_what_it_selects(self) -> None:
        """Here a path multiplies by zeros, and its kernels stay whole: what is left out has a gradient of zero."""
        net, x, architectures = self._trained()
        assert isinstance(net, GatedSupernet)
        for architecture in (one for one in architectures if not net.folds(one)):
            net.zero_grad(set_to_none=True)
            network = net.extract(architecture).train()
            squares = []
            for output, module in ((net.train()(x, architecture), net), (network(x), network)):
                weights = torch.randn(output.shape, generator=generator_at(0, "loss")).to(output)
                (output * weights).sum().backward()
                gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
                squares.append(sum(gradient.square().sum() for gradient in gradients))
            torch.testing.assert_close(*squares)

    def test_notations_say_which_network(self) -> None:
        net, _, architectures = self._trained()
        assert isinstance(net, GatedSupernet)
        assert [net.parse(net.notation(architecture)) for architecture in architectures] == architectures
