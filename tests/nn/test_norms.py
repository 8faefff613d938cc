"""Squared norms of many tensors: values and derivatives."""

from __future__ import annotations

import torch
from torch.autograd import gradcheck, gradgradcheck

from polyarch.nn.norms import square_norms
from polyarch.randomness import generator_at

SHAPES = ((2, 3, 3, 2), (4, 2), (1, 5, 1, 1), (3,))
TENSORS = [
    torch.randn(shape, dtype=torch.float64, generator=generator_at(0, "tensor", *shape)).requires_grad_()
    for shape in SHAPES
]


def test_values() -> None:
    torch.testing.assert_close(square_norms(TENSORS), torch.stack([tensor.square().sum() for tensor in TENSORS]))
    images = TENSORS[0].detach().contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(square_norms([images])[0], images.square().sum())


def test_derivatives() -> None:
    assert gradcheck(lambda *tensors: square_norms(tensors), TENSORS)
    assert gradgradcheck(lambda *tensors: square_norms(tensors), TENSORS)
    nothing = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda tensor: square_norms([tensor]), nothing)
