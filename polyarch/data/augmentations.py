"""Random augmentation of whole batches (B, C, H, W) with one tensor operation instead of one call per image.

Cutout: DeVries & Taylor (2017), "Improved Regularization of Convolutional Neural Networks with Cutout",
arXiv:1708.04552.
"""

from dataclasses import dataclass

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
    """Zeroes a square of side ``length`` around a random pixel, clipped at the border of the image."""

    length: int = 16

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        batch, _, height, width = inputs.shape
        row = torch.randint(height, (batch, 1), generator=generator) - self.length // 2
        column = torch.randint(width, (batch, 1), generator=generator) - self.length // 2
        rows, columns = torch.arange(height), torch.arange(width)
        in_rows = (rows >= row) & (rows < row + self.length)  # (B, H)
        in_columns = (columns >= column) & (columns < column + self.length)  # (B, W)
        return inputs.masked_fill(in_rows[:, None, :, None] & in_columns[:, None, None, :], 0)
