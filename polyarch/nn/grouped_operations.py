"""Mixtures with different weights for each example, in which every operation runs only on its own examples."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from polyarch.nn.norm_policies import norm_layers


def mix_grouped(operations: Sequence[nn.Module], x: Tensor, weights: Tensor) -> Tensor:
    """sum_o weights[b, o] * operation_o(x)[b] for every example b, computed only for nonzero weights.

    With one-hot weights this costs as much as one operation on all examples.

    In training mode, the normalisation layers of an operation use the statistics of its own examples, and their running
    averages take one step towards them, however few they are. A single example may have no variance (a vector, a
    pixel): an operation that needs batch statistics then runs on all examples, and one output is kept.

    Args:
        x: (B, ...); channels-last images give channels-last outputs.
        weights: (B, O), one column per operation, not all zero.
    """
    drawn = weights != 0
    columns, rows = drawn.t().nonzero().unbind(1)  # (N,), operation after operation
    gates, rows = weights[rows, columns], rows.to(x.device)
    # Split and concatenated once; otherwise every operation would have a gradient of the size of x.
    sizes: list[int] = drawn.sum(0).tolist()
    parts = _as_in_memory(lambda x: x.index_select(0, rows), x).split(sizes)
    groups = zip(operations, rows.split(sizes), parts, strict=True)
    outputs = torch.cat([_output(operation, own, part, x) for operation, own, part in groups if len(own)])
    if weights.requires_grad or not gates.eq(1).all():  # skips multiplications by 1
        outputs = shaped(gates, outputs) * outputs
    return _as_in_memory(lambda terms: terms.new_zeros(len(x), *terms.shape[1:]).index_add_(0, rows, terms), outputs)


def shaped(gate: Tensor, x: Tensor) -> Tensor:
    """A weight () or (B,), reshaped to multiply x."""
    return gate.to(x) if gate.dim() == 0 else gate.to(x).reshape(-1, *[1] * (x.dim() - 1))


def _output(operation: nn.Module, rows: Tensor, part: Tensor, x: Tensor) -> Tensor:
    """The output of an operation for some rows of x; ``part`` is x[rows]."""
    alone = len(rows) == 1 and any(layer.training or layer.running_mean is None for layer in norm_layers(operation))
    output: Tensor = operation(x)[rows] if alone else operation(part)
    return output


def _as_in_memory(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """function(x) for a function of rows, in the memory layout of x; torch alone would put channels first."""
    if x.dim() == 4 and x.stride(1) == 1 < x.stride(3):
        return function(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    return function(x)
