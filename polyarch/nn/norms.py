"""Squared norms of many tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from polyarch.nn.ops import inner


def square_norms(tensors: Sequence[Tensor]) -> Tensor:
    """||t||^2 of every tensor, (T,), from one pass over each forward, and one backward."""
    return cast(Tensor, _SquareNorms.apply(*tensors))  # type: ignore[no-untyped-call]


class _SquareNorms(torch.autograd.Function):
    """torch's own squares write a tensor forward and two backward for each."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*tensors: Tensor) -> Tensor:
        return torch.stack([inner(tensor, tensor) for tensor in tensors])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, ...]:
        factors = (2 * gradients[0]).unbind(0)
        return tuple(factor * tensor for factor, tensor in zip(factors, ctx.saved_tensors, strict=True))
