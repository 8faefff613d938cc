"""One network with several exits, all of them from one walk."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from polyarch.errors import InvalidInput
from polyarch.nn.recording import _Recorder

Path = Callable[[Tensor], Tensor]
"""A way through some modules of a network, which it calls with `call`: (B, ...) -> (B, ...)."""


class Exits(nn.Module):
    """a_0 = stage_0(x), a_k = stage_k(a_{k-1}); the logits of exit k are head_k(a_k), k = 0..K-1.

    Args:
        stages: stage 0 is the input block up to the first exit; stage k takes the features of exit k - 1 to those of
            exit k.
        heads: features -> logits (B, C), one per stage. Heads may share modules or single weights.
    """

    def __init__(self, stages: Iterable[nn.Module], heads: Iterable[nn.Module]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.heads = nn.ModuleList(heads)
        if not len(self.stages) == len(self.heads) > 0:
            raise InvalidInput(
                f"Expected one or more exits, each with a stage and a head. "
                f"Got {len(self.stages)} stages and {len(self.heads)} heads."
            )

    @classmethod
    def recorded(cls, network: nn.Module, stages: Sequence[Path], heads: Sequence[Path]) -> Exits:
        """Paths through a network as plain modules with own weights, and only those that the paths use.

        What several paths share in the network they share here.
        """
        recorder = _Recorder(fx.Graph(), network)  # one for all paths: it looks up every module of the network

        def plain(path: Path) -> nn.Module:
            recorder.graph = fx.Graph()
            symbol: Any = fx.Proxy(recorder.graph.placeholder("x"), recorder)
            output: Any = path(symbol)
            recorder.graph.output(output.node)
            return fx.GraphModule(network, recorder.graph, class_name="Part")

        # One copy of all: copies of the single paths would no longer share anything.
        return copy.deepcopy(cls(map(plain, stages), map(plain, heads)))

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (K, B, C)."""
        logits = []
        for stage, head in zip(self.stages, self.heads, strict=True):
            x = stage(x)
            logits.append(head(x))
        return torch.stack(logits)
