"""Plain ways to a smaller network: channels that are left out by a score, whoever reads them.

Uniform width leaves out the last channels of every layer. Other scores make it pruning: the L1 norms of filters of Li,
Kadav, Durdanovic, Samet and Graf (2017), "Pruning Filters for Efficient ConvNets", arXiv:1608.08710, or the scales of
batch normalisation of Liu et al. (2017), "Learning Efficient Convolutional Networks through Network Slimming",
arXiv:1708.06519.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from polyarch.nn.channel_classes import ChannelClasses
from polyarch.nn.channel_gates import sliced
from polyarch.spaces import Architecture
from polyarch.supernets.gated import KEEP, OPTIONS, GatedSupernet

REFINEMENTS = 20
"""Bisections of the threshold; a network changes at some thousand thresholds at most."""

Scores = Callable[[str, nn.Module], Tensor | None]
"""(name, module) -> the score of every output channel, (C,), 0 or more; None for modules that do not count."""


@dataclass(frozen=True)
class Narrowed:
    """An architecture that keeps the channels whose score is above a threshold."""

    threshold: float
    architecture: Architecture


def narrowed(net: GatedSupernet, macs: float, scores: Scores, *, like: Architecture | None = None) -> Narrowed:
    """The largest network with at most so many multiply-accumulates, by bisection on one threshold for all layers.

    Channels that are added up have the mean of their scores. Every gate keeps the best of its channels.

    Args:
        macs: of the extracted network. If one channel per gate has more, that network is the answer.
        like: has the options of choices other than those of channels, such as the depth; the largest by default.
    """
    like = net.whole() if like is None else like
    classes = net.graph(like).classes()
    values = _class_scores(net.graph(like).model, classes, scores)
    low, high = -1.0, float(values.max())  # everything, one channel per gate
    if net.cost(_above(net, like, classes, values, low)).macs <= macs:
        return Narrowed(low, _above(net, like, classes, values, low))
    for _ in range(REFINEMENTS):
        middle = (low + high) / 2
        fits = net.cost(_above(net, like, classes, values, middle)).macs <= macs
        low, high = (low, middle) if fits else (middle, high)
    return Narrowed(high, _above(net, like, classes, values, high))


@dataclass(frozen=True)
class UniformWidth:
    """An architecture in which every layer has this share of its channels."""

    width: float
    architecture: Architecture


def uniform_width(net: GatedSupernet, macs: float, *, like: Architecture | None = None) -> UniformWidth:
    """The widest network of uniform width with at most so many multiply-accumulates; see `narrowed`.

    >>> from polyarch.supernets import gate
    >>> layers = nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 3)
    >>> net = gate(nn.Sequential(*layers), torch.zeros(2, 4))
    >>> found = uniform_width(net, 85)
    >>> net.notation(found.architecture), net.cost(found.architecture).macs
    ('11111100001111110000', 78.0)
    """
    found = narrowed(net, macs, lambda name, module: _positions(module), like=like)
    return UniformWidth(min(1 - found.threshold, 1.0), found.architecture)


def _positions(module: nn.Module) -> Tensor | None:
    """1 for the first channel that a layer makes, and almost 0 for the last."""
    if not sliced(module):
        return None
    count = int(module.out_features if isinstance(module, nn.Linear) else module.out_channels)  # type: ignore[arg-type]
    return 1 - torch.arange(count) / count


def _class_scores(model: nn.Module, classes: ChannelClasses, scores: Scores) -> Tensor:
    """The mean score of every class of channels; classes that no score is known of, as of the input, have 0."""
    total, count = torch.zeros(classes.count), torch.zeros(classes.count)
    for name, members in classes.modules.items():
        found = scores(name, model.get_submodule(name))
        if found is not None:
            total.index_add_(0, members, found.detach().float().cpu())
            count.index_add_(0, members, torch.ones(len(members)))
    return total / count.clamp(min=1)


def _above(
    net: GatedSupernet, like: Architecture, classes: ChannelClasses, values: Tensor, threshold: float
) -> Architecture:
    """Gates that the network at this depth does not have stay open."""
    others = len(net.space.choices) - len(net.slice_space.choices)
    kept = []
    for gate in net.gates:
        score = values[classes.gates[gate.name]] if gate.name in classes.gates else torch.ones(gate.slices)
        kept.append((score > threshold) | (score == score.max()))
    names = [OPTIONS[KEEP if one else 1 - KEEP] for one in torch.cat(kept).tolist()]
    return net.space.architecture([*like.names[:others], *names])
