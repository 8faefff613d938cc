"""The base class of these networks, which lists the modules to gate, and checks of their sizes."""

from collections.abc import Collection, Iterable

from torch import nn

from polyarch.errors import InvalidInput
from polyarch.nn.channel_gates import sliced

UNGATED = ("stem", "classifier")
"""The parts, by name, that keep all their channels: the stem reads the data, the classifier is no convolution."""


class GateableNetwork(nn.Module):
    """A network that tells `polyarch.supernets.gate` which of its modules to gate."""

    def gate_groups(self) -> dict[str, list[str]]:
        """Group -> names of modules, with one drop probability per group.

        Every ungrouped convolution and linear layer outside the stem and the classifier is its own group, and so is
        every branch without weights.
        """
        branches = self._branches()
        found = (
            name
            for name, module in self.named_modules()
            if name.partition(".")[0] not in UNGATED and (sliced(module) or module in branches)
        )
        return {name: [name] for name in found}

    def _branches(self) -> Collection[nn.Module]:
        """Modules without weights that are gated on their output."""
        return ()


def require_positive(**sizes: int) -> None:
    """Refuses sizes below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise InvalidInput(f"Expected {name} to be 1 or more. Got {size}.")


def require_counts(name: str, counts: Iterable[int]) -> tuple[int, ...]:
    """The counts as a tuple; refuses an empty one and counts below 1."""
    counts = tuple(counts)
    if not counts or min(counts) < 1:
        raise InvalidInput(f"Expected {name} to be one or more numbers of 1 or more. Got {counts}.")
    return counts


def require_kernels(kernels: Iterable[int]) -> tuple[int, ...]:
    """The kernel sizes as a tuple; refuses even ones, which change the resolution, and repeated ones."""
    kernels = tuple(kernels)
    if not kernels or len(set(kernels)) < len(kernels) or any(size < 1 or size % 2 == 0 for size in kernels):
        raise InvalidInput(f"Expected one or more odd kernel sizes, each once. Got {kernels}.")
    return kernels
