"""Chains of layers, each with its own choice of MobileNetV2 block.

Sandler et al. (2018), "MobileNetV2: Inverted Residuals and Linear Bottlenecks", arXiv:1801.04381; `fairnas_chain`: Chu
et al. (2021), "FairNAS: Rethinking Evaluation Fairness of Weight Sharing Neural Architecture Search", arXiv:1907.01845;
inter-choice weights: Laube and Zell (2021), "Inter-choice dependent super-network weights", arXiv:2104.11522.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import ChoiceBlock, InterChoice, Selection, call, dependent_weights
from polyarch.nn.operations import conv_bn, inverted_residual
from polyarch.spaces import Architecture, ChainForm, Choice, Gates, Space
from polyarch.supernets.supernet import Supernet, pooled_head

FAIRNAS_CHANNELS = (32, 32, 40, 40, 40, 40, 80, 80, 80, 80, 96, 96, 96, 96, 192, 192, 192, 192, 320)
FAIRNAS_STRIDES = (2, 1, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)
"""The 19 layers of FairNAS, which reduce images by a factor of 32 together with the stem."""


class ChainLayer(nn.Module):
    """A choice of blocks, with a shortcut where shapes allow; ``skip`` is the shortcut alone.

    An inter-choice bias enters both the block and its shortcut. Without a shortcut it has no effect in training mode,
    because the 1x1 convolution and normalisation at the start of the block remove any constant.
    """

    def __init__(self, block: ChoiceBlock, *, residual: bool) -> None:
        super().__init__()
        self.block = block
        self.residual = residual

    def forward(self, x: Tensor, selection: Selection, previous: Sequence[Selection] = ()) -> Tensor:
        """(B, C, H, W) -> (B, C', H', W'), given the ``previous`` selections that inter-choice weights depend on."""
        if isinstance(selection, int) and selection not in self.block.passing:
            return x
        y: Tensor = self.block(x, selection, previous, shortcut=self.residual)
        return y


@dataclass(frozen=True)
class LayerOptions:
    """The options of a layer of a chain."""

    operations: Mapping[str, nn.Module | None]  # by the names of the options; None passes the input on
    channels: int  # of the input
    residual: bool  # whether the input is added to the output


class LayerChain(Supernet):
    """Stem, layers with one choice of the space each, head; inter-choice weights depend on the layers before."""

    def __init__(
        self,
        space: Space,
        stem: nn.Module,
        layers: Sequence[LayerOptions],
        head: nn.Module,
        interchoice: InterChoice | None,
    ) -> None:
        super().__init__(space)
        chain: list[ChainLayer] = []
        predecessors: list[tuple[int, ...]] = []
        for position, (choice, layer) in enumerate(zip(space.choices, layers, strict=True)):
            operations = list(layer.operations.values())
            before = interchoice.before(position, range(position)) if interchoice else ()
            weights = dependent_weights(
                interchoice, operations, channels=layer.channels, previous=[len(space.choices[i]) for i in before]
            )
            predecessors.append(before)
            chain.append(ChainLayer(ChoiceBlock(choice.name, operations, weights), residual=layer.residual))
        self._predecessors = tuple(predecessors)
        self.stem = stem
        self.layers = nn.ModuleList(chain)
        self.head = head

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes)."""
        if isinstance(architecture, Architecture):
            self.space.validate(architecture)
        x = call(self.stem, x)
        selections = [architecture[name] for name in self.space.choice_names]
        for selection, layer, before in zip(selections, self.layers, self._predecessors, strict=True):
            x = layer(x, selection, tuple(selections[index] for index in before))
        return call(self.head, x)

    def forward_many(self, x: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """(S, B, classes); prefixes that architectures share are computed once."""
        values: dict[tuple[int, ...], Tensor] = {(): self.stem(x)}
        for length, layer in enumerate(self.layers, start=1):
            prefixes = {self.space.validate(architecture).indices[:length] for architecture in architectures}
            before = self._predecessors[length - 1]
            values = {
                prefix: layer(values[prefix[:-1]], prefix[-1], tuple(prefix[index] for index in before))
                for prefix in sorted(prefixes)
            }
        logits = {indices: self.head(value) for indices, value in values.items()}
        return torch.stack([logits[architecture.indices] for architecture in architectures])

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights outside the layers and of the chosen operations."""
        fixed, options = self._parameter_table
        return fixed + sum(options.get((name, architecture[name]), 0) for name in self.space.choice_names)


class ChainSupernet(LayerChain):
    """Stem, a chain of choice layers, 1x1 convolution, pooled linear head.

    Args:
        channels: output channels of every layer.
        strides: of every layer, 1 by default.
        kernels, expansions: the options are all pairs of kernel size and expansion factor, named like ``k3e6``.
        skip: whether shape-preserving layers can be left out.
        stem_channels: channels after the stem; its first convolution has twice as many.
        head_channels: channels of the last 1x1 convolution.
        dropout: the probability to drop a feature before the linear layer.
        interchoice: weights that depend on the layers before.
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
        dropout: float = 0.0,
        interchoice: InterChoice | None = None,
    ) -> None:
        strides = [1] * len(channels) if strides is None else list(strides)
        if not channels or len(strides) != len(channels):
            raise InvalidInput(f"Expected one stride per layer. Got {len(channels)} layers, {len(strides)} strides.")
        blocks = {f"k{k}e{e}": (k, e) for k in kernels for e in expansions}
        if not blocks:
            raise InvalidInput(f"Expected at least one kernel and one expansion. Got {kernels=}, {expansions=}.")
        layers = []
        for (inputs, outputs), stride in zip(pairwise([stem_channels, *channels]), strides, strict=True):
            residual = inputs == outputs and stride == 1
            options: dict[str, nn.Module | None] = {
                name: inverted_residual(inputs, outputs, kernel=kernel, expansion=expansion, stride=stride)
                for name, (kernel, expansion) in blocks.items()
            }
            if residual and skip:
                options["skip"] = None
            layers.append(LayerOptions(options, inputs, residual))
        choices = tuple(Choice(f"layer{position}", tuple(layer.operations)) for position, layer in enumerate(layers))
        wide = 2 * stem_channels
        stem = nn.Sequential(
            *conv_bn(in_channels, wide, 3, stride=stem_stride),
            *conv_bn(wide, wide, 3, groups=wide),
            *conv_bn(wide, stem_channels, 1, activation=False),
        )
        last = conv_bn(channels[-1], head_channels, 1)
        head = pooled_head(*last, width=head_channels, classes=classes, dropout=dropout)
        form = ChainForm("skip", tuple(layer.residual for layer in layers))
        space = Space(f"chain{len(choices)}[{','.join(blocks)}]", choices, canonical=form)
        super().__init__(space, stem, layers, head, interchoice)


def fairnas_chain(
    *, in_channels: int = 3, classes: int = 1000, dropout: float = 0.0, interchoice: InterChoice | None = None
) -> ChainSupernet:
    """The FairNAS chain for large images: 19 layers with kernels 3, 5 and 7 and expansions 3 and 6, without skips.

    It has 14,839,700 parameters with 100 classes.
    """
    return ChainSupernet(
        channels=FAIRNAS_CHANNELS,
        strides=FAIRNAS_STRIDES,
        skip=False,
        in_channels=in_channels,
        classes=classes,
        stem_stride=2,
        head_channels=1280,
        dropout=dropout,
        interchoice=interchoice,
    )
