"""From the file of an image to its pixels: the same crop and size in training, prediction and serving."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps
from torch import Tensor

from polyarch.errors import CorruptFile, DataError, PolyarchError, first_line

Pixels = npt.NDArray[np.uint8]
ImageContent = Path | bytes
"""A file, or what is in it."""

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"})
MOST_PIXELS = 2**26
"""Of an image before it is resized; a small file can claim to be a huge image."""

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
GREY_MODES = frozenset({"1", "L", "LA", "I;16", "I;16B", "I;16L", "I;16N", "I"})


class ImageHeader(NamedTuple):
    """What can be known of an image without decoding it."""

    width: int
    height: int
    grey: bool


def read_header(content: ImageContent, name: str | None = None) -> ImageHeader:
    """Width, height and whether the image is grey; ``name`` is for sentences."""
    with _opened(content, name) as image:
        return ImageHeader(image.width, image.height, image.mode in GREY_MODES)


def decode_image(content: ImageContent, input_shape: tuple[int, ...], name: str | None = None) -> Tensor:
    """An image as uint8 (C, H, W).

    The middle of the image in the proportions of H x W, shrunk to the mean of the area that each pixel covers (or
    enlarged bicubically). Orientation as the camera noted it; what is transparent lies over white.
    """
    return torch.from_numpy(decode_pixels(content, input_shape, name))


def decode_pixels(content: ImageContent, input_shape: tuple[int, ...], name: str | None = None) -> Pixels:
    """Like `decode_image`, as a numpy array."""
    with _opened(content, name) as image:
        if image.format == "JPEG":  # a decoder that shrinks by 2, 4 or 8 is many times faster on photographs
            side = 2 * max(input_shape[1:])
            image.draft(None, (side, side))
        return image_pixels(ImageOps.exif_transpose(image), input_shape)


def image_pixels(image: Image.Image, input_shape: tuple[int, ...]) -> Pixels:
    """An open image as uint8 (C, H, W)."""
    if len(input_shape) != 3 or input_shape[0] not in MODES:
        raise DataError(f"Expected images of shape (C, H, W) with 1, 3 or 4 channels. Got {input_shape}.")
    channels, height, width = input_shape
    side = min(image.width / width, image.height / height)
    crop = (max(round(side * width), 1), max(round(side * height), 1))
    left, top = (image.width - crop[0]) // 2, (image.height - crop[1]) // 2
    if crop != image.size:
        image = image.crop((left, top, left + crop[0], top + crop[1]))
    image = flattened(image, MODES[channels])
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BOX if side > 1 else Image.Resampling.BICUBIC)
    pixels = np.asarray(image, dtype=np.uint8).reshape(height, width, channels)
    return np.array(pixels.transpose(2, 0, 1), order="C")


def flattened(image: Image.Image, mode: str) -> Image.Image:
    """The image in mode L, RGB or RGBA; transparency over white unless the mode has it too."""
    if image.mode.startswith("I"):  # 16 bits of grey: the upper eight, where converting would clip
        image = Image.fromarray((np.asarray(image).astype(np.int64).clip(0, 65535) >> 8).astype(np.uint8))
    elif image.mode == "F":
        raise DataError("Expected an image of 8 or 16 bits per channel. Found floating-point numbers.")
    if mode != "RGBA" and (image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info):
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image).convert("RGB")
    return image if image.mode == mode else image.convert(mode)


@contextmanager
def _opened(content: ImageContent, name: str | None) -> Iterator[Image.Image]:
    """The open image; whatever goes wrong with it becomes a sentence that names it."""
    name = name or (str(content) if isinstance(content, Path) else "the image")
    source: Any = io.BytesIO(content) if isinstance(content, bytes) else content
    try:
        with Image.open(source) as image:
            if image.width * image.height > MOST_PIXELS:
                raise CorruptFile(
                    f"Expected {name} to have at most {MOST_PIXELS} pixels. Found {image.width}x{image.height}."
                )
            yield image
    except DataError as error:
        raise DataError(f"{error} The image is {name}.") from None
    except PolyarchError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise CorruptFile(f"Expected {name} to have at most {MOST_PIXELS} pixels. Found more.") from None
    except Exception as error:  # damaged bytes make decoders raise anything
        raise CorruptFile(f"Expected {name} to be a readable image. Found: {first_line(error)}.") from None
