"""Modules that read several earlier ones, with shared weights or with weights that depend on the wiring.

Deng et al. (2020), "Understanding and Exploring the Network with Stochastic Architectures", NeurIPS.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import cast

import torch
from torch import Tensor, nn

from polyarch.nn.choice_block import plus
from polyarch.nn.operations import relu_conv_bn
from polyarch.nn.path_recording import call, constant


@dataclass(frozen=True)
class Read:
    """Reads the uniform mean of some of the earlier features."""

    sources: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ReadWeighted:
    """Reads sum_i w_i f_i over all j earlier features f_i."""

    weights: Tensor  # (j,), or (j, B) per example
    skipping: bool  # whether to skip features whose weight is zero for all examples, see `skipping_zeros`


@dataclass(frozen=True)
class ReadAs:
    """Reads under one of the wirings for which a `DependentModule` has its own weights."""

    wiring: int


@dataclass(frozen=True, eq=False)
class ReadAsEach:
    """Reads every example under its own wiring."""

    used: tuple[int, ...]  # the wirings in use; all others get no gradient
    rows: Tensor  # (B,) the position in ``used`` of each example's wiring


Reading = Read | ReadWeighted | ReadAs | ReadAsEach
"""How a module reads the earlier features of its stage."""


def mean_of(features: Sequence[Tensor]) -> Tensor:
    """The mean of one or more features (B, C, H, W) or symbols."""
    total = reduce(operator.add, features)
    return total if len(features) == 1 else total / len(features)


def weighted_sum(features: Sequence[Tensor], weights: Tensor) -> Tensor:
    """sum_i w_i f_i of features (B, C, H, W) with weights (j,) or (j, B), accumulated in place.

    An einsum takes several times as long because every module would have to stack all features before it.
    """
    if weights.dim() == 2:
        weights = weights[..., None, None, None]
    total = weights[0] * features[0]
    for weight, feature in zip(weights[1:], features[1:], strict=True):
        total = total.addcmul_(weight, feature)
    return total


def read_features(features: Sequence[Tensor], reading: Reading) -> Tensor:
    """What a module, or the output of a stage, reads of j features (B, C, H, W), without weights of wirings."""
    if isinstance(reading, Read):
        return mean_of([features[source] for source in reading.sources])
    assert isinstance(reading, ReadWeighted)
    weights = reading.weights
    if reading.skipping:
        used: list[int] = weights.reshape(len(features), -1).any(1).nonzero().flatten().tolist()
        features, weights = [features[source] for source in used], weights[used]
    return weighted_sum(features, weights)


class WiredModule(nn.Module):
    """ReLU, 3x3 convolution and batch normalisation of a mean of earlier features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.operation = relu_conv_bn(width, width, 3)

    def forward(self, features: Sequence[Tensor], reading: Reading) -> Tensor:
        """j features (B, C, H, W) -> (B, C, H, W)."""
        return call(self.operation, read_features(features, reading))


class WiringNorm(nn.Module):
    """Batch normalisation with a scale and shift for every wiring s, but statistics of all examples:

    y = scale_s (x - mean) / sqrt(var + eps) + shift_s
    """

    def __init__(self, width: int, wirings: int) -> None:
        super().__init__()
        self.statistics = nn.BatchNorm2d(width, affine=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(wirings))
        self._share()

    def forward(self, x: Tensor, reading: ReadAs | ReadAsEach) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        if isinstance(reading, ReadAs):
            return call(self.norms[reading.wiring], x)
        norms = [cast(nn.BatchNorm2d, self.norms[wiring]) for wiring in reading.used]
        scale, shift = (
            torch.stack([getattr(norm, name) for norm in norms])[reading.rows][..., None, None]  # (B, C, 1, 1)
            for name in ("weight", "bias")
        )
        return torch.addcmul(shift, scale, self.statistics(x))

    def unselected(self, wiring: int) -> Iterator[nn.Parameter]:
        """The parameters of all other wirings."""
        for other, norm in enumerate(self.norms):
            if other != wiring:
                yield from norm.parameters()

    def _share(self) -> None:
        for norm in self.norms:
            for name, buffer in self.statistics.named_buffers():
                setattr(norm, name, buffer)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "WiringNorm":
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._share()  # moving or casting has created new buffers in every layer
        return self


class WiringNormed(nn.Module):
    """Layers with a `WiringNorm` after them, and possibly a pooling: what stands before a stage."""

    def __init__(self, before: nn.Module, width: int, wirings: int, after: nn.Module | None = None) -> None:
        super().__init__()
        self.before = before
        self.norm = WiringNorm(width, wirings)
        self.after = nn.Identity() if after is None else after

    def forward(self, x: Tensor, reading: ReadAs | ReadAsEach) -> Tensor:
        """(B, C, H, W) -> (B, width, H', W')."""
        return call(self.after, cast(Tensor, self.norm(call(self.before, x), reading)))


class DependentSum(nn.Module):
    """sum_i c_si f_i of j earlier features f_i, with coefficients c of its own for each wiring s.

    They start as those of the mean over the k_s features that wiring s reads, and stay between zero and twice that:

        c_si = (2 / k_s) sigmoid(t_si),    t = 0 at first

    Args:
        sources: for every wiring, the features that are read.
        bounded: whether c is a sigmoid; otherwise c itself is learned, starting at 1 / k_s.
    """

    masks: Tensor

    def __init__(self, sources: Sequence[Sequence[int]], *, bounded: bool = True) -> None:
        super().__init__()
        self.sources = tuple(tuple(some) for some in sources)
        self.bounded = bounded
        masks = torch.zeros(len(sources), max(map(max, sources)) + 1)  # (S, j)
        for mask, some in zip(masks, sources, strict=True):
            mask[list(some)] = 1.0
        self.register_buffer("masks", masks, persistent=False)
        # Separate parameters: weights of wirings that are not in use get no gradient, so optimisers leave them alone.
        self.coefficients = nn.ParameterList([torch.zeros_like(m) if bounded else m / m.sum() for m in masks])

    def forward(self, features: Sequence[Tensor], reading: Reading) -> Tensor:
        """j features (B, C, H, W) -> (B, C, H, W)."""
        return self.total(features, reading)

    def total(self, features: Sequence[Tensor], reading: Reading) -> Tensor:
        """The sum."""
        if isinstance(reading, ReadAs):
            return self._total_as(features, reading.wiring)
        assert isinstance(reading, ReadAsEach)
        own = torch.stack([self._values(wiring) for wiring in reading.used])
        weights = (own * self.masks[list(reading.used)])[reading.rows].t()  # (j, B)
        read = sorted({source for wiring in reading.used for source in self.sources[wiring]})
        return weighted_sum([features[source] for source in read], weights[read])

    def _values(self, wiring: int) -> Tensor:
        """The coefficients c of one wiring, (j,)."""
        learned: Tensor = self.coefficients[wiring]
        return learned.sigmoid() * (2 / len(self.sources[wiring])) if self.bounded else learned

    def _total_as(self, features: Sequence[Tensor], wiring: int) -> Tensor:
        coefficients = constant(self._values(wiring), features[0], owner=self, name="selected_coefficients")
        total = None
        for source in self.sources[wiring]:
            total = plus(total, coefficients[source] * features[source])
        assert total is not None
        return total

    def unselected(self, wiring: int) -> Iterator[nn.Parameter]:
        """The parameters of all other wirings."""
        return (one for other, one in enumerate(self.coefficients) if other != wiring)


class DependentModule(DependentSum):
    """A `WiredModule` with its own weights for each wiring s: a `DependentSum` instead of the mean, scale and shift.

    Convolution and statistics are shared.

    Args:
        own_norms: whether scale and shift depend on the wiring, too.
    """

    def __init__(
        self, width: int, sources: Sequence[Sequence[int]], *, bounded: bool = True, own_norms: bool = True
    ) -> None:
        super().__init__(sources, bounded=bounded)
        relu, convolution, norm = relu_conv_bn(width, width, 3)
        self.operation = nn.Sequential(relu, convolution)
        self.norm = WiringNorm(width, len(sources)) if own_norms else norm

    def forward(self, features: Sequence[Tensor], reading: Reading) -> Tensor:
        """j features (B, C, H, W) -> (B, C, H, W)."""
        found = call(self.operation, self.total(features, reading))
        if isinstance(self.norm, WiringNorm):
            return cast(Tensor, self.norm(found, reading))
        return call(self.norm, found)
