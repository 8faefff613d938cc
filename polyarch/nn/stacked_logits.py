"""Modules that return the logits (K, B, C) of several members: separate networks, or the exits of one network."""

import copy
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from polyarch.data.named_inputs import Inputs
from polyarch.errors import InvalidInput
from polyarch.nn.path_recording import Path, graphs_of


class StackedNetworks(nn.ModuleList):
    """Computes the logits (B, C) of K separate networks on the same batch: (B, ...) -> (K, B, C)."""

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__(networks)
        if not len(self):
            raise InvalidInput("Expected at least one network. Got none.")

    def forward(self, x: Inputs) -> Tensor:
        """(B, ...) -> (K, B, C)."""
        outputs = [network(x) for network in self]
        classes = outputs[0].shape[-1]  # batch sizes are not compared: exported networks take any
        for output in outputs:
            if output.dim() != 2 or output.shape[1] != classes:
                raise InvalidInput(f"Expected logits (B, {classes}) from all members. Got {tuple(output.shape)}.")
        return torch.stack(outputs)


class Exits(nn.Module):
    """a_0 = stage_0(x), a_k = stage_k(a_{k-1}); the logits of exit k are head_k(a_k), k = 0..K-1.

    Args:
        stages: stage 0 maps the input to the features of exit 0, stage k the features of exit k - 1 to those of k.
        heads: features -> logits (B, C), one per stage. Heads may share modules or weights.
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
    def recorded(cls, network: nn.Module, stages: Sequence[Path], heads: Sequence[Path]) -> "Exits":
        """Records paths through a network as plain modules with copies of the weights they use.

        Paths that share modules in the network share them here, too.
        """
        parts = graphs_of(network, [*stages, *heads])
        # Copied together, because separate copies would share nothing.
        return copy.deepcopy(cls(parts[: len(stages)], parts[len(stages) :]))

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (K, B, C)."""
        logits = []
        for stage, head in zip(self.stages, self.heads, strict=True):
            x = stage(x)
            logits.append(head(x))
        return torch.stack(logits)
