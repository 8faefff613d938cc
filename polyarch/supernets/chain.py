"""A chain of layers, each with its own choice of MobileNetV2 block."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import ChoiceBlock, call
from polyarch.nn.ops import conv_bn, inverted_residual
from polyarch.spaces import Architecture, Choice, Gates, Space
from polyarch.supernets.supernet import Supernet


class ChainLayer(nn.Module):
    """A choice of blocks; where shapes allow, the input is added, and ``skip`` passes it on alone."""

    def __init__(self, block: ChoiceBlock, *, residual: bool) -> None:
        super().__init__()
        self.block = block
        self.residual = residual

    def forward(self, x: Tensor, selection: int | Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C', H', W')."""
        if isinstance(selection, int) and not self.block.passes(selection):
            return x
        y: Tensor = self.block(x, selection)
        return x + y if self.residual else y


class ChainSupernet(Supernet):
    """Stem, a chain of choice layers, 1x1 convolution, pooled linear head.

    Args:
        channels: output channels of every layer.
        strides: stride of every layer, 1 by default.
        kernels: kernel sizes on offer.
        expansions: expansion factors on offer; the options are all pairs, named like ``k3e6``.
        skip: whether shape-preserving layers can be left out.
        stem_channels: channels after the stem; its first convolution has twice as many.
        stem_stride: stride of the stem.
        head_channels: channels of the last 1x1 convolution.
    """

    def __init__(
        self,
        *,
        channels: Sequence[int] = (16, 24, 24, 40, 40, 64),
        strides: Sequence[int] | None = None,
        kernels: Sequence[int] = (3, 5, 7),
        expansions: Sequence[int] = (3, 6),
        skip: bool = True,
        in_channels: int = 3,
        classes: int = 10,
        stem_channels: int = 16,
        stem_stride: int = 1,
        head_channels: int = 128,
    ) -> None:
        strides = [1] * len(channels) if strides is None else list(strides)
        if not channels or len(strides) != len(channels):
            raise InvalidInput(f"Expected one stride per layer. Got {len(channels)} layers, {len(strides)} strides.")
        blocks = {f"k{k}e{e}": (k, e) for k in kernels for e in expansions}
        if not blocks:
            raise InvalidInput(f"Expected at least one kernel and one expansion. Got {kernels=}, {expansions=}.")
        layers, choices = [], []
        for position, (inputs, outputs) in enumerate(pairwise([stem_channels, *channels])):
            stride = strides[position]
            residual = inputs == outputs and stride == 1
            options: dict[str, nn.Module | None] = {
                name: inverted_residual(inputs, outputs, kernel=kernel, expansion=expansion, stride=stride)
                for name, (kernel, expansion) in blocks.items()
            }
            if residual and skip:
                options["skip"] = None
            choice = Choice(f"layer{position}", tuple(options))
            choices.append(choice)
            layers.append(ChainLayer(ChoiceBlock(choice.name, list(options.values())), residual=residual))
        super().__init__(Space(f"chain{len(choices)}[{','.join(blocks)}]", tuple(choices)))
        wide = 2 * stem_channels
        self.stem = nn.Sequential(
            *conv_bn(in_channels, wide, 3, stride=stem_stride),
            *conv_bn(wide, wide, 3, groups=wide),
            *conv_bn(wide, stem_channels, 1, activation=False),
        )
        self.layers = nn.ModuleList(layers)
        self.head = nn.Sequential(
            *conv_bn(channels[-1], head_channels, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(head_channels, classes),
        )

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes)."""
        if isinstance(architecture, Architecture):
            self.space.validate(architecture)
        x = call(self.stem, x)
        for name, layer in zip(self.space.choice_names, self.layers, strict=True):
            x = layer(x, architecture[name])
        return call(self.head, x)

    def forward_many(self, x: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """(S, B, classes); every prefix that architectures have in common is computed once."""
        values: dict[tuple[int, ...], Tensor] = {(): self.stem(x)}
        for length, layer in enumerate(self.layers, start=1):
            prefixes = {self.space.validate(architecture).indices[:length] for architecture in architectures}
            values = {prefix: layer(values[prefix[:-1]], prefix[-1]) for prefix in sorted(prefixes)}
        logits = {indices: self.head(value) for indices, value in values.items()}
        return torch.stack([logits[architecture.indices] for architecture in architectures])
