"""What happens between the stages of a progressive search."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from polyarch.distributions import FactorisedCategorical, FactorisedDirichlet
from polyarch.methods.differentiable.training import drop_skips, strongest_options
from polyarch.nn import OneOf
from polyarch.randomness import generator_at
from polyarch.spaces import Choice, Space
from polyarch.supernets import DartsSupernet, NB201Supernet, Supernet, from_module


def test_the_strongest_options_stay_in_their_order() -> None:
    space = Space("two", (Choice("a", ("x", "y", "z")), Choice("b", ("0,1", "0,2", "1,2"), "wiring")))
    q = FactorisedCategorical(space, {"a": torch.tensor([0.1, 2.0, 1.0])})
    assert strongest_options(q, 2) == {"a": [1, 2]}
    assert strongest_options(q, 5) == {"a": [0, 1, 2]}
    assert strongest_options(FactorisedDirichlet(space, {"a": torch.tensor([3.0, 0.0, 1.0])}), 1) == {"a": [0]}


@pytest.mark.parametrize(
    ("net", "skips"),
    [
        (NB201Supernet(channels=2, cells=1), 18),
        (DartsSupernet(layers=3, channels=2, operations=("skip_connect", "max_pool_3x3")), 14 * 3 - 16),
        (from_module(nn.Sequential(OneOf("a", same=nn.Identity(), other=nn.Tanh()), nn.Identity())), 1),
    ],
)
def test_skips_get_dropout_and_stay_what_they_are_in_evaluation(net: Supernet, skips: int) -> None:
    x = torch.randn(4, 3, 8, 8, generator=generator_at(0, "images"))
    architecture = net.space.sample(generator_at(0, "architecture"))
    net.eval()
    before = net(x, architecture)
    layers = drop_skips(net)
    assert len(layers) == skips  # reduction cells of DARTS halve the resolution on edges from their two inputs
    net.eval()
    torch.testing.assert_close(net(x, architecture), before)
    for layer in layers:
        layer.p = 1.0
    torch.testing.assert_close(net(x, architecture), before)
    assert not any(isinstance(module, nn.Identity) for module in _options(net))


def _options(net: Supernet) -> list[nn.Module]:
    return [module for name, module in net.named_modules() if "operations" in name or "options" in name]
