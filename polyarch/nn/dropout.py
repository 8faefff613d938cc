"""Dropout that answers to an explicit generator, and that stays on where everything else is in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, nn
from torch.nn.modules.dropout import _DropoutNd

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
