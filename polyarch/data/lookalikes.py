"""Images of one data set in the form of another's, so that one network can look at both."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from polyarch.data.dataset import resize
from polyarch.errors import InvalidInput


def shaped_like(images: Tensor, shape: Sequence[int], *, as_bytes: bool) -> Tensor:
    """Images (N, c, h, w) as (N, C, size, size): resized, grey repeated in every channel or colours averaged to grey.

    Values are rounded to bytes on the way, so that images of both data sets have the same levels.

    Args:
        images: bytes, or floats in 0..1.
        shape: (C, size, size), of one example of the other data set.
        as_bytes: whether its examples are bytes; otherwise floats in 0..1.
    """
    channels, height, width = shape
    if height != width:
        raise InvalidInput(f"Expected the shape of square images. Got {height}x{width} pixels.")
    if images.dim() != 4 or (images.shape[1] not in (1, channels) and channels != 1):
        raise InvalidInput(
            f"Expected images (N, c, h, w) with 1 or {channels} channels. Got shape {tuple(images.shape)}."
        )
    resized = resize(images, height)
    if resized.is_floating_point():
        resized = (resized * 255).round().clamp(0, 255).byte()
    if channels == 1 and resized.shape[1] > 1:
        resized = resized.float().mean(1, keepdim=True).round().byte()
    if not as_bytes:
        resized = resized.float() / 255
    return resized.expand(-1, channels, -1, -1).contiguous()
