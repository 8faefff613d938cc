"""An epoch of augmented CIFAR-sized images: resident data and whole batches, against one image at a time."""

from __future__ import annotations

import random

import numpy as np
import torch
from measure import Goal, interleaved, medians, options, report, summary
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from polyarch.data import Batches, Normalisation, RandomFlip, RandomShift, TensorData
from polyarch.randomness import generator_at

NAME = "resident_epoch"
GOAL = Goal(">=", 2.0)
SEED = 0
BATCH = 256
PADDING = 4
SIZE = 32


def random_images(count: int) -> TensorData:
    generator = generator_at(SEED, "images")
    images = torch.randint(256, (count, 3, SIZE, SIZE), generator=generator, dtype=torch.uint8)
    return TensorData(images, torch.randint(10, (count,), generator=generator), 10)


class PerImage(Dataset[tuple[Tensor, int]]):
    """The customary way: pad, crop, flip, convert and normalise every image by itself."""

    def __init__(self, data: TensorData, normalisation: Normalisation) -> None:
        self.images = data.inputs.permute(0, 2, 3, 1).contiguous().numpy()
        self.targets = data.targets.tolist()
        self.mean = torch.tensor(normalisation.mean).view(3, 1, 1)
        self.std = torch.tensor(normalisation.std).view(3, 1, 1)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = ImageOps.expand(Image.fromarray(self.images[index]), PADDING)
        left, top = random.randint(0, 2 * PADDING), random.randint(0, 2 * PADDING)
        image = image.crop((left, top, left + SIZE, top + SIZE))
        if random.random() < 0.5:
            image = ImageOps.mirror(image)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        return (pixels.float() / 255 - self.mean) / self.std, self.targets[index]


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    count, rounds = (10_000, 3) if asked.quick else (50_000, 5)
    data = random_images(count)
    normalisation = Normalisation.of(data)
    random.seed(SEED)
    torch.manual_seed(SEED)
    resident = Batches(
        data, BATCH, augmentations=[RandomShift(PADDING), RandomFlip()], preprocessing=normalisation, seed=SEED
    )
    loader = DataLoader(PerImage(data, normalisation), BATCH, shuffle=True, drop_last=True)

    def walk_resident() -> None:
        for _ in resident.epoch(0):
            pass

    def walk_loader() -> None:
        for _ in loader:
            pass

    sides = {"resident": walk_resident, "per_image": walk_loader}
    interleaved(sides, 1)  # warm-up
    times = interleaved(sides, rounds)
    middle = medians(times)
    print({side: f"{value:.3f} s" for side, value in middle.items()})
    report(
        NAME,
        middle["per_image"] / middle["resident"],
        GOAL,
        options=asked,
        settings={
            "images": count,
            "size": SIZE,
            "batch": BATCH,
            "padding": PADDING,
            "rounds": rounds,
            "data": "random",
        },
        details=summary(times),
    )


if __name__ == "__main__":
    main()
