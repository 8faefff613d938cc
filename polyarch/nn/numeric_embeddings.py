"""Embeddings of the numbers of a table: several features for each, which a fully connected network reads.

Gorishniy, Rubachev and Babenko (2022), "On Embeddings for Numerical Features in Tabular Deep Learning",
arXiv:2203.05556.
"""

import math
from abc import abstractmethod
from statistics import NormalDist
from typing import Literal

import torch
from torch import Tensor, nn

from polyarch.nn.path_recording import Composed, call

Embedding = Literal["none", "periodic", "piecewise"]
"""How the numbers of an example enter the network: as they are, or embedded."""


class NumericEmbedding(Composed):
    """Encodes every number by itself, then applies a linear layer of its own and a ReLU: (B, F) -> (B, F * size).

    Grouped 1x1 convolutions hold the weights of all numbers, so that an extracted network consists of torch layers.

    Args:
        features: F, the numbers per example.
        size: of the embedding of a number.
        codes: K, the size of its encoding.
    """

    def __init__(self, features: int, *, size: int, codes: int) -> None:
        super().__init__()
        self.linear = nn.Sequential(
            nn.Conv1d(features * codes, features * size, 1, groups=features), nn.ReLU(), nn.Flatten()
        )

    @abstractmethod
    def encoded(self, x: Tensor) -> Tensor:
        """(B, F, 1) -> (B, F, K)."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, F) -> (B, F * size)."""
        return call(self.linear, self.encoded(x.unsqueeze(-1)).flatten(1).unsqueeze(-1))


class PeriodicEmbedding(NumericEmbedding):
    """Encodes x as sin(2 pi c_k x) and cos(2 pi c_k x) with learned frequencies, c_k ~ N(0, scale^2) at first."""

    def __init__(self, features: int, *, size: int = 8, frequencies: int = 16, scale: float = 0.1) -> None:
        super().__init__(features, size=size, codes=2 * frequencies)
        self.frequencies = nn.Parameter(torch.randn(features, frequencies) * scale)  # c, (F, K / 2)

    def encoded(self, x: Tensor) -> Tensor:
        """(B, F, 1) -> (B, F, K), sines before cosines."""
        angles = 2 * math.pi * (x * self.frequencies)
        return torch.cat([torch.sin(angles), torch.cos(angles)], -1)


class PiecewiseLinearEmbedding(NumericEmbedding):
    """Encodes x by how far it is through each of K bins, (x - b_{k-1}) / (b_k - b_{k-1}), between 0 and 1.

    The first code has no lower bound and the last no upper one, so that numbers outside of all bins stay apart. The
    bins are at first those between quantiles of a standard normal distribution, which are quantiles of the data where
    ``data.numbers`` is ``quantile``, and they are learned.
    """

    def __init__(self, features: int, *, size: int = 8, bins: int = 8) -> None:
        super().__init__(features, size=size, codes=bins)
        edges = torch.tensor([NormalDist().inv_cdf((edge + 0.5) / (bins + 1)) for edge in range(bins + 1)])
        widths = edges.diff()
        self.slopes = nn.Parameter((1 / widths).repeat(features, 1))  # (F, K)
        self.offsets = nn.Parameter((-edges[:-1] / widths).repeat(features, 1))

    def encoded(self, x: Tensor) -> Tensor:
        """(B, F, 1) -> (B, F, K)."""
        codes = torch.addcmul(self.offsets, x, self.slopes)
        first, middle, last = codes[..., :1], codes[..., 1:-1], codes[..., -1:]
        return torch.cat([first.clamp(max=1), middle.clamp(0, 1), last.clamp(min=0)], -1)


def numeric_embedding(name: Embedding, features: int, size: int) -> NumericEmbedding | None:
    """The embedding of this name with its usual settings; None where numbers stay as they are."""
    if name == "none":
        return None
    return (PeriodicEmbedding if name == "periodic" else PiecewiseLinearEmbedding)(features, size=size)
