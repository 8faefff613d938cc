"""Parses JSON into raw examples; every value is checked, nothing is guessed."""

import base64
import binascii
import io
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from polyarch.data import Column, Inputs, NamedInputs
from polyarch.data.columns import MISSING_WORDS
from polyarch.data.decoding import decode_image
from polyarch.data.sequences import PADDING
from polyarch.errors import CorruptFile, DataError, InvalidInput
from polyarch.prediction.inputs import as_input
from polyarch.prediction.predictor import Predictor

IMAGE_FORMATS = ("PNG", "JPEG", "WEBP")
LARGEST_FLOAT = float(np.finfo(np.float32).max)
RANGES: dict[torch.dtype, tuple[float, float]] = {
    torch.uint8: (0, 255),
    torch.float32: (-LARGEST_FLOAT, LARGEST_FLOAT),
    torch.int64: (0, 2**31 - 1),
}


@dataclass(frozen=True)
class RequestLimits:
    """The limits of one request."""

    max_bytes: int
    max_instances: int
    max_pixels: int


def parse_instances(body: bytes, predictor: Predictor, limits: RequestLimits) -> Inputs:
    """Parses the body of a request into raw examples (B, *input_shape), or raises `InvalidInput` with the place."""
    instances = _instances(_parse(body), limits)
    places = [f"instances[{number}]" for number in range(len(instances))]
    shapes, dtypes = predictor.input_shape, predictor.input_dtype
    if predictor.is_table:
        rows = [_row(one, predictor.columns, place) for one, place in zip(instances, places, strict=True)]
        return torch.tensor(rows, dtype=torch.float32)
    pixels = _PixelBudget(limits.max_pixels)
    if not isinstance(shapes, dict) or not isinstance(dtypes, dict):
        assert isinstance(shapes, tuple) and isinstance(dtypes, torch.dtype)
        return torch.stack(
            [_example(one, shapes, dtypes, place, pixels) for one, place in zip(instances, places, strict=True)]
        )
    parts = [_parts(one, predictor, place) for one, place in zip(instances, places, strict=True)]
    tensors: dict[str, Tensor] = {}
    for name, shape in shapes.items():
        values = [part[name] for part in parts]
        named = [f"{place}.{name}" for place in places]
        tensors[name] = torch.stack(
            [_example(one, shape, dtypes[name], place, pixels) for one, place in zip(values, named, strict=True)]
        )
    return NamedInputs(tensors)


@dataclass
class _PixelBudget:
    """The pixels that the encoded images of a request may still have."""

    left: int


def _parts(instance: Any, predictor: Predictor, place: str) -> dict[str, Any]:
    """The inputs of one example by name; sequences are padded and their masks made, where the masks are missing."""
    assert isinstance(predictor.input_shape, dict)
    shapes, masks = predictor.input_shape, predictor.masks
    asked = [name for name in shapes if name not in masks.values()]
    if isinstance(instance, list) and len(asked) == 1:
        instance = {asked[0]: instance}
    if not isinstance(instance, dict):
        raise InvalidInput(f"Expected an object with {', '.join(asked)} in {place}. Got {_kind(instance)}.")
    for name in instance:
        if name not in shapes:
            raise InvalidInput(f"Expected the inputs {', '.join(shapes)} in {place}. Got {_shown(name)}.")
    for name in asked:
        if name not in instance:
            raise InvalidInput(f"Expected {name!r} in {place}. Got none of that name.")
    parts = dict(instance)
    for name, mask in masks.items():
        if mask not in parts:
            (length,) = shapes[name]
            tokens = parts[name]
            if not isinstance(tokens, list) or len(tokens) > length:
                found = f"{len(tokens)}" if isinstance(tokens, list) else _kind(tokens)
                raise InvalidInput(f"Expected a list of up to {length} tokens in {place}.{name}. Got {found}.")
            absent = length - len(tokens)
            parts[name], parts[mask] = tokens + [PADDING] * absent, [True] * len(tokens) + [False] * absent
    return parts


def _example(instance: Any, shape: tuple[int, ...], dtype: torch.dtype, place: str, pixels: _PixelBudget) -> Tensor:
    """One input of one example: an encoded image or nested lists."""
    if len(shape) == 3 and isinstance(instance, dict):
        content = _image_bytes(instance, place)
        pixels.left -= _pixels(content, place, pixels.left)
        return as_input(_decoded(content, shape, place), dtype)
    return torch.tensor(list(_numbers(instance, shape, place, dtype)), dtype=dtype).view(shape)


def _parse(body: bytes) -> Any:
    def refuse(word: str) -> NoReturn:
        raise InvalidInput(f"Expected finite numbers. Got {word}.")

    try:
        return json.loads(body.decode(), parse_constant=refuse)
    except UnicodeDecodeError:
        raise InvalidInput("Expected JSON in UTF-8. Got other bytes.") from None
    except RecursionError:
        raise InvalidInput("Expected JSON of a few levels. Got brackets nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(f"Expected JSON. Got: {error.msg} at character {error.pos}.") from None
    except InvalidInput:
        raise
    except ValueError:  # an integer with thousands of digits
        raise InvalidInput("Expected numbers of ordinary size. Got one with thousands of digits.") from None


def _instances(content: Any, limits: RequestLimits) -> list[Any]:
    if not isinstance(content, dict) or not isinstance(content.get("instances"), list):
        raise InvalidInput('Expected an object {"instances": [...]}. Got something else.')
    others = [name for name in content if name != "instances"]
    if others:
        raise InvalidInput(f"Expected the key instances alone. Got also {_shown(others[0])}.")
    instances: list[Any] = content["instances"]
    if not 1 <= len(instances) <= limits.max_instances:
        raise InvalidInput(f"Expected 1 to {limits.max_instances} instances. Got {len(instances)}.")
    return instances


def _row(instance: Any, columns: tuple[Column, ...], place: str) -> list[float]:
    """The values of a row that is given by name or in order."""
    if isinstance(instance, dict):
        known = {column.name for column in columns}
        for name in instance:
            if name not in known:
                raise InvalidInput(f"Expected columns of the table in {place}. Got {_shown(name)}.")
        for column in columns:
            if column.name not in instance:
                raise InvalidInput(
                    f"Expected column {_shown(column.name)} in {place}, null if it is missing. Got none of that name."
                )
        cells = [instance[column.name] for column in columns]
    elif isinstance(instance, list):
        if len(instance) != len(columns):
            raise InvalidInput(f"Expected {len(columns)} values in {place}. Got {len(instance)}.")
        cells = instance
    else:
        raise InvalidInput(f"Expected an object or a list of {len(columns)} values in {place}. Got {_kind(instance)}.")
    return [_cell(cell, column, place) for cell, column in zip(cells, columns, strict=True)]


def _cell(cell: Any, column: Column, place: str) -> float:
    """A number, the index of a category (-1 if unknown), or NaN if missing, as in `encode_rows`."""
    if cell is None:
        return math.nan
    where = f"column {_shown(column.name)} of {place}"
    if column.categories is None:
        return float(cell) if isinstance(cell, bool) else _number(cell, where)
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        raise InvalidInput(f"Expected a text, a number or null in {where}. Got {_kind(cell)}.")
    if isinstance(cell, str):
        word = cell.strip()
        if word in MISSING_WORDS:
            return math.nan
    else:
        number = _number(cell, where)
        word = str(int(number)) if number.is_integer() and abs(number) < 2**53 else str(number)
    return float(column.categories.index(word)) if word in column.categories else -1.0


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"Expected a number in {where}. Got {_kind(value)}.")
    if not abs(value) <= LARGEST_FLOAT:  # exact for integers of any size, and false for infinity
        raise InvalidInput(f"Expected a number below 3.4e38 in {where}. Got a larger one.")
    return float(value)


def _numbers(value: Any, shape: tuple[int, ...], place: str, dtype: torch.dtype) -> Iterator[float]:
    """Yields the numbers of nested lists of this shape."""
    if not isinstance(value, list):
        wanted = " x ".join(map(str, shape))
        raise InvalidInput(f"Expected nested lists of shape {wanted} in {place}. Got {_kind(value)}.")
    if len(value) != shape[0]:
        raise InvalidInput(f"Expected a list of {shape[0]} in {place}. Got {len(value)}.")
    if len(shape) > 1:
        for number, inner in enumerate(value):
            yield from _numbers(inner, shape[1:], f"{place}[{number}]", dtype)
        return
    if dtype == torch.bool:
        for number, entry in enumerate(value):
            if not isinstance(entry, bool):
                raise InvalidInput(f"Expected true or false in {place}[{number}]. Got {_kind(entry)}.")
        yield from value
        return
    for number, entry in enumerate(value):  # millions of times, so the text of an error is made only when needed
        if type(entry) is not float and type(entry) is not int:
            _number(entry, f"{place}[{number}]")
    low, high = RANGES[dtype]
    if value and (min(value) < low or max(value) > high):
        found = "a smaller one" if min(value) < low else "a larger one"
        raise InvalidInput(f"Expected numbers {low:g}..{high:g} in {place}. Got {found}.")
    if dtype != torch.float32 and any(entry % 1 for entry in value):
        wanted = "tokens" if dtype == torch.int64 else f"whole numbers {low:g}..{high:g}"
        raise InvalidInput(f"Expected {wanted} in {place}. Got a fraction.")
    yield from map(int if dtype == torch.int64 else float, value)  # torch takes integers of up to 64 bits only


def _image_bytes(instance: dict[str, Any], place: str) -> bytes:
    if set(instance) != {"image"} or not isinstance(instance["image"], str):
        raise InvalidInput(f'Expected {{"image": "base64"}} or nested lists in {place}. Got another object.')
    try:
        return base64.b64decode(instance["image"], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"Expected an image in base64 in {place}. Got other characters.") from None


def _pixels(content: bytes, place: str, most: int) -> int:
    """The number of pixels that the image claims to have; only `IMAGE_FORMATS` are tried."""
    too_many = InvalidInput(f"Expected fewer pixels in all images. Got more than the {most} left for {place}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=IMAGE_FORMATS) as image:
                pixels = image.width * image.height
    except Image.DecompressionBombError:
        raise too_many from None
    except Exception:  # damaged bytes make decoders raise all kinds of errors
        raise InvalidInput(f"Expected a PNG, JPEG or WebP image in {place}. Got other bytes.") from None
    if pixels > most:
        raise too_many
    return pixels


def _decoded(content: bytes, shape: tuple[int, ...], place: str) -> Tensor:
    try:
        return decode_image(content, shape, place)
    except (CorruptFile, DataError) as error:
        raise InvalidInput(str(error)) from None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(name: str) -> str:
    """A name from a request, shortened for an error message."""
    return repr(name if len(name) <= 50 else f"{name[:50]}...")
