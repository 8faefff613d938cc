"""Who takes part in a race: an architecture with the augmentation it is trained with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from polyarch.methods.race.settings import RaceSettings
from polyarch.runs.image_augmentation import crop_side, usual_augmentation
from polyarch.runs.run import Run
from polyarch.runs.work import work_seconds
from polyarch.spaces import Architecture, Space

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
        augmentation: a name of `polyarch.runs.image_augmentation.AUGMENTATIONS`.
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
    ladder = [one for one in sizes(run.net.space) if run.limits.allows(one)]
    if not ladder:  # choices that are no sizes, or limits that no network of the ladder keeps
        first = [one for one in [middle(run.net.space)] if one in run.net.space and run.limits.allows(one)]
        draws = [*first, *run.draw(count - len(first), "race", besides=first)]
        return [Candidate(one, augmentation, is_reference=place == 0) for place, one in enumerate(draws)]
    settings = run.settings.section(RaceSettings)
    crop = crop_side(run, settings.crop)
    costs = {one: work_seconds(run, one, settings.batch_size, crop) for one in ladder}
    usual = seconds / USUAL_STEPS
    found = [plain(ladder)]
    for place in range(count - 1):
        wanted = usual * 2.0 ** ((place + 1) // 2 * (-1) ** place)
        others = [one for one in ladder if one not in found]
        if others:
            found.append(min(others, key=lambda one: abs(math.log(costs[one] / wanted))))
    return [Candidate(one, augmentation, is_reference=place == 0) for place, one in enumerate(found)]


PLAIN = {"width": 16, "depth": 1, "kernel": 3}
"""The plain network: a residual block per stage; 16, 32 and 64 channels."""


def sizes(space: Space) -> list[Architecture]:
    """Networks that are scaled as a whole, from small to large, where the choices are sizes; none elsewhere.

    All stages have the same width, relative to the first, and the same depth; kernels are the smallest.
    """
    parts = [choice.name.rpartition(".")[2] for choice in space.choices]
    if not set(parts) <= set(PLAIN) or "width" not in parts:
        return []
    levels = {part: len(space.choices[parts.index(part)].options) for part in parts}
    found = []
    for width in range(levels["width"]):
        for depth in range(levels.get("depth", 1)):
            place = {"width": width, "depth": depth, "kernel": 0}
            found.append(Architecture(space, tuple(place[part] for part in parts)))
    return found


def middle(space: Space) -> Architecture:
    """The middle option of every choice."""
    return Architecture(space, tuple(len(choice.options) // 2 for choice in space.choices))


def plain(ladder: Sequence[Architecture]) -> Architecture:
    """The plain network, or what is nearest to it."""

    def distance(architecture: Architecture) -> float:
        first = {name.rpartition(".")[2]: option for name, option in reversed(architecture.to_dict().items())}
        return math.fsum(abs(float(first[part]) - wanted) for part, wanted in PLAIN.items() if part in first)

    return min(ladder, key=distance)
