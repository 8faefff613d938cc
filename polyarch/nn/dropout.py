"""Dropout that answers to an explicit generator, and that stays on where everything else is in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, nn
from torch.nn.modules.dropout import _DropoutNd

from polyarch.errors import InvalidInput
from polyarch.randomness import seed_global


def dropout_layers(module: nn.Module) -> Iterator[_DropoutNd]:
    """The dropout layers of a network that drop something; calls of ``F.dropout`` are not layers."""
    return (layer for layer in module.modules() if isinstance(layer, _DropoutNd) and layer.p > 0)


@contextmanager
def drawing_from(generator: Generator) -> Iterator[None]:
    """Inside the block torch's global generator, from which dropout draws, starts at one draw of this generator.

    The caller's global state is put back after it.
    """
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng():
        seed_global(seed)
        yield


@contextmanager
def dropping(network: nn.Module) -> Iterator[None]:
    """Evaluation mode with dropout on inside the block, so with running statistics; then the modes of before."""
    modes = {part: part.training for part in network.modules()}
    network.eval()
    try:
        for layer in dropout_layers(network):
            layer.training = True
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def with_dropout(network: nn.Module, p: float) -> None:
    """Puts dropout in front of every convolution and linear layer but the first, in place.

    Any network becomes one whose passes differ by chance, such as `polyarch.predictive.MCDropout` wants it.
    """
    if not 0 < p < 1:
        raise InvalidInput(f"Expected a probability of dropout between 0 and 1. Got {p}.")
    kinds = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear
    layers = [(name, layer) for name, layer in network.named_modules() if isinstance(layer, kinds)]
    if len(layers) < 2:
        raise InvalidInput(f"Expected two or more convolutions or linear layers. Got {len(layers)}.")
    for name, layer in layers[1:]:
        parent, _, last = name.rpartition(".")
        setattr(network.get_submodule(parent), last, nn.Sequential(nn.Dropout(p), layer).train(layer.training))
