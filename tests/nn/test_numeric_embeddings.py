"""Embeddings of numbers against their formulas, number by number."""

from __future__ import annotations

import math
from statistics import NormalDist

import torch
from torch import Tensor

from polyarch.nn.numeric_embeddings import NumericEmbedding, PeriodicEmbedding, PiecewiseLinearEmbedding
from polyarch.randomness import generator_at, global_seed

FEATURES, SIZE = 3, 2


def numbers(rows: int) -> Tensor:
    return 2 * torch.randn(rows, FEATURES, dtype=torch.float64, generator=generator_at(0, "numbers"))


def check(embedding: NumericEmbedding, x: Tensor, codes: Tensor) -> None:
    """Codes (B, F, K), then a linear layer of its own for every number, and a ReLU."""
    torch.testing.assert_close(embedding.encoded(x[..., None]), codes)
    layer = embedding.linear[0]
    weight, bias = layer.weight.view(FEATURES, SIZE, -1), layer.bias.view(FEATURES, SIZE)  # type: ignore[operator]
    expected = torch.relu(torch.einsum("bfk,fsk->bfs", codes, weight) + bias)
    torch.testing.assert_close(embedding(x), expected.flatten(1))


def test_periodic_codes_are_sines_and_cosines() -> None:
    with global_seed(0, "weights"):
        embedding = PeriodicEmbedding(FEATURES, size=SIZE, frequencies=4, scale=0.5).double()
    x = numbers(5)
    angles = 2 * math.pi * x[..., None] * embedding.frequencies
    check(embedding, x, torch.cat([angles.sin(), angles.cos()], -1))


def test_frequencies_start_at_their_scale() -> None:
    with global_seed(0, "weights"):
        embedding = PeriodicEmbedding(200, frequencies=50, scale=0.3)
    assert abs(float(embedding.frequencies.detach().std()) - 0.3) < 0.01


def test_piecewise_codes_say_how_far_a_number_is_through_every_bin() -> None:
    bins = 5
    with global_seed(0, "weights"):
        embedding = PiecewiseLinearEmbedding(FEATURES, size=SIZE, bins=bins).double()
    edges = [NormalDist().inv_cdf((edge + 0.5) / (bins + 1)) for edge in range(bins + 1)]
    x = numbers(40)
    assert (x < edges[0]).any() and (x > edges[-1]).any()
    codes = torch.zeros(*x.shape, bins, dtype=torch.float64)
    for row in range(len(x)):
        for feature in range(FEATURES):
            value = float(x[row, feature])
            for k in range(bins):
                share = (value - edges[k]) / (edges[k + 1] - edges[k])
                if share < 0 and k > 0:
                    share = 0.0
                if share > 1 and k < bins - 1:
                    share = 1.0
                codes[row, feature, k] = share
    torch.testing.assert_close(
        embedding.encoded(x[..., None]), codes, rtol=1e-5, atol=1e-5
    )  # edges in single precision
    check(embedding, x, embedding.encoded(x[..., None]))


def test_numbers_do_not_mix() -> None:
    for embedding in (PeriodicEmbedding(FEATURES, size=SIZE), PiecewiseLinearEmbedding(FEATURES, size=SIZE)):
        x = numbers(1)
        other = x.clone()
        other[0, 1] += 1
        first, second = (embedding.double()(values).view(FEATURES, SIZE) for values in (x, other))
        assert first[[0, 2]].equal(second[[0, 2]])
