"""Dropout with an explicit generator, and dropout in evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, nn
from torch.nn.modules.dropout import _DropoutNd

from polyarch.randomness import seed_global


def dropout_layers(module: nn.Module) -> Iterator[_DropoutNd]:
    """The dropout layers of a network with p > 0; calls of ``F.dropout`` are not found."""
    return (layer for layer in module.modules() if isinstance(layer, _DropoutNd) and layer.p > 0)


@contextmanager
def drawing_from(generator: Generator) -> Iterator[None]:
    """Seeds torch's global generator, which dropout uses, with a draw from this generator; then restores its state."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng():
        seed_global(seed)
        yield


@contextmanager
def dropping(network: nn.Module) -> Iterator[None]:
    """Evaluation mode, but with active dropout, inside the block; then restores the previous modes."""
    modes = {part: part.training for part in network.modules()}
    network.eval()
    try:
        for layer in dropout_layers(network):
            layer.training = True
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
