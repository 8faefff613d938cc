"""Residual networks whose depth is the choice: every depth is an exit, and one pass computes all of them.

a_0 = f_0(x), a_i = a_{i-1} + f_i(a_{i-1}); the prediction at depth d is f_{D+1}(a_d), d = 0..D. Antorán, Allingham and
Hernández-Lobato (2020), "Variational Depth Search in ResNets", arXiv:2002.02797.
"""

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import Exits, bottleneck, call
from polyarch.spaces import Architecture, Choice, Gates, Space
from polyarch.supernets.supernet import Supernet, mix_logits


def depth_space(max_depth: int) -> Space:
    """A space whose only choice is ``depth``, with options 0..max_depth."""
    if max_depth < 1:
        raise InvalidInput(f"Expected a maximum depth of 1 or more. Got {max_depth}.")
    return Space(f"depth{max_depth}", (Choice("depth", tuple(map(str, range(max_depth + 1))), kind="wiring"),))


class DepthSupernet(Supernet):
    """A chain of residual blocks; subclasses define input block, blocks and heads.

    Gates mix the logits of the exits: net(x, g) = sum_d g_d logits_d.
    """

    stem: nn.Module
    blocks: nn.ModuleList

    def __init__(self, max_depth: int) -> None:
        super().__init__(depth_space(max_depth))

    @abstractmethod
    def exit(self, features: Tensor, depth: int) -> Tensor:
        """The logits (B, classes) of one exit from its features a_d."""

    @property
    @abstractmethod
    def last_layer(self) -> nn.Linear:
        """What makes the logits of every exit."""

    @abstractmethod
    def exits(self, features: list[Tensor], depths: list[int]) -> Tensor:
        """The logits (S, B, classes) of several exits in one batched call."""

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, ...) -> (B, classes)."""
        if isinstance(architecture, Architecture):
            depth = self.space.validate(architecture)["depth"]
            return self.exit(self._features(x, [depth])[0], depth)
        return mix_logits(architecture["depth"], self.forward_many(x, self.space.members))

    def forward_many(self, x: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """(S, B, classes) from one pass to the deepest of them."""
        if architectures is self.space.members:
            depths = list(range(len(self.blocks) + 1))
        else:
            depths = [self.space.validate(architecture)["depth"] for architecture in architectures]
        return self.exits(self._features(x, depths), depths)

    def extract_many(self, architectures: Sequence[Architecture]) -> nn.Module:
        """The `Exits` of one network without the blocks after the last, if depths rise; else separate networks."""
        depths = [self.space.validate(architecture)["depth"] for architecture in architectures]
        if not depths or depths != sorted(set(depths)):
            return super().extract_many(architectures)

        def through(x: Tensor, blocks: nn.ModuleList) -> Tensor:
            for block in blocks:
                x = x + call(block, x)
            return x

        first = partial(through, blocks=self.blocks[: depths[0]])
        further = [partial(through, blocks=self.blocks[start:end]) for start, end in itertools.pairwise(depths)]
        heads = [partial(self.exit, depth=depth) for depth in depths]
        return Exits.recorded(self, [lambda x: first(call(self.stem, x)), *further], heads)

    def start_at_zero(self) -> None:
        """Blocks add nothing and heads return zeros at first: no depth is worse than another because it is untrained.

        Without it features grow with every block, and so would the errors of deep exits, before anything is learned.
        """
        for block in self.blocks:
            assert isinstance(block, nn.Sequential)
            for parameter in block[-1].parameters():
                nn.init.zeros_(parameter)
        for parameter in self.last_layer.parameters():
            nn.init.zeros_(parameter)

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights of input block, blocks up to the depth, and head."""
        unused = {p for block in self.blocks[architecture["depth"] :] for p in block.parameters()}
        return sum(parameter.numel() for parameter in self.parameters() if parameter not in unused)

    def _features(self, x: Tensor, depths: list[int]) -> list[Tensor]:
        """The features at the given depths, in the given order."""
        x = call(self.stem, x)
        reached = [x]
        for block in itertools.islice(self.blocks, max(depths)):
            x = x + call(block, x)
            reached.append(x)
        return [reached[depth] for depth in depths]


class FullyConnectedDepth(DepthSupernet):
    """For tables and spirals: linear input and output blocks, residual blocks BN(ReLU(Linear)), all of one width.

    Args:
        features: number of input features; inputs of other shapes are flattened.
    """

    def __init__(self, *, features: int, classes: int, max_depth: int = 20, width: int = 20) -> None:
        super().__init__(max_depth)
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(features, width))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.BatchNorm1d(width)) for _ in range(max_depth)
        )
        self.head = nn.Linear(width, classes)

    @property
    def last_layer(self) -> nn.Linear:
        """The head."""
        return self.head

    def exit(self, features: Tensor, depth: int) -> Tensor:
        """(B, width) -> (B, classes)."""
        return call(self.head, features)

    def exits(self, features: list[Tensor], depths: list[int]) -> Tensor:
        """(S, B, classes) from one product, because the head is linear and shared."""
        return self.head(torch.stack(features))  # type: ignore[no-any-return]


class ConvolutionalDepth(DepthSupernet):
    """For images: 5x5 convolution and 2x2 average pool, bottleneck blocks, and a head shared by all depths.

    The head pools, adds BN(ReLU(Linear)) and ends in a linear layer. All depths share its weights, but each exit has
    its own running averages, because batch statistics differ between depths.

    Args:
        bias: whether the convolutions of the blocks have biases, as in the authors' code. Those before a normalisation
            change nothing; the last one shifts what a block adds.
    """

    def __init__(
        self,
        *,
        in_channels: int = 1,
        classes: int = 10,
        max_depth: int = 20,
        channels: int = 64,
        inner_channels: int = 32,
        bias: bool = False,
    ) -> None:
        super().__init__(max_depth)
        self.stem = nn.Sequential(nn.Conv2d(in_channels, channels, 5), nn.AvgPool2d(2))
        self.blocks = nn.ModuleList(bottleneck(channels, inner_channels, bias=bias) for _ in range(max_depth))
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.hidden = nn.Sequential(nn.Linear(channels, channels), nn.ReLU())
        norms = [nn.BatchNorm1d(channels) for _ in range(max_depth + 1)]
        for norm in norms[1:]:  # one scale and shift for all depths
            norm.weight, norm.bias = norms[0].weight, norms[0].bias
        self.norms = nn.ModuleList(norms)
        self.output = nn.Linear(channels, classes)

    @property
    def last_layer(self) -> nn.Linear:
        """The end of the head."""
        return self.output

    def exit(self, features: Tensor, depth: int) -> Tensor:
        """(B, channels, H, W) -> (B, classes)."""
        pooled = call(self.pool, features)
        return call(self.output, pooled + call(self.norms[depth], call(self.hidden, pooled)))

    def exits(self, features: list[Tensor], depths: list[int]) -> Tensor:
        """(S, B, classes) with statistics per depth and one product per layer."""
        # Pooling by a sum, divided once it is small: the gradient of a sum is a view, that of a mean a new feature map.
        pooled = torch.stack([feature.sum((2, 3)) for feature in features]) / features[0][0, 0].numel()
        hidden = self.hidden(pooled)
        norms = [norm for norm in (self.norms[d] for d in depths) if isinstance(norm, nn.BatchNorm1d)]
        return self.output(pooled + _normalise(hidden, norms))  # type: ignore[no-any-return]


def _normalise(x: Tensor, norms: list[nn.BatchNorm1d]) -> Tensor:
    """``norms[s](x[s])`` for every s, in one call: (S, B, w) -> (S, B, w).

    Folds depth into the channels of one ``batch_norm``; running averages are stacked and written back.
    """
    depth, batch, width = x.shape
    first = norms[0]
    assert first.momentum is not None
    means = torch.cat([norm.get_buffer("running_mean") for norm in norms])
    variances = torch.cat([norm.get_buffer("running_var") for norm in norms])
    folded = F.batch_norm(
        x.transpose(0, 1).reshape(batch, depth * width),
        means,
        variances,
        first.weight.repeat(depth),
        first.bias.repeat(depth),
        training=first.training,
        momentum=first.momentum,
        eps=first.eps,
    )
    if first.training:
        with torch.no_grad():
            for norm, mean, variance in zip(norms, means.split(width), variances.split(width), strict=True):
                norm.get_buffer("running_mean").copy_(mean)
                norm.get_buffer("running_var").copy_(variance)
                norm.get_buffer("num_batches_tracked").add_(1)
    return folded.view(batch, depth, width).transpose(0, 1)
