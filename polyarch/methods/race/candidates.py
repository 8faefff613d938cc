"""Who takes part in a race: an architecture with the augmentation it is trained with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator

from polyarch.methods.race.settings import RaceSettings
from polyarch.runs.image_augmentation import AUGMENTATIONS, crop_side, usual_augmentation
from polyarch.runs.run import Run
from polyarch.runs.work import work_seconds
from polyarch.spaces import Architecture, Space
from polyarch.supernets import Supernet, ladder

OTHERS: dict[str, Sequence[str]] = {
    "none": (),
    "shift": ("flip", "cutout"),
    "flip": ("flip and cutout", "shift"),
    "cutout": ("flip and cutout", "shift"),
    "flip and cutout": ("flip", "cutout"),
}
"""What is tried in place of an augmentation: one part more or less, the more promising first."""


@dataclass(frozen=True)
class Recipe:
    """What a candidate is trained with in place of the settings of the race."""

    learning_rate: float
    weight_decay: float

    def __str__(self) -> str:
        return f"rate {self.learning_rate:g}, decay {self.weight_decay:g}"


@dataclass(frozen=True)
class Candidate:
    """One network in the race.

    Args:
        augmentation: a name of `polyarch.runs.image_augmentation.AUGMENTATIONS`.
        seed: of its weights and of the order of its batches.
        is_reference: whether it is the plain network that every other has to beat.
        recipe: its own, where candidates differ in it.
        fold: which part of the examples validates it; see `polyarch.runs.folds`.
    """

    architecture: Architecture
    augmentation: str = "none"
    seed: int = 0
    is_reference: bool = False
    recipe: Recipe | None = None
    fold: int = 0

    @property
    def key(self) -> str:
        """Names it among all candidates."""
        recipe = "" if self.recipe is None else f" {self.recipe}"
        fold = f" fold {self.fold}" if self.fold else ""
        return f"{self.architecture.key} {self.augmentation} {self.seed}{recipe}{fold}"


USUAL_STEPS, USUAL_EPOCHS = 7000, 100
"""A usual network is one that has time for so many steps in the final, or epochs where these are fewer steps.

The steps were chosen on photographs of CIFAR-10. The epochs are a guess, made because networks for digits were too
small, and not compared with others yet."""


def field(run: Run, count: int, seconds: float) -> list[Candidate]:
    """The plain network, and others whose cost is about 1, 1/2, 2, 1/4, 4 ... of the usual one.

    Where choices are no sizes, the plain network has the middle option of each, and the others are random. All begin
    with the same augmentation, so that their training losses compare.

    Args:
        seconds: what a finalist will have.
    """
    augmentation = usual_augmentation(run)
    kinds = (ladder(run.net), plain_networks(run.net)) if run.feed.data.is_image else ((), ())
    sizes, plain_ones = ([one for one in networks if run.limits.allows(one)] for networks in kinds)
    if not sizes or not plain_ones:  # choices that are no sizes, or limits that no network of the ladder keeps
        first = [one for one in [middle(run.net.space)] if one in run.net.space and run.limits.allows(one)]
        draws = [*first, *run.draw(count - len(first), "race", besides=first)]
        return [Candidate(one, augmentation, is_reference=place == 0) for place, one in enumerate(draws)]
    settings = run.settings.section(RaceSettings)
    crop = crop_side(run, settings.crop)
    costs = {one: work_seconds(run, one, settings.batch_size, crop) for one in sizes}
    usual = seconds / min(USUAL_STEPS, USUAL_EPOCHS * len(run.feed.train) / settings.batch_size)
    found = [plain(plain_ones)]
    for place in range(count - 1):
        wanted = usual * 2.0 ** ((place + 1) // 2 * (-1) ** place)
        others = [one for one in sizes if one not in found]
        if others:
            found.append(min(others, key=lambda one: abs(math.log(costs[one] / wanted))))
    return [Candidate(one, augmentation, is_reference=place == 0) for place, one in enumerate(found)]


PLAIN = {"width": 16, "depth": 1, "kernel": 3}
"""The plain network: a residual block per stage; 16, 32 and 64 channels."""

FAMILY, WIDTH, VIEW = "family", "plain.width", "view"
"""Choices of spaces that hold plain networks of some widths, and networks that look at mirror images, too."""


def plain_networks(net: Supernet) -> list[Architecture]:
    """Plain networks of all widths, where the space holds a family of them; else networks of all sizes."""
    space = net.space
    if FAMILY not in space.choice_names:
        return ladder(net)
    first = {choice.name: choice.options[0] for choice in space.choices} | {FAMILY: "plain"}
    if WIDTH not in first:
        return [space.architecture(first)]
    return [space.architecture({**first, WIDTH: option}) for option in space[WIDTH].options]


def middle(space: Space) -> Architecture:
    """The middle option of every choice."""
    return Architecture(space, tuple(len(choice.options) // 2 for choice in space.choices))


def plain(networks: Sequence[Architecture]) -> Architecture:
    """The plain network, or what is nearest to it; the middle one of a space of other choices than its own."""
    parts = {_part(name) for name in networks[0].space.choice_names}
    if not parts <= {*PLAIN, FAMILY, VIEW}:
        return networks[len(networks) // 2]

    def distance(architecture: Architecture) -> float:
        chosen = architecture.to_dict()
        if FAMILY in chosen:
            return abs(float(chosen.get(WIDTH, PLAIN["width"])) - PLAIN["width"])
        first = {_part(name): option for name, option in reversed(chosen.items())}
        return math.fsum(abs(float(first[part]) - wanted) for part, wanted in PLAIN.items() if part in first)

    return min(networks, key=distance)


def mutated(architecture: Architecture, generator: Generator) -> Architecture:
    """Another size of one stage: the next larger or smaller option of one choice that matters."""
    space, indices = architecture.space, architecture.indices
    found = []
    for position, choice in enumerate(space.choices):
        for place in (indices[position] - 1, indices[position] + 1):
            if choice.name not in (FAMILY, VIEW) and 0 <= place < len(choice.options):
                other = Architecture(space, (*indices[:position], place, *indices[position + 1 :]))
                if other in space and other.canonical() != architecture.canonical():
                    found.append(other)
    return found[int(torch.randint(len(found), (), generator=generator))] if found else architecture


def mirrored(candidate: Candidate) -> Architecture | None:
    """The same network looking at mirror images, too, if it was trained on such images and the space has it."""
    space = candidate.architecture.space
    if VIEW not in space.choice_names or "flip" not in AUGMENTATIONS[candidate.augmentation]:
        return None
    return space.architecture({**candidate.architecture.to_dict(), VIEW: "both"})


def _part(name: str) -> str:
    return name.rpartition(".")[2]
