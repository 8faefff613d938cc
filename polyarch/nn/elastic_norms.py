"""Normalisation layers that follow elastic channels.

Batch normalisation: Ioffe & Szegedy (2015), arXiv:1502.03167. Layer normalisation: Ba, Kiros and Hinton (2016),
arXiv:1607.06450.
"""

import operator
from collections.abc import Mapping
from functools import reduce
from typing import Any, cast

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from polyarch.nn.block_selection import Selections
from polyarch.nn.elastic_layers import ElasticLayer
from polyarch.nn.grouped_operations import shaped
from polyarch.nn.sizes import Sizes


class _ElasticBatchNorm(ElasticLayer, _BatchNorm):
    """What both kinds share."""

    def __init__(
        self,
        num_features: int | Sizes,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        sizes = Sizes.of(num_features)
        _BatchNorm.__init__(self, sizes.largest, eps, momentum, affine, track_running_stats)
        self.inputs = self.outputs = sizes

    def shapes(self, selections: Selections) -> dict[str, tuple[int, ...]]:
        """weight and bias (C,)."""
        return dict.fromkeys(("weight", "bias"), (self.outputs.extent(selections),)) if self.affine else {}

    def compute(self, x: Tensor, selections: Selections) -> Tensor:
        """(B, C, ...) -> (B, C, ...)."""
        self._check_input_dim(x)  # type: ignore[no-untyped-call]
        momentum = self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # torch's name for the cumulative average
                momentum = 1.0 / float(self.num_batches_tracked)
        width = x.shape[1]
        mean, variance, weight, bias = (
            whole if whole is None or width == self.num_features else whole[:width]
            for whole in (self.running_mean, self.running_var, self.weight, self.bias)
        )
        training = self.training or mean is None
        y = F.batch_norm(x, mean, variance, weight, bias, training, momentum or 0.0, self.eps)
        return self.outputs.masked(y, selections, self.dim)

    def plain(self, indices: Mapping[str, int], **factory: Any) -> nn.Module:
        """The torch layer of the same kind."""
        kind = nn.BatchNorm2d if isinstance(self, nn.BatchNorm2d) else nn.BatchNorm1d
        width = self.outputs.extent(indices)
        return kind(width, self.eps, self.momentum, self.affine, self.track_running_stats, **factory)


class ElasticBatchNorm1d(_ElasticBatchNorm, nn.BatchNorm1d):
    """``nn.BatchNorm1d`` that follows elastic features: ``ElasticBatchNorm1d(width)``; see `ElasticBatchNorm2d`."""


class ElasticBatchNorm2d(_ElasticBatchNorm, nn.BatchNorm2d):
    """``nn.BatchNorm2d`` that follows elastic channels: ``ElasticBatchNorm2d(width)``.

    All widths share scale, shift and running averages of the channels they have in common. Running averages therefore
    mix widths, so that a path is best evaluated with its own (`polyarch.nn.NormPolicy`), as in any supernet.

    In a mixed pass the input comes weighted by m (see `ElasticLayer`), and the output is weighted again. In training
    mode the normalisation cancels the first weights: the output is m * norm(x), the mixture of all widths. In
    evaluation mode the running averages do not cancel them, and only one-hot gates give exactly the hard path. With
    gates per example, the zeros of examples that lack a channel count in its batch statistics.

    Args:
        num_features: a number or `Sizes`.
    """


class ElasticLayerNorm(ElasticLayer, nn.LayerNorm):
    """``nn.LayerNorm`` over the last dimension that follows elastic features: ``ElasticLayerNorm(width)``.

    A mixed pass normalises the leading features of every width w_o by themselves and mixes the results:
    sum_o gate_o [norm(x_1 ... x_{w_o}), 0 ... 0].

    Args:
        normalized_shape: a number or `Sizes`.
    """

    dim = -1

    def __init__(
        self, normalized_shape: int | Sizes, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True
    ) -> None:
        sizes = Sizes.of(normalized_shape)
        nn.LayerNorm.__init__(self, sizes.largest, eps, elementwise_affine, bias)
        self.inputs = self.outputs = sizes

    def shapes(self, selections: Selections) -> dict[str, tuple[int, ...]]:
        """weight and bias (C,)."""
        names = [name for name in ("weight", "bias") if getattr(self, name) is not None]
        return dict.fromkeys(names, (self.outputs.extent(selections),))

    def compute(self, x: Tensor, selections: Selections) -> Tensor:
        """(..., C) -> (..., C)."""
        sizes, weights = self.outputs.among(selections)
        if weights is None:
            return self._normalised(x, x.shape[-1])
        gates = [shaped(gate, x) for gate in weights.unbind(-1)]
        padded = [F.pad(self._normalised(x, size), [0, x.shape[-1] - size]) for size in sizes]
        return cast(Tensor, reduce(operator.add, map(operator.mul, gates, padded)))

    def plain(self, indices: Mapping[str, int], **factory: Any) -> nn.Module:
        """An ``nn.LayerNorm``."""
        width = self.outputs.extent(indices)
        return nn.LayerNorm(width, self.eps, self.elementwise_affine, self.bias is not None, **factory)

    def _normalised(self, x: Tensor, size: int) -> Tensor:
        weight, bias = (None if value is None else value[:size] for value in (self.weight, self.bias))
        return F.layer_norm(x[..., :size], (size,), weight, bias, self.eps)
