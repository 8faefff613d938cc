from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor

from polyarch.data import ColourJitter, Cutout, RandomFlip, RandomResizedCrop, RandomShift
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


class TestRandomResizedCrop:
    def test_shares_and_ratios_are_uniform(self) -> None:
        """Of square images with ratios of 1 every box fits: the share has the moments of a uniform number."""
        low, high = 0.08, 0.6
        boxes = RandomResizedCrop((low, high), ratio=(1.0, 1.0)).boxes(20_000, 30, 30, generator_at(0, "crop"))
        left, _, wide, tall = boxes.T
        share = wide * tall / 900
        assert torch.equal(wide, tall) and (left >= 0).all() and (left + wide <= 30 + 1e-4).all()
        assert share.mean().item() == pytest.approx((low + high) / 2, abs=4 * (high - low) / math.sqrt(12 * 20_000))
        assert share.var().item() == pytest.approx((high - low) ** 2 / 12, rel=0.03)
        place = left / (30 - wide)
        assert place.mean().item() == pytest.approx(0.5, abs=0.01) and place.var().item() == pytest.approx(
            1 / 12, rel=0.05
        )

    def test_log_ratios_are_uniform_where_boxes_fit(self) -> None:
        boxes = RandomResizedCrop((0.1, 0.5)).boxes(20_000, 24, 24, generator_at(1, "crop"))
        logs = (boxes[:, 2] / boxes[:, 3]).log()
        end = math.log(4 / 3)  # sqrt(0.5 * 4 / 3) < 1, so that all fit
        assert logs.abs().max().item() <= end + 1e-5
        assert logs.mean().item() == pytest.approx(0, abs=0.01) and logs.var().item() == pytest.approx(
            end**2 / 3, rel=0.03
        )

    def test_boxes_stay_inside_and_all_is_kept_where_none_fits(self) -> None:
        boxes = RandomResizedCrop((0.5, 1.0)).boxes(2000, 10, 20, generator_at(2, "crop"))
        assert (boxes[:, :2] >= 0).all()
        assert (boxes[:, 0] + boxes[:, 2] <= 20 + 1e-4).all() and (boxes[:, 1] + boxes[:, 3] <= 10 + 1e-4).all()
        never = RandomResizedCrop((1.0, 1.0), ratio=(3.0, 3.0)).boxes(4, 10, 20, generator_at(2, "crop"))
        assert never.tolist() == [[0, 0, 20, 10]] * 4

    @pytest.mark.parametrize("interpolation", ["bilinear", "random"])
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
    def test_the_whole_image_stays_as_it_is(self, dtype: torch.dtype, interpolation: str) -> None:
        inputs = images(dtype)
        crop = RandomResizedCrop((1.0, 1.0), ratio=(9 / 7, 9 / 7), interpolation=interpolation)  # type: ignore[arg-type]
        result = crop(inputs, generator_at(0, "crop"))
        assert result.dtype == dtype
        torch.testing.assert_close(result, inputs, atol=1e-3, rtol=0)

    def test_slopes_become_flatter(self) -> None:
        """Bilinear interpolation of x + 2 y is exact: a pixel of a box is that of its place, away from the border."""
        size = 32
        row = torch.arange(size) + 0.5
        inputs = (row[None, :] + 2 * row[:, None]).expand(16, 1, size, size)
        crop = RandomResizedCrop((0.2, 0.5))
        left, top, wide, tall = crop.boxes(16, size, size, generator_at(3, "crop")).T[..., None, None]
        x, y = left + row[None, None, :] * wide / size, top + row[None, :, None] * tall / size
        inside = ((x > 1) & (x < size - 1) & (y > 1) & (y < size - 1))[:, None]
        assert inside.float().mean() > 0.5
        result = crop(inputs, generator_at(3, "crop"))
        torch.testing.assert_close(result[inside], (x + 2 * y)[:, None][inside], atol=2e-3, rtol=0)

    def test_random_interpolation_is_bilinear_for_about_half(self) -> None:
        inputs = images(torch.float32, count=400)
        plain, mixed = (
            RandomResizedCrop((0.2, 0.5), interpolation=kind)(inputs, generator_at(4, "crop"))
            for kind in ("bilinear", "random")
        )
        same = (plain == mixed).flatten(1).all(1).float().mean().item()
        assert 0.4 < same < 0.6


class TestColourJitter:
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
    def test_no_strength_changes_nothing(self, dtype: torch.dtype) -> None:
        inputs = images(dtype) / 255 if dtype == torch.float32 else images(dtype)
        result = ColourJitter(0.0)(inputs, generator_at(0, "jitter"))
        assert result.dtype == dtype
        torch.testing.assert_close(result, inputs)

    def test_brightness_is_uniform_and_the_rest_keeps_the_mean_grey(self) -> None:
        """Neither contrast nor saturation changes the mean of the grey image, so that what is left is brightness."""
        strength = 0.4
        inputs = 0.4 + 0.2 * torch.rand(8000, 3, 3, 3, generator=generator_at(0, "images"))  # nothing is clipped
        result = ColourJitter(strength)(inputs, generator_at(1, "jitter"))
        weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
        before, after = ((weights * x).sum(1).mean((1, 2)) for x in (inputs, result))
        factor = after / before
        assert factor.min() > 1 - strength - 1e-4 and factor.max() < 1 + strength + 1e-4
        assert factor.mean().item() == pytest.approx(1, abs=0.01)
        assert factor.var().item() == pytest.approx(strength**2 / 3, rel=0.04)

    def test_grey_images_stay_grey_and_bytes_stay_in_range(self) -> None:
        grey = images(torch.uint8)[:, :1].expand(-1, 3, -1, -1)
        result = ColourJitter(0.9)(grey, generator_at(2, "jitter")).int()
        assert (result - result[:, :1]).abs().max() <= 1 and result.max() == 255
        assert ColourJitter(0.9)(images(torch.float32) / 255, generator_at(2, "jitter")).max() <= 1
