from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from polyarch.data import Cutout, RandomFlip, RandomShift
from polyarch.randomness import generator_at


def images(dtype: torch.dtype, count: int = 64, height: int = 7, width: int = 9) -> Tensor:
    """Values from 1 on, so that a zero is a hole or padding."""
    values = torch.randint(1, 256, (count, 3, height, width), generator=generator_at(0, "images"))
    return values.to(dtype)


def shifted_one_by_one(inputs: Tensor, padding: int, generator: Generator) -> Tensor:
    count, channels, height, width = inputs.shape
    places = torch.randint(2 * padding + 1, (2, count), generator=generator).tolist()
    result = torch.zeros_like(inputs)
    for image in range(count):
        canvas = torch.zeros(channels, height + 2 * padding, width + 2 * padding, dtype=inputs.dtype)
        canvas[:, padding : padding + height, padding : padding + width] = inputs[image]
        top, left = places[0][image], places[1][image]
        result[image] = canvas[:, top : top + height, left : left + width]
    return result


def flipped_one_by_one(inputs: Tensor, generator: Generator) -> Tensor:
    coins = (torch.rand(len(inputs), generator=generator) < 0.5).tolist()
    return torch.stack([image.flip(-1) if coin else image for image, coin in zip(inputs, coins, strict=True)])


def cut_one_by_one(inputs: Tensor, length: int, generator: Generator) -> Tensor:
    count, _, height, width = inputs.shape
    rows = torch.randint(height, (count, 1), generator=generator).flatten().tolist()
    columns = torch.randint(width, (count, 1), generator=generator).flatten().tolist()
    result = inputs.clone()
    for image, (row, column) in enumerate(zip(rows, columns, strict=True)):
        top, left = row - length // 2, column - length // 2
        result[image, :, max(top, 0) : max(top + length, 0), max(left, 0) : max(left + length, 0)] = 0
    return result


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
class TestAgainstOneImageAtATime:
    @pytest.mark.parametrize("padding", [0, 1, 4])
    def test_shift(self, dtype: torch.dtype, padding: int) -> None:
        inputs = images(dtype)
        expected = shifted_one_by_one(inputs, padding, generator_at(1, "shift"))
        assert torch.equal(RandomShift(padding)(inputs, generator_at(1, "shift")), expected)

    def test_flip(self, dtype: torch.dtype) -> None:
        inputs = images(dtype)
        expected = flipped_one_by_one(inputs, generator_at(1, "flip"))
        assert torch.equal(RandomFlip()(inputs, generator_at(1, "flip")), expected)

    @pytest.mark.parametrize("length", [1, 4, 5, 30])
    def test_cutout(self, dtype: torch.dtype, length: int) -> None:
        inputs = images(dtype)
        expected = cut_one_by_one(inputs, length, generator_at(1, "cut"))
        assert torch.equal(Cutout(length)(inputs, generator_at(1, "cut")), expected)


@pytest.mark.parametrize("augmentation", [RandomShift(2), RandomFlip(), Cutout(3)])
def test_input_is_left_alone_and_something_changes(augmentation: RandomShift | RandomFlip | Cutout) -> None:
    inputs = images(torch.float32)
    before = inputs.clone()
    result = augmentation(inputs, generator_at(2, "any"))
    assert torch.equal(inputs, before)
    assert result.shape == inputs.shape
    assert not torch.equal(result, inputs)


def test_every_shift_is_as_likely() -> None:
    """Of 9 places, each is taken by 1/9 of 9,000 images within four standard deviations (30 each)."""
    image = torch.zeros(9000, 1, 3, 3)
    image[:, :, 1, 1] = 1
    taken = RandomShift(1)(image, generator_at(0, "shift")).sum(0).flatten()
    assert ((taken - 1000).abs() < 120).all()
