"""What happens to training images: kinds of augmentation by name, and crops that make steps faster."""

from collections.abc import Sequence

from polyarch.data import Augmentation, Cutout, RandomCrop, RandomFlip, RandomShift
from polyarch.runs.run import Run
from polyarch.supernets import ElasticSupernet

AUGMENTATIONS: dict[str, Sequence[str]] = {
    "none": (),
    "shift": ("shift",),
    "flip": ("shift", "flip"),
    "cutout": ("shift", "cutout"),
    "flip and cutout": ("shift", "flip", "cutout"),
}
"""What happens to training images, by name. Every kind but the first shifts them by a few pixels."""


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


def usual_augmentation(run: Run) -> str:
    """Photographs, in colour, may be mirrored; digits and letters, mostly grey, may not."""
    if not run.feed.data.is_image:
        return "none"
    return "flip" if run.feed.data.input_shape[0] == 3 else "shift"


def crop_side(run: Run, share: float) -> int | None:
    """The side of training images that are cropped to this share of it; None where they are not cropped."""
    if share == 1 or not run.feed.data.is_image or not isinstance(run.net, ElasticSupernet):
        return None
    side: int = min(run.feed.data.input_shape[1:])
    return round(share * side)
