"""What all networks here share: which of their modules are gated, and what sizes they may have."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from torch import nn

from polyarch.errors import InvalidInput
from polyarch.nn.channel_gates import sliced

UNGATED = ("stem", "classifier")
"""The parts, by name, that keep all of their channels: the stem reads the data, the classifier is no convolution."""


def gate_groups(network: nn.Module, *, branches: Collection[nn.Module] = ()) -> dict[str, list[str]]:
    """The modules to gate: group -> names of modules, for `polyarch.supernets.gate`.

    Every ungrouped convolution and linear layer but those of the stem and the classifier is a group of its own, with
    the module's name, so that there is one drop probability per layer and kernel size.

    Args:
        branches: modules without weights that are gated, too, on their output.
    """
    found = (
        name
        for name, module in network.named_modules()
        if name.partition(".")[0] not in UNGATED and (sliced(module) or module in branches)
    )
    return {name: [name] for name in found}


def require_positive(**sizes: int) -> None:
    """Refuses sizes below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise InvalidInput(f"Expected {name} to be 1 or more. Got {size}.")


def require_counts(**counts: Iterable[int]) -> tuple[int, ...]:
    """One row of sizes by its name, after a check: one or more, none below 1."""
    ((name, found),) = counts.items()
    found = tuple(found)
    if not found or min(found) < 1:
        raise InvalidInput(f"Expected {name} to be one or more numbers of 1 or more. Got {found}.")
    return found


def require_kernels(kernels: Iterable[int]) -> tuple[int, ...]:
    """Kernel sizes, after a check: odd ones keep the resolution, and each is there once."""
    kernels = tuple(kernels)
    if not kernels or len(set(kernels)) < len(kernels) or any(size < 1 or size % 2 == 0 for size in kernels):
        raise InvalidInput(f"Expected one or more odd kernel sizes, each once. Got {kernels}.")
    return kernels
