"""Images at another size, or converted to the format of another data set so that one network can read both."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from polyarch.errors import InvalidInput


def resize(images: Tensor, size: int) -> Tensor:
    """(N, C, H, W) -> (N, C, size, size) of the same type; each pixel is the mean of the area it covers.

    Works in chunks, so that only a few byte images at a time are held as floats.
    """
    pieces = []
    for piece in images.split(4096):
        resized = F.interpolate(piece.float(), size=(size, size), mode="area")
        pieces.append(resized if images.is_floating_point() else resized.round().to(images.dtype))
    return torch.cat(pieces)


def shaped_like(images: Tensor, shape: Sequence[int], *, as_bytes: bool) -> Tensor:
    """Resizes (N, c, h, w) to (N, C, size, size), repeats grey in every channel or averages colours to grey.

    Values are rounded to bytes on the way, so that the images of both data sets have the same levels.

    Args:
        images: bytes, or floats in 0..1.
        shape: (C, size, size), the shape of one example of the other data set.
        as_bytes: whether to return bytes; otherwise floats in 0..1.
    """
    channels, height, width = shape
    if height != width:
        raise InvalidInput(f"Expected the shape of square images. Got {height}x{width} pixels.")
    if images.dim() != 4 or (images.shape[1] not in (1, channels) and channels != 1):
        raise InvalidInput(f"Expected images (N, c, h, w) with 1 or {channels} channels. Got {tuple(images.shape)}.")
    resized = resize(images, height)
    if resized.is_floating_point():
        resized = (resized * 255).round().clamp(0, 255).byte()
    if channels == 1 and resized.shape[1] > 1:
        resized = resized.float().mean(1, keepdim=True).round().byte()
    if not as_bytes:
        resized = resized.float() / 255
    return resized.expand(-1, channels, -1, -1).contiguous()
