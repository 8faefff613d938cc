"""Small random data for tests."""

from collections.abc import Sequence

import torch

from polyarch.data import TensorData
from polyarch.randomness import generator_at


def random_data(shape: Sequence[int], *, examples: int = 32, classes: int = 3, seed: int = 0) -> TensorData:
    """Normal inputs (examples, \\*shape) with learnable labels: the class shifts the mean."""
    targets = torch.arange(examples) % classes
    noise = torch.randn(examples, *shape, generator=generator_at(seed, "data"))
    return TensorData(noise + targets.view(-1, *[1] * len(shape)), targets, classes)
