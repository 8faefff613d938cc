"""Channels that belong together: those that are added to, or multiplied by, each other are removed together."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, fx

from polyarch.nn.channel_flow import ChannelFlow
from polyarch.nn.channel_gates import gated
from polyarch.nn.channel_rules import Rule


@dataclass(frozen=True)
class ChannelClasses:
    """The numbers of classes of channels.

    Args:
        gates: gate name -> the class of every channel, (K,).
        modules: module name -> the class of every output channel, (C,).
        count: of all classes.
    """

    gates: dict[str, Tensor]
    modules: dict[str, Tensor]
    count: int


def channel_classes(flow: ChannelFlow, rules: Mapping[fx.Node, Rule]) -> ChannelClasses:
    """Follows channels from the operations that make them; an addition joins the classes of its terms."""
    known: dict[fx.Node, Tensor] = {}
    pairs: list[tuple[int, int]] = []
    count = 0
    for node, rule in rules.items():
        first, *others = rule.origins(flow, node, known) or [torch.arange(len(flow.nothing(node))) + count]
        count = max(count, int(first.max()) + 1) if len(first) else count
        known[node] = first
        pairs += [pair for other in others for pair in zip(first.tolist(), other.tolist(), strict=True)]
    roots = _joined(count, pairs)
    gates = {str(node.args[1]): roots[known[node]] for node in rules if node.target is gated}
    return ChannelClasses(
        gates, {str(node.target): roots[known[node]] for node in rules if node.op == "call_module"}, count
    )


def _joined(count: int, pairs: list[tuple[int, int]]) -> Tensor:
    """The smallest number that each of ``count`` numbers is joined with, (count,), by union and find."""
    parents = list(range(count))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    for first, second in pairs:
        low, high = sorted((root(first), root(second)))
        parents[high] = low
    return torch.tensor([root(number) for number in range(count)])
