"""The contract of supernets whose channels are kept or dropped."""

from __future__ import annotations

import torch

from polyarch.randomness import generator_at
from polyarch.supernets import GatedSupernet
from polyarch.testing import SupernetContract


class GatedContract(SupernetContract):
    """As for all supernets, but the layers of a path run with all of their channels."""

    def test_a_path_computes_only_what_it_selects(self) -> None:
        """Here a path multiplies by zeros, and its kernels stay whole: what is left out has a gradient of zero."""
        net, x, architectures = self._trained()
        for architecture in architectures:
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
