"""Corrupted copies of images: the worse the corruption, the less certain a network should be.

Every kind is a deterministic function of images (B, C, H, W) in 0..1, a severity 1..5 and a generator. The kinds follow
Hendrycks and Dietterich (2019), "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations",
arXiv:1903.12261; the strengths suit images of about 32 pixels.
"""

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from polyarch.errors import InvalidInput, UnknownName

SEVERITIES = (1, 2, 3, 4, 5)

Kind = Callable[[Tensor, int, Generator], Tensor]
"""Images (B, C, H, W) in 0..1, severity, generator -> images of the same shape, clipped to 0..1 by `corrupt`."""


def corrupt(images: Tensor, kind: str, severity: int, *, generator: Generator) -> Tensor:
    """Corrupted copies of images (B, C, H, W), of the same type: floats in 0..1, or bytes.

    Args:
        kind: a name in `CORRUPTIONS`.
        severity: 1 (mild) to 5.
        generator: used by the random kinds only.
    """
    if kind not in CORRUPTIONS:
        raise UnknownName("corruption", kind, CORRUPTIONS)
    if severity not in SEVERITIES:
        raise InvalidInput(f"Expected a severity in 1..5. Got {severity}.")
    if images.dim() != 4 or not (images.is_floating_point() or images.dtype == torch.uint8):
        raise InvalidInput(
            f"Expected images (B, C, H, W) as floats or bytes. Got {images.dtype}, {tuple(images.shape)}."
        )
    if images.dtype == torch.uint8:
        corrupted = CORRUPTIONS[kind](images.float() / 255, severity, generator).clamp(0, 1)
        return (corrupted * 255).round().byte()
    if not ((images >= 0) & (images <= 1)).all():  # written so that NaN is refused as well
        raise InvalidInput(
            f"Expected images in 0..1, before any normalisation. Got {images.min().item():g}..{images.max().item():g}."
        )
    return CORRUPTIONS[kind](images, severity, generator).clamp(0, 1)


def gaussian_noise(images: Tensor, severity: int, generator: Generator) -> Tensor:
    """x + s e, e ~ N(0, 1) for every value, s = 0.08 .. 0.38."""
    deviation = (0.08, 0.12, 0.18, 0.26, 0.38)[severity - 1]
    noise = torch.randn(images.shape, dtype=images.dtype, generator=generator)
    return images + deviation * noise.to(images.device)


def gaussian_blur(images: Tensor, severity: int, generator: Generator) -> Tensor:
    """Replaces every value by a mean with weights exp(-d^2 / 2 s^2) at distance d, s = 0.5 .. 2.5 pixels.

    The window ends at 3 s; beyond its edge the image repeats its outermost pixels.
    """
    deviation = (0.5, 0.8, 1.2, 1.8, 2.5)[severity - 1]
    reach = math.ceil(3 * deviation)
    distances = torch.arange(-reach, reach + 1, dtype=images.dtype, device=images.device)
    weights = torch.softmax(-distances.square() / (2 * deviation**2), 0)
    batch, channels, height, width = images.shape
    single = images.reshape(batch * channels, 1, height, width)
    # The weights are a product of rows and columns, so two short convolutions replace one large one.
    padded = F.pad(single, [reach] * 4, mode="replicate")
    rows = F.conv2d(padded, weights.view(1, 1, -1, 1))
    return F.conv2d(rows, weights.view(1, 1, 1, -1)).reshape(images.shape)


def contrast(images: Tensor, severity: int, generator: Generator) -> Tensor:
    """m + c (x - m) around the mean m of every image and channel, c = 0.75 .. 0.15."""
    share = (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1]
    mean = images.mean((2, 3), keepdim=True)
    return mean + share * (images - mean)


def occlusion(images: Tensor, severity: int, generator: Generator) -> Tensor:
    """Covers about 10 % .. 50 % of every image with a black rectangle at a random place inside it."""
    side = math.sqrt(severity / 10)
    batch, _, height, width = images.shape
    hidden = []
    for length in (height, width):
        covered = round(side * length)
        start = torch.randint(length - covered + 1, (batch, 1), generator=generator)
        place = torch.arange(length)
        hidden.append((place >= start) & (place < start + covered))  # (B, length)
    hole = hidden[0][:, None, :, None] & hidden[1][:, None, None, :]
    return images.masked_fill(hole.to(images.device), 0)


def pixelate(images: Tensor, severity: int, generator: Generator) -> Tensor:
    """Replaces blocks of 2 x 2 .. 8 x 8 pixels by their mean; blocks at the lower and right edge may be smaller."""
    side = (2, 3, 4, 6, 8)[severity - 1]
    height, width = images.shape[2:]
    means = F.avg_pool2d(images, side, ceil_mode=True)
    return means.repeat_interleave(side, 2)[:, :, :height].repeat_interleave(side, 3)[..., :width]


CORRUPTIONS: Mapping[str, Kind] = {
    kind.__name__: kind for kind in (gaussian_noise, gaussian_blur, contrast, occlusion, pixelate)
}
