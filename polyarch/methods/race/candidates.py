"""Who takes part in a race: an architecture with the augmentation it is trained with."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from polyarch.data import Augmentation, Cutout, RandomCrop, RandomFlip, RandomShift
from polyarch.estimators import MACs
from polyarch.methods.race.settings import RaceSettings
from polyarch.runs.run import Run
from polyarch.spaces import Architecture, Choice, Space
from polyarch.supernets import ElasticSupernet

AUGMENTATIONS: dict[str, Sequence[str]] = {
    "none": (),
    "shift": ("shift",),
    "flip": ("shift", "flip"),
    "cutout": ("shift", "cutout"),
    "flip and cutout": ("shift", "flip", "cutout"),
}
"""What happens to training images, by name. Every kind but the first shifts them by a few pixels."""

OTHERS: dict[str, Sequence[str]] = {
    "none": (),
    "shift": ("flip", "cutout"),
    "flip": ("flip and cutout", "shift"),
    "cutout": ("flip and cutout", "shift"),
    "flip and cutout": ("flip", "cutout"),
}
"""What is tried in place of an augmentation: one part more or less, the more promising first."""


@dataclass(frozen=True)
class Candidate:
    """One network in the race.

    Args:
        augmentation: a name of `AUGMENTATIONS`.
        seed: of its weights and of the order of its batches.
        is_reference: whether it is the plain network that every other has to beat.
    """

    architecture: Architecture
    augmentation: str = "none"
    seed: int = 0
    is_reference: bool = False

    @property
    def key(self) -> str:
        """Names it among all candidates."""
        return f"{self.architecture.key} {self.augmentation} {self.seed}"


def augmentations(name: str, shape: Sequence[int], crop: int | None = None) -> list[Augmentation]:
    """What an augmentation does to images (C, H, W): shifts by an eighth of the side, cuts out a third of it.

    Args:
        crop: the side of a window that is kept, if not all is.
    """
    side = min(shape[1:], default=0)
    made: dict[str, Augmentation] = {
        "shift": RandomShift(max(side // 8, 1)),
        "flip": RandomFlip(),
        "cutout": Cutout(max(side // 3, 2)),
    }
    return [*(made[part] for part in AUGMENTATIONS[name]), *([] if crop is None else [RandomCrop(crop)])]


def crop_of(run: Run) -> int | None:
    """The side of training images until the learning rate falls; None where they are not cropped."""
    share = run.settings.section(RaceSettings).crop
    if share == 1 or not run.feed.data.is_image or not isinstance(run.net, ElasticSupernet):
        return None
    side: int = min(run.feed.data.input_shape[1:])
    return round(share * side)


USUAL_STEPS = 7000
"""A usual network is one that has time for so many steps in the final: chosen on photographs of CIFAR-10."""


def field(run: Run, count: int, seconds: float) -> list[Candidate]:
    """The plain network, and others whose cost is about 1, 1/2, 2, 1/4, 4 ... of the usual one.

    Where choices are no sizes, the plain network has the middle option of each, and the others are random. All begin
    with the same augmentation, so that their training losses compare.

    Args:
        seconds: what a finalist will have.
    """
    augmentation = usual_augmentation(run)
    ladder, plain_ones = (
        [one for one in found if run.limits.allows(one)] for found in (sizes(run.net.space), plain_sizes(run.net.space))
    )
    if not ladder or not plain_ones:  # choices that are no sizes, or limits that no network of the ladder keeps
        first = [one for one in [middle(run.net.space)] if one in run.net.space and run.limits.allows(one)]
        draws = [*first, *run.draw(count - len(first), "race", besides=first)]
        return [Candidate(one, augmentation, is_reference=place == 0) for place, one in enumerate(draws)]
    costs = {one: work_seconds(run, one, crop_of(run)) for one in ladder}
    usual = seconds / USUAL_STEPS
    found = [plain(plain_ones)]
    for place in range(count - 1):
        wanted = usual * 2.0 ** ((place + 1) // 2 * (-1) ** place)
        others = [one for one in ladder if one not in found]
        if others:
            found.append(min(others, key=lambda one: abs(math.log(costs[one] / wanted))))
    return [Candidate(one, augmentation, is_reference=place == 0) for place, one in enumerate(found)]


def usual_augmentation(run: Run) -> str:
    """Photographs, in colour, may be mirrored; digits and letters, mostly grey, may not."""
    if not run.feed.data.is_image:
        return "none"
    return "flip" if run.feed.data.input_shape[0] == 3 else "shift"


STEP_SECONDS, PIXEL_SECONDS, MAC_SECONDS = 2e-3, 3.7e-7, 1 / 13e9
"""What a training step takes on one core of a machine like ours: in any case, for every pixel of the batch, and for
every multiply-accumulate of its forward pass.

Measured on residual networks of 4 to 32 channels and images of 8 to 32 pixels."""


def work_seconds(run: Run, architecture: Architecture, crop: int | None = None) -> float:
    """What a step counts on the clock ``work``: about what it takes on one core."""
    example = run.feed.example.inputs
    if crop is not None:
        assert isinstance(example, Tensor)
        example = example[:, :, :crop, :crop]
    macs = MACs(example).score(run.net, architecture)
    pixels = example[0, 0].numel() if run.feed.data.is_image and isinstance(example, Tensor) else 0
    batch = run.settings.section(RaceSettings).batch_size
    return STEP_SECONDS + batch * (pixels * PIXEL_SECONDS + macs * MAC_SECONDS)


PLAIN = {"width": 16, "depth": 1, "kernel": 3}
"""The plain network: a residual block per stage; 16, 32 and 64 channels."""

FAMILY, VIEW = "family", "view"
"""Choices of spaces that hold plain networks beside others, and networks that look at mirror images, too."""


def sizes(space: Space) -> list[Architecture]:
    """Networks that are scaled as a whole, from small to large, where the choices are sizes; none elsewhere.

    All stages have the same width, relative to the first, and the same depth; kernels are the smallest.
    """
    parts = [_part(choice.name) for choice in space.choices]
    if not set(parts) <= {*PLAIN, FAMILY, VIEW} or "width" not in parts:
        return []
    levels = {part: len(space.choices[parts.index(part)].options) for part in parts}
    found = {}
    for width in range(levels["width"]):
        for depth in range(levels.get("depth", 1)):
            place = {"width": width, "depth": depth}
            one = Architecture(space, tuple(_within(choice, place) for choice in space.choices))
            found[one.canonical()] = one
    return list(found.values())


def plain_sizes(space: Space) -> list[Architecture]:
    """Plain networks of all widths, where the space holds a family of them; else those of `sizes`."""
    if FAMILY not in space.choice_names:
        return sizes(space)
    (widths,) = (choice for choice in space.choices if choice.name == "plain.width")
    first = {choice.name: choice.options[0] for choice in space.choices}
    return [space.architecture({**first, FAMILY: "plain", widths.name: option}) for option in widths.options]


def middle(space: Space) -> Architecture:
    """The middle option of every choice."""
    return Architecture(space, tuple(len(choice.options) // 2 for choice in space.choices))


def plain(ladder: Sequence[Architecture]) -> Architecture:
    """The plain network, or what is nearest to it."""

    def distance(architecture: Architecture) -> float:
        chosen = architecture.to_dict()
        if FAMILY in chosen:
            return abs(float(chosen["plain.width"]) - PLAIN["width"])
        first = {_part(name): option for name, option in reversed(chosen.items())}
        return math.fsum(abs(float(first[part]) - wanted) for part, wanted in PLAIN.items() if part in first)

    return min(ladder, key=distance)


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


def _within(choice: Choice, place: Mapping[str, int]) -> int:
    """The option at this place among those of widths or depths, or the last there is; the first of other choices."""
    return min(place.get(_part(choice.name), 0), len(choice.options) - 1)
