"""Mixtures whose weights differ from example to example, every operation run on its own examples only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from polyarch.nn.norm_policies import norm_layers


def mix_grouped(operations: Sequence[nn.Module], x: Tensor, weights: Tensor) -> Tensor:
    """sum_o weights[b, o] * operation_o(x)[b] for every example b, operations run where their weight is not zero.

    With one-hot weights every example goes through one operation, so that there is as much to compute as for one
    operation on all of them.

    An operation sees its own examples as a batch. In evaluation mode that makes no difference. In training mode its
    normalisation layers use the statistics of these examples alone, as if they were a batch for this operation, and
    running averages take one step towards them, however few they are. A single example can have no variance, as a
    vector or a pixel: where layers use the statistics of their batch, such an operation is run on all examples, and
    the output of the one is taken.

    Args:
        x: (B, ...); the output of images with channels last in memory has them last, too.
        weights: (B, O), a column for every operation; not all of them zero.
    """
    drawn = weights != 0
    columns, rows = drawn.t().nonzero().unbind(1)  # (N,), operation after operation
    gates, rows = weights[rows, columns], rows.to(x.device)
    # Taken apart and put together once: otherwise every operation would have a gradient of the size of x.
    sizes: list[int] = drawn.sum(0).tolist()
    groups = zip(operations, rows.split(sizes), _rows_of(x, rows).split(sizes), strict=True)
    outputs = torch.cat([_output(operation, own, part, x) for operation, own, part in groups if len(own)])
    if weights.requires_grad or not gates.eq(1).all():  # a factor of one would be passes over values for nothing
        outputs = shaped(gates, outputs) * outputs
    return _summed(outputs, rows, len(x))


def shaped(gate: Tensor, x: Tensor) -> Tensor:
    """A weight () or (B,), shaped to multiply x."""
    return gate.to(x) if gate.dim() == 0 else gate.to(x).reshape(-1, *[1] * (x.dim() - 1))


def _output(operation: nn.Module, rows: Tensor, part: Tensor, x: Tensor) -> Tensor:
    """Of an operation for some rows of x, which are the part."""
    alone = len(rows) == 1 and any(layer.training or layer.running_mean is None for layer in norm_layers(operation))
    output: Tensor = operation(x)[rows] if alone else operation(part)
    return output


def _rows_of(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows]: (B, ...), (N,) -> (N, ...)."""
    return _as_in_memory(lambda x: x.index_select(0, rows), x)


def _summed(terms: Tensor, rows: Tensor, count: int) -> Tensor:
    """Every term added to its row of zeros: (N, ...), (N,) -> (count, ...)."""
    return _as_in_memory(lambda terms: terms.new_zeros(count, *terms.shape[1:]).index_add_(0, rows, terms), terms)


def _as_in_memory(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """function(x) for a function of rows, whose results torch by itself lays out with channels first."""
    if x.dim() == 4 and x.stride(1) == 1 < x.stride(3):
        return function(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    return function(x)
