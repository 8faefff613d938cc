"""Dropout put into a network that has none."""

from __future__ import annotations

from torch import nn

from polyarch.errors import InvalidInput


def with_dropout(network: nn.Module, p: float) -> None:
    """Puts dropout after every convolution but the first, in place.

    Any network becomes one whose passes differ by chance, such as `MCDropout` expects it. Wide residual networks have
    dropout between the two convolutions of a block: Zagoruyko and Komodakis (2016), arXiv:1605.07146.
    """
    if not 0 < p < 1:
        raise InvalidInput(f"Expected a probability of dropout between 0 and 1. Got {p}.")
    kinds = nn.Conv1d | nn.Conv2d | nn.Conv3d
    layers = [(name, layer) for name, layer in network.named_modules() if isinstance(layer, kinds)]
    if len(layers) < 2:
        raise InvalidInput(f"Expected two or more convolutions. Got {len(layers)}.")
    for name, layer in layers[1:]:
        parent, _, last = name.rpartition(".")
        setattr(network.get_submodule(parent), last, nn.Sequential(layer, nn.Dropout(p)).train(layer.training))
