"""Supernets as users write them: with hard paths only, and with what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from polyarch.nn import call
from polyarch.spaces import Architecture, Choice, Gates, Space
from polyarch.supernets import Supernet

WIDTHS = {"narrow": 6, "wide": 12}


def without_idle_choices(architecture: Architecture) -> str:
    """Without a second layer it does not matter which activation would follow it."""
    depth, *others = architecture.names
    return "|".join([depth, *(others if depth == "two" else others[:1])])


def hidden_space() -> Space:
    choices = (
        Choice("depth", ("one", "two"), "wiring"),
        Choice("width", tuple(WIDTHS)),
        Choice("activation", ("relu", "tanh")),
    )
    return Space("hidden", choices, canonical=without_idle_choices)


class HardPaths(Supernet):
    """Flattens, then one or two hidden layers; dropout and normalisation have a training mode."""

    takes_gates = False

    def __init__(self, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__(hidden_space())
        features = math.prod(input_shape)
        self.dropout = nn.Dropout(0.1)
        self.first = nn.ModuleDict({name: nn.Linear(features, width) for name, width in WIDTHS.items()})
        self.norm = nn.ModuleDict({name: nn.BatchNorm1d(width) for name, width in WIDTHS.items()})
        self.second = nn.ModuleDict({name: nn.Linear(width, width) for name, width in WIDTHS.items()})
        self.heads = nn.ModuleDict({name: nn.Linear(width, classes) for name, width in WIDTHS.items()})

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        if not isinstance(architecture, Architecture):
            raise TypeError("one architecture at a time")
        self.space.validate(architecture)
        width = architecture.option("width")
        x = torch.relu(call(self.norm[width], call(self.first[width], x.flatten(1))))
        if architecture.option("depth") == "two":
            x = call(self.second[width], call(self.dropout, x))
            x = x.relu() if architecture.option("activation") == "relu" else x.tanh()
        return call(self.heads[width], x)


class Mixing(Supernet):
    """Two activations that gates can mix."""

    def __init__(self, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__(Space("activations", (Choice("activation", ("relu", "tanh")),)))
        self.layer = nn.Linear(math.prod(input_shape), 8)
        self.head = nn.Linear(8, classes)

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        x = call(self.layer, x.flatten(1))
        if isinstance(architecture, Mapping):
            relu, tanh = architecture["activation"].to(x).unbind(-1)
            return call(self.head, relu.unsqueeze(-1) * x.relu() + tanh.unsqueeze(-1) * x.tanh())
        return call(self.head, x.relu() if self.space.validate(architecture)["activation"] == 0 else x.tanh())


class DirectCalls(HardPaths):
    """Calls layers without a training mode as usual, and has a parameter and a buffer of its own."""

    def __init__(self, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__(input_shape, classes)
        self.scale = nn.Parameter(torch.full((), 2.0))
        self.register_buffer("shift", torch.full((1,), 0.5))

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        assert isinstance(architecture, Architecture)
        width = self.space.validate(architecture).option("width")
        output: Tensor = self.heads[width](torch.relu(self.first[width](x.flatten(1)) * self.scale + self.shift))
        return output


class DirectNorm(HardPaths):
    """Would record whatever mode the supernet is in."""

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        return call(self.heads["wide"], self.norm["wide"](call(self.first["wide"], x.flatten(1))))


class NewTensor(HardPaths):
    """Makes a tensor that is neither parameter nor buffer."""

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        return call(self.heads["wide"], call(self.first["wide"], x.flatten(1)) + torch.ones(12))


class DirectDropout(HardPaths):
    """Like `DirectNorm`."""

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        return call(self.heads["wide"], self.dropout(call(self.first["wide"], x.flatten(1))))


class AsksForValues(HardPaths):
    """Branches on what it computes."""

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        x = call(self.first["wide"], x.flatten(1))
        return call(self.heads["wide"], x if x.mean() > 0 else -x)


class Unregistered(HardPaths):
    """Calls a layer that is not one of its submodules."""

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        return call(nn.Linear(64, 10), x.flatten(1))


class NoGatesAfterAll(HardPaths):
    """Claims to take gates."""

    takes_gates = True


class OtherWeights(HardPaths):
    """Extracts something else."""

    def extract(self, architecture: Architecture) -> nn.Module:
        network = super().extract(architecture)
        with torch.no_grad():
            next(network.parameters()).add_(1.0)
        return network


class OtherGates(Mixing):
    """One-hot gates select something else."""

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        return super().forward(x, architecture) + (0.0 if isinstance(architecture, Architecture) else 1.0)


class Lazy(HardPaths):
    """Paths that the dry run does not take would keep a layer without weights."""

    def __init__(self, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__(input_shape, classes)
        self.first["wide"] = nn.LazyLinear(WIDTHS["wide"])


class NoSpace(HardPaths):
    """Forgets its base class."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
