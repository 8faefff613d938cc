"""Decodes image files to pixels, with the same crop and size in training, prediction and serving."""

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
"""The path of an image file, or its bytes."""

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"})
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""What Pillow may take a file for, whatever its name says; it reads others, such as PostScript, by other programs."""

MOST_PIXELS = 2**26
"""The largest image that is decoded; a small file can claim to be a huge image."""

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
GREY_MODES = frozenset({"1", "L", "LA", "I;16", "I;16B", "I;16L", "I;16N", "I"})


class ImageHeader(NamedTuple):
    """What a file says about its image before it is decoded."""

    width: int
    height: int
    grey: bool


def read_header(content: ImageContent, name: str | None = None) -> ImageHeader:
    """Reads width, height and whether the image is grey; error messages call the image ``name``."""
    with _opened(content, name) as image:
        return ImageHeader(image.width, image.height, image.mode in GREY_MODES)


def decode_image(content: ImageContent, input_shape: tuple[int, ...], name: str | None = None) -> Tensor:
    """An image as uint8 (C, H, W).

    Crops the centre to the aspect ratio of H x W, then shrinks it by area averaging or enlarges it bicubically. Applies
    the camera's orientation tag and composites transparent pixels on white.
    """
    return torch.from_numpy(decode_pixels(content, input_shape, name))


def decode_pixels(content: ImageContent, input_shape: tuple[int, ...], name: str | None = None) -> Pixels:
    """Like `decode_image`, as a numpy array."""
    with _opened(content, name) as image:
        if image.format == "JPEG":  # decoding at 1/2, 1/4 or 1/8 size is many times faster on photographs
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
    """Converts the image to mode L, RGB or RGBA; modes without transparency composite it on white."""
    if image.mode.startswith("I"):  # 16 bits of grey: keep the upper eight, because convert() would clip
        image = Image.fromarray((np.asarray(image).astype(np.int64).clip(0, 65535) >> 8).astype(np.uint8))
    elif image.mode == "F":
        raise DataError("Expected an image of 8 or 16 bits per channel. Found floating-point numbers.")
    if mode != "RGBA" and (image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info):
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image).convert("RGB")
    return image if image.mode == mode else image.convert(mode)


def require_file(path: Path) -> None:
    """Refuses pipes and devices, which could keep a reader waiting, and links that lead nowhere."""
    if not path.is_file():
        found = "something else, such as a pipe or a device" if path.exists() else "no such file"
        raise CorruptFile(f"Expected {path} to be the file of an image. Found {found}.")


@contextmanager
def _opened(content: ImageContent, name: str | None) -> Iterator[Image.Image]:
    """Opens the image and turns every failure inside the block into an error that names it."""
    name = name or (str(content) if isinstance(content, Path) else "the image")
    source: Any = io.BytesIO(content) if isinstance(content, bytes) else content
    if isinstance(content, Path):
        require_file(content)
    try:
        with Image.open(source, formats=IMAGE_FORMATS) as image:
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
    except Exception as error:  # decoders raise all kinds of errors on damaged bytes
        raise CorruptFile(f"Expected {name} to be a readable image. Found: {first_line(error)}.") from None
