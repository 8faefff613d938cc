"""How examples are divided into a part that is held out and the rest: at random, by groups, in time, or by both.

Every class that occurs keeps examples in the rest, on which networks are trained. The part that is held out has the
share that was asked for as closely as groups, or examples of the same time, allow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from polyarch.data.examples import AnyExamples, stratified_indices
from polyarch.data.labels import Array
from polyarch.errors import DataError, InvalidInput
from polyarch.randomness import generator_at

Rows = tuple[Tensor, Tensor]
"""The sorted rows of the rest and of the part that is held out."""


VALIDATION_SIDES = ("valid", "validation", "val")
TEST_SIDES = ("test", *VALIDATION_SIDES)
"""What files and folders beside ``train`` are called."""


def sides_of(names: Collection[str], test_share: float | None) -> tuple[str | None, str | None]:
    """The names of the test and of the validation side among those that a source has, None where it has none.

    A validation side serves as the test side of a source without one, unless test examples come from elsewhere.
    """
    valid = next((side for side in VALIDATION_SIDES if side in names), None)
    if "test" in names:
        return "test", valid
    return (None, valid) if test_share is None else (valid, None)


class Split(ABC):
    """A way to divide N examples, known by what it needs to know of each; the same seed gives the same rows."""

    @abstractmethod
    def rows(self, targets: Tensor, share: float, *, seed: int, class_names: Sequence[str] = ()) -> Rows:
        """Holds out about ``share`` of the examples.

        Args:
            targets: (N,) class indices, or targets of another kind, which are not stratified.
            class_names: for error messages.
        """

    @abstractmethod
    def subset(self, rows: Tensor) -> Self:
        """The same for the examples at these rows."""

    @abstractmethod
    def beside(self, other: Self, origin: str) -> Self:
        """The same once other examples are held out; refuses those that may not be, naming their ``origin``."""

    @abstractmethod
    def in_words(self, share: float) -> str:
        """What is held out."""

    def divide(
        self, data: AnyExamples, share: float, *, seed: int, class_names: Sequence[str] = ()
    ) -> tuple[AnyExamples, AnyExamples]:
        """The rest of the examples, and the part that is held out."""
        rest, part = self.rows(data.targets, share, seed=seed, class_names=class_names)
        return data.subset(rest), data.subset(part)


@dataclass(frozen=True)
class RandomSplit(Split):
    """Draws at random; the same share of every class where there are classes."""

    def rows(self, targets: Tensor, share: float, *, seed: int, class_names: Sequence[str] = ()) -> Rows:
        """Each class has at least one example on each side."""
        return stratified_indices(targets, share, seed=seed)

    def subset(self, rows: Tensor) -> RandomSplit:
        """Nothing depends on the example."""
        return self

    def beside(self, other: RandomSplit, origin: str) -> RandomSplit:
        """Any examples may be held out."""
        return self

    def in_words(self, share: float) -> str:
        """What is held out."""
        return f"{_percent(share)} of the examples, drawn at random"


@dataclass(frozen=True)
class GroupSplit(Split):
    """Keeps all examples of a group, such as the visits of one patient, on one side.

    Goes through the groups in random order and holds out each that brings the shares h_c of all classes c, and of all
    examples, closer to the share s that was asked for:

        sum_c (h_c - s)^2.

    A group with the last training examples of a class stays. A class that would be missing among the examples held out
    then gets the group that adds least to the sum.
    """

    groups: Tensor  # (N,) indices of values
    values: tuple[str, ...]  # all groups, as they are written, of these examples and of those held out from them
    name: str = "the given groups"

    def rows(self, targets: Tensor, share: float, *, seed: int, class_names: Sequence[str] = ()) -> Rows:
        """Whole groups; see above."""
        _check_share(share)
        present, places = self.groups.unique(return_inverse=True)
        if len(present) < 2:
            raise DataError(f"Expected two or more groups to split by {self.name}. Found one.")
        classes = strata(targets).unique(return_inverse=True)[1]
        counts = np.zeros((len(present), int(classes.max()) + 1))
        np.add.at(counts, (places.numpy(), classes.numpy()), 1)
        order = torch.randperm(len(present), generator=generator_at(seed, "groups")).tolist()
        held_out = torch.from_numpy(_held_out_groups(counts, share, order))[places]
        if not held_out.any():
            raise DataError(
                f"Expected groups to hold out by {self.name}. Each of the {len(present)} has the only examples of "
                "some class."
            )
        return (~held_out).nonzero().flatten(), held_out.nonzero().flatten()

    def subset(self, rows: Tensor) -> GroupSplit:
        """The groups of these rows."""
        return replace(self, groups=self.groups[rows])

    def beside(self, other: GroupSplit, origin: str) -> GroupSplit:
        """Refuses groups that are known already."""
        shared = sorted(set(self.values) & set(other.values))
        if shared:
            raise DataError(
                f"Expected groups of their own in {origin} by {self.name}. Found {shared[0]!r} elsewhere, too."
            )
        return replace(self, values=(*self.values, *other.values))

    def in_words(self, share: float) -> str:
        """What is held out."""
        return f"whole groups by {self.name}, about {_percent(share)} of the examples"


@dataclass(frozen=True)
class TimeSplit(Split):
    """Holds out the latest examples; those of one time stay together.

    With ``groups``, it holds out the groups that begin latest, whole: the patients who came last. The times are then
    those of the first example of each group, and a group that is trained on may go on after those held out begin.
    """

    times: Tensor  # (N,) float64
    name: str = "the given times"
    groups: GroupSplit | None = None

    @classmethod
    def of_groups(cls, times: TimeSplit, groups: GroupSplit) -> TimeSplit:
        """Holds out whole groups by the time of their first example."""
        begins = torch.full((len(groups.values),), torch.inf, dtype=times.times.dtype)
        begins.scatter_reduce_(0, groups.groups.long(), times.times, "amin")
        return cls(begins[groups.groups], times.name, groups)

    def rows(self, targets: Tensor, share: float, *, seed: int, class_names: Sequence[str] = ()) -> Rows:
        """The latest, cut between two times where the share is closest."""
        _check_share(share)
        order = self.times.argsort(stable=True)
        ordered = self.times[order]
        cuts = (ordered[1:] > ordered[:-1]).nonzero().flatten() + 1
        if len(cuts) == 0:
            raise DataError(f"Expected two or more different times to split by {self.name}. Found one.")
        cut = int(cuts[(cuts - (1 - share) * len(order)).abs().argmin()])
        rest, part = order[:cut].sort().values, order[cut:].sort().values
        classes = strata(targets)
        late = sorted(set(classes[part].tolist()) - set(classes[rest].tolist()))
        if late:
            shown = repr(class_names[late[0]]) if class_names else late[0]
            raise DataError(
                f"Expected examples of every class before the latest {_percent(share)} by {self.name}. "
                f"Class {shown} occurs only among those."
            )
        return rest, part

    def subset(self, rows: Tensor) -> TimeSplit:
        """The times, and the groups, of these rows."""
        groups = None if self.groups is None else self.groups.subset(rows)
        return replace(self, times=self.times[rows], groups=groups)

    def beside(self, other: TimeSplit, origin: str) -> TimeSplit:
        """Refuses examples from before the last of these, and groups that are known already."""
        if other.times.min() < self.times.max():
            raise DataError(
                f"Expected {origin} to be later than all training examples by {self.name}. Found earlier rows."
            )
        if self.groups is None or other.groups is None:
            return self
        return replace(self, groups=self.groups.beside(other.groups, origin))

    def in_words(self, share: float) -> str:
        """What is held out."""
        whole = "" if self.groups is None else f", whole groups by {self.groups.name}"
        return f"the latest {_percent(share)} by {self.name}{whole}"


def strata(targets: Tensor) -> Tensor:
    """(N,) what a split keeps in proportion: class indices; one stratum for targets of any other kind."""
    is_classes = targets.dim() == 1 and not targets.is_floating_point()
    return targets if is_classes else torch.zeros(len(targets), dtype=torch.int64)


def limited(data: AnyExamples, limit: int, *, seed: int) -> AnyExamples:
    """At most about ``limit`` examples, drawn from every class in proportion; each class keeps one or more."""
    if limit >= len(data):
        return data
    classes = strata(data.targets)
    lonely = classes.bincount()[classes] == 1  # which cannot be drawn from
    several = (~lonely).nonzero().flatten()
    if len(several) == 0:
        return data
    drawn = several[stratified_indices(classes[several], limit / len(data), seed=seed)[1]]
    return data.subset(torch.cat([drawn, lonely.nonzero().flatten()]).sort().values)


def _held_out_groups(counts: Array, share: float, order: Sequence[int]) -> Array:
    """(G,) which groups are held out, for counts (G, C) of each class in each group."""
    parts = np.concatenate([counts / counts.sum(0), counts.sum(1, keepdims=True) / counts.sum()], axis=1)  # (G, C + 1)
    held, left = np.zeros(parts.shape[1]), counts.sum(0)
    taken = np.zeros(len(counts), dtype=bool)

    def distance(group: int) -> float:
        return float(((held + parts[group] - share) ** 2).sum())

    def is_free(group: int) -> bool:
        return not taken[group] and bool((left > counts[group]).all())

    def take(group: int) -> None:
        nonlocal held, left
        held, left, taken[group] = held + parts[group], left - counts[group], True

    for group in order:
        if distance(group) < float(((held - share) ** 2).sum()) and is_free(group):
            take(group)
    for label in range(counts.shape[1]):
        candidates = [group for group in order if counts[group, label] > 0 and is_free(group)]
        if held[label] == 0 and candidates:
            take(min(candidates, key=distance))
    return taken


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise InvalidInput(f"Expected a fraction between 0 and 1. Got {share}.")


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
