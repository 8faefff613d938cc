"""Random augmentation of whole batches (B, C, H, W) with one tensor operation instead of one call per image.

Cutout: DeVries & Taylor (2017), "Improved Regularization of Convolutional Neural Networks with Cutout",
arXiv:1708.04552. Crops of random size and ratio: Szegedy et al. (2015), "Going Deeper with Convolutions",
arXiv:1409.4842. Random colours: Howard (2013), "Some Improvements on Deep Convolutional Neural Network Based Image
Classification", arXiv:1312.5402.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


@dataclass(frozen=True)
class RandomShift:
    """Shifts each image by up to ``padding`` pixels in both directions and fills the border with zeros."""

    padding: int = 4

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        batch, _, height, width = inputs.shape
        padded = F.pad(inputs, [self.padding] * 4)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # (B, C, 2p+1, 2p+1, H, W), a view
        places = torch.randint(2 * self.padding + 1, (2, batch), generator=generator)
        return windows[torch.arange(batch), :, places[0], places[1]]


@dataclass(frozen=True)
class RandomFlip:
    """Mirrors each image left to right with probability 1/2."""

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        coins = torch.rand(len(inputs), generator=generator) < 0.5
        return torch.where(coins.view(-1, 1, 1, 1), inputs.flip(-1), inputs)


@dataclass(frozen=True)
class RandomCrop:
    """Keeps a random window of ``size`` pixels, the same for all images of a batch: steps take less time.

    Touvron et al. (2019), "Fixing the train-test resolution discrepancy", arXiv:1906.06423: networks that pool over all
    pixels can learn from smaller images first.
    """

    size: int

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """(B, C, H, W) -> (B, C, size, size), or less where the images are smaller."""
        height, width = inputs.shape[2:]
        top, left = (
            int(torch.randint(max(side - self.size, 0) + 1, (), generator=generator)) for side in (height, width)
        )
        return inputs[:, :, top : top + self.size, left : left + self.size]


@dataclass(frozen=True)
class Cutout:
    """Blanks a square of side ``length`` around a random pixel, clipped at the border of the image.

    Args:
        fill: the value of every channel, in 0..1 as in `Normalisation`, whose mean becomes 0 later; black by default.
    """

    length: int = 16
    fill: tuple[float, ...] = ()

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        batch, _, height, width = inputs.shape
        row = torch.randint(height, (batch, 1), generator=generator) - self.length // 2
        column = torch.randint(width, (batch, 1), generator=generator) - self.length // 2
        rows, columns = torch.arange(height), torch.arange(width)
        in_rows = (rows >= row) & (rows < row + self.length)  # (B, H)
        in_columns = (columns >= column) & (columns < column + self.length)  # (B, W)
        blank = in_rows[:, None, :, None] & in_columns[:, None, None, :]
        if not self.fill:
            return inputs.masked_fill(blank, 0)
        fill = torch.tensor(self.fill)
        fill = fill.to(inputs) if inputs.is_floating_point() else (255 * fill).round().to(inputs)
        return torch.where(blank, fill[:, None, None], inputs)


ATTEMPTS = 10
"""Boxes drawn for an image until one fits into it."""

Interpolation = Literal["bilinear", "random"]


@dataclass(frozen=True)
class RandomResizedCrop:
    """Enlarges a random box of each image to the size of the image.

    The share a of the area is uniform, and so is the logarithm of the ratio r of width to height; the box is

        sqrt(a H W r) x sqrt(a H W / r) pixels

    anywhere in the image. Of several draws the first box that fits counts; where none does, all of the image is kept.

    Args:
        scale: the smallest and the largest share of the area.
        ratio: the smallest and the largest ratio.
        interpolation: ``random`` is bilinear or bicubic, by a coin for every image.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Interpolation = "bilinear"

    def boxes(self, batch: int, height: int, width: int, generator: Generator) -> Tensor:
        """(B, 4): left, top, width and height of every box, in pixels."""
        shares, ratios, across, down = torch.rand(4, batch, ATTEMPTS, generator=generator)
        area = height * width * (self.scale[0] + shares * (self.scale[1] - self.scale[0]))
        low, high = map(math.log, self.ratio)
        ratio = torch.exp(low + ratios * (high - low))
        wide, tall = (area * ratio).sqrt(), (area / ratio).sqrt()  # (B, ATTEMPTS)
        fits = (wide <= width) & (tall <= height)
        drawn = torch.stack([across * (width - wide), down * (height - tall), wide, tall], -1)
        whole = drawn.new_tensor([0, 0, width, height]).expand(batch, 4)
        first = drawn[torch.arange(batch), fits.int().argmax(1)]
        return torch.where(fits.any(1, keepdim=True), first, whole)

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        batch, _, height, width = inputs.shape
        left, top, wide, tall = self.boxes(batch, height, width, generator).T[..., None]  # (B, 1) each
        columns = 2 * (left + (torch.arange(width) + 0.5) * wide / width) / width - 1  # (B, W), from -1 to 1
        rows = 2 * (top + (torch.arange(height) + 0.5) * tall / height) / height - 1  # (B, H)
        grid = torch.stack(torch.broadcast_tensors(columns[:, None, :], rows[:, :, None]), -1)  # (B, H, W, 2)
        smooth = torch.zeros(batch, dtype=torch.bool)
        if self.interpolation == "random":
            smooth = torch.rand(batch, generator=generator) < 0.5
        result = torch.empty(inputs.shape)
        for mode, chosen in (("bilinear", ~smooth), ("bicubic", smooth)):
            result[chosen] = F.grid_sample(
                inputs[chosen].float(), grid[chosen], mode, padding_mode="border", align_corners=False
            )
        return _like(result, inputs)


@dataclass(frozen=True)
class ColourJitter:
    """Changes brightness, contrast and saturation of each image, in this order, each by a factor from 1 - s to 1 + s.

    With the grey image g = 0.299 R + 0.587 G + 0.114 B and its mean m, a factor f makes f x, f x + (1 - f) m and
    f x + (1 - f) g of the pixels x. Values stay between 0 and 255, or 1 where images are floats.

    Args:
        strength: s.
    """

    strength: float = 0.4

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """(B, 3, H, W) -> (B, 3, H, W)."""
        shape = (3, len(inputs), 1, 1, 1)
        brightness, contrast, saturation = 1 + self.strength * (2 * torch.rand(shape, generator=generator) - 1)
        white = 1.0 if inputs.is_floating_point() else 255.0
        x = (brightness * inputs).clamp(0, white)
        x = (contrast * x + (1 - contrast) * _grey(x).mean((2, 3), keepdim=True)).clamp(0, white)
        x = (saturation * x + (1 - saturation) * _grey(x)).clamp(0, white)
        return _like(x, inputs)


def _grey(images: Tensor) -> Tensor:
    """(B, 3, H, W) -> (B, 1, H, W)."""
    return (images * images.new_tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True)


def _like(values: Tensor, images: Tensor) -> Tensor:
    """Floats in the type of the images, rounded to bytes where these are bytes."""
    return values.to(images.dtype) if images.is_floating_point() else values.round().clamp(0, 255).to(images.dtype)
