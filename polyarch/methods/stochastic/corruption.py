"""Whether an ensemble is less sure of corrupted copies of test images than of the images themselves."""

import torch
from torch import Tensor

from polyarch.data import BatchSource, TensorData
from polyarch.predictive import corrupt
from polyarch.randomness import generator_at
from polyarch.runs.judging import Ensemble, told_apart
from polyarch.runs.run import Run

KINDS = ("gaussian_noise", "gaussian_blur")
SEVERITY = 3
MOST_IMAGES = 1000


def corrupted_detection(ensemble: Ensemble, run: Run, temperature: float) -> dict[str, dict[str, dict[str, float]]]:
    """Kind of corruption -> score -> how well it tells the copies from up to a thousand test images.

    Empty for examples that are no images, or whose values are not those of pixels.
    """
    if not run.feed.data.is_image:
        return {}
    seed, test = run.settings.seed, run.feed.data.test
    rows = torch.randperm(len(test), generator=generator_at(seed, "corrupted", 0))[:MOST_IMAGES]
    (images,) = test.stream([rows])
    if images.is_floating_point() and not ((images >= 0) & (images <= 1)).all():
        return {}
    known, _ = ensemble.logits(_batches(images, run))
    found = {}
    for kind in KINDS:
        copies = corrupt(images, kind, SEVERITY, generator=generator_at(seed, kind, 0))
        foreign, _ = ensemble.logits(_batches(copies, run))
        found[kind] = told_apart(ensemble, known, foreign, temperature)
    return found


def _batches(images: Tensor, run: Run) -> BatchSource:
    return run.feed.in_order(TensorData(images, torch.zeros(len(images), dtype=torch.int64), 1))
