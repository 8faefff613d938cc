"""Which paths of a supernet a training step uses.

`RandomPaths`: Guo et al. (2020), "Single Path One-Shot Neural Architecture Search with Uniform Sampling",
arXiv:1904.00420. `FairPaths`: Chu et al. (2021), "FairNAS: Rethinking Evaluation Fairness of Weight Sharing Neural
Architecture Search", arXiv:1907.01845. `SandwichPaths`: Yu and Huang (2019), "Universally Slimmable Networks and
Improved Training Techniques", arXiv:1903.05134.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Generator

from polyarch.distributions import ArchDistribution
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Space


class PathSampler(ABC):
    """Draws the paths of one step, ``count`` of them."""

    count: int

    @abstractmethod
    def draw(self, generator: Generator) -> list[Architecture]:
        """The paths of one step."""


class RandomPaths(PathSampler):
    """Independent paths from a fixed q: a_1, ..., a_k ~ q."""

    def __init__(self, q: ArchDistribution, count: int = 1) -> None:
        if count < 1:
            raise InvalidInput(f"Expected 1 or more paths per step. Got {count}.")
        self.q = q
        self.count = count

    def draw(self, generator: Generator) -> list[Architecture]:
        """k independent draws."""
        return self.q.sample(self.count, generator=generator)


class FairPaths(PathSampler):
    """As many paths as there are options, which together use every option of every operation choice exactly once.

    Path i takes option s_c(i) of choice c, where s_c is a random permutation of the |O| options drawn for that choice,
    so that each path on its own is uniform. All paths of a step share one wiring, which is drawn first.

    Args:
        space: without constraints, and with the same number of options at every operation choice.
    """

    def __init__(self, space: Space) -> None:
        if space.constraints:
            conditions = "; ".join(constraint.description for constraint in space.constraints)
            raise InvalidInput(
                f"Expected a space without constraints for fair paths, which use every option. Got {conditions}."
            )
        on_nodes = [choice.name for choice in space.choices if choice.kind == "node_operation"]
        if on_nodes:
            raise InvalidInput(
                "Expected operations on edges for fair paths, because the wiring decides which nodes are used. "
                f"Got operations on nodes of space {space.name!r}: {', '.join(on_nodes)}."
            )
        sizes = {choice.name: len(choice) for choice in space.choices if choice.kind == "operation"}
        if len(set(sizes.values())) != 1:
            raise InvalidInput(
                f"Expected choices of operations with equally many options for fair paths. Got {sizes or 'no choice'}."
            )
        self.space = space
        self.count = next(iter(sizes.values()))

    def draw(self, generator: Generator) -> list[Architecture]:
        """|O| paths with one wiring."""
        columns: list[list[int]] = []  # for every choice, the option of each path
        for choice in self.space.choices:
            if choice.kind == "wiring":
                columns.append([int(torch.randint(len(choice), (), generator=generator))] * self.count)
            else:
                columns.append(torch.randperm(self.count, generator=generator).tolist())
        return [Architecture(self.space, indices) for indices in zip(*columns, strict=True)]


class SandwichPaths(PathSampler):
    """The largest size, the smallest, and some of those between, drawn without replacement.

    Args:
        sizes: from the smallest to the largest; with a single one that is all a step trains.
        between: how many of the others a step trains, or all if there are fewer.
    """

    def __init__(self, sizes: Sequence[Architecture], between: int = 1) -> None:
        if not sizes or between < 0:
            raise InvalidInput(f"Expected 1 or more sizes, and 0 or more between. Got {len(sizes)} and {between}.")
        self.smallest, self.others, self.largest = sizes[0], list(sizes[1:-1]), sizes[-1]
        self.between = min(between, len(self.others))
        self.count = min(len(sizes), 2) + self.between

    def draw(self, generator: Generator) -> list[Architecture]:
        """The largest first, then the smallest."""
        ends = [self.largest] if self.count == 1 else [self.largest, self.smallest]
        order = torch.randperm(len(self.others), generator=generator)[: self.between]
        return [*ends, *(self.others[place] for place in order.tolist())]
