"""Who takes part in a race: an architecture with the augmentation it is trained with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from polyarch.data import Augmentation, Cutout, RandomCrop, RandomFlip, RandomShift
from polyarch.estimators import MACs
from polyarch.methods.race.settings import RaceSettings
from polyarch.runs.run import Run
from polyarch.spaces import Architecture, Space
from polyarch.supernets import ElasticSupernet, PackedMLPSupernet

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
        augmentation: a name of `AUGMENTATIONS`.
        seed: of its weights and of the order of its batches.
        is_reference: whether it is the plain network that every other has to beat.
        recipe: its own, where candidates differ in it.
    """

    architecture: Architecture
    augmentation: str = "none"
    seed: int = 0
    is_reference: bool = False
    recipe: Recipe | None = None

    @property
    def key(self) -> str:
        """Names it among all candidates."""
        recipe = "" if self.recipe is None else f" {self.recipe}"
        return f"{self.architecture.key} {self.augmentation} {self.seed}{recipe}"


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
    ladder = [one for one in sizes(run.net.space) if run.limits.allows(one)]
    if not ladder:  # choices that are no sizes, or limits that no network of the ladder keeps
        first = [one for one in [middle(run.net.space)] if one in run.net.space and run.limits.allows(one)]
        draws = [*first, *run.draw(count - len(first), "race", besides=first)]
        return [Candidate(one, augmentation, is_reference=place == 0) for place, one in enumerate(draws)]
    costs = {one: work_seconds(run, one, crop_of(run)) for one in ladder}
    usual = seconds / USUAL_STEPS
    found = [plain(ladder)]
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

MEMBER_MAC_SECONDS = 1 / 4e9
"""The same for networks that hold members, which also scale, activate and drop every feature of every member.

Measured on 8 to 16 members of width 128 and batches of 256."""


def work_seconds(run: Run, architecture: Architecture, crop: int | None = None) -> float:
    """What a step counts on the clock ``work``: about what it takes on one core."""
    example = run.feed.example.inputs
    if crop is not None:
        assert isinstance(example, Tensor)
        example = example[:, :, :crop, :crop]
    macs = MACs(example).score(run.net, architecture)
    pixels = example[0, 0].numel() if run.feed.data.is_image and isinstance(example, Tensor) else 0
    batch = run.settings.section(RaceSettings).batch_size
    mac_seconds = MEMBER_MAC_SECONDS if isinstance(run.net, PackedMLPSupernet) else MAC_SECONDS
    return STEP_SECONDS + batch * (pixels * PIXEL_SECONDS + macs * mac_seconds)


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
