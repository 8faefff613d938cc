"""Corruptions against formulas, and what all of them keep."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from polyarch.errors import InvalidInput, UnknownName
from polyarch.predictive import CORRUPTIONS, SEVERITIES, corrupt
from polyarch.randomness import generator_at
from polyarch.testing import same_bits

KINDS = list(CORRUPTIONS)
RANDOM = {"gaussian_noise", "occlusion"}


def images(batch: int = 6, channels: int = 3, size: int = 16) -> Tensor:
    return torch.rand(batch, channels, size, size, dtype=torch.float64, generator=generator_at(0, "images"))


def made(x: Tensor, kind: str, severity: int, seed: int = 0) -> Tensor:
    return corrupt(x, kind, severity, generator=generator_at(seed, "corruption"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_of_images_severity_and_generator(kind: str) -> None:
    x = images()
    before = x.clone()
    first, again, other = made(x, kind, 3), made(x, kind, 3), made(x, kind, 3, seed=1)
    assert same_bits(first, again) and same_bits(x, before)
    assert first.equal(other) == (kind not in RANDOM)
    assert first.shape == x.shape and first.dtype == x.dtype
    assert first.min() >= 0 and first.max() <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_higher_severity_changes_more(kind: str) -> None:
    """On waves, which are smooth like photographs."""
    angle = torch.arange(32) * torch.linspace(0.1, 0.8, 40, dtype=torch.float64)[:, None]  # (B, 32)
    x = (0.5 + 0.25 * (angle.sin()[:, None, :, None] + angle.cos()[:, None, None, :])).clamp(0, 1)
    distances = [float((made(x, kind, severity) - x).square().mean()) for severity in SEVERITIES]
    assert distances == sorted(distances) and len(set(distances)) == 5 and distances[0] > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 9, 13), (1, 1, 1)])
def test_bytes_are_floats_rounded(kind: str, shape: tuple[int, int, int]) -> None:
    raw = torch.randint(256, (4, *shape), generator=generator_at(0, "bytes"), dtype=torch.uint8)
    for severity in SEVERITIES:
        found = made(raw, kind, severity)
        assert found.dtype == torch.uint8 and found.shape == raw.shape
        assert found.equal((made(raw.float() / 255, kind, severity) * 255).round().byte())


@pytest.mark.parametrize("kind", sorted({*KINDS} - RANDOM))
def test_what_is_not_random_treats_images_alone(kind: str) -> None:
    x = images()
    torch.testing.assert_close(made(x[2:3], kind, 4), made(x, kind, 4)[2:3], rtol=0, atol=1e-14)


def test_noise_has_its_deviation() -> None:
    grey = torch.full((4, 3, 32, 32), 0.5, dtype=torch.float64)
    noise = made(grey, "gaussian_noise", 1) - grey
    count = noise.numel()
    assert abs(noise.mean()) < 4 * 0.08 / math.sqrt(count)
    assert noise.std().item() == pytest.approx(0.08, abs=4 * 0.08 / math.sqrt(2 * count))
    assert made(grey, "gaussian_noise", 5).unique().numel() > 1000
    assert made(torch.ones(1, 1, 8, 8), "gaussian_noise", 5).max() == 1


def test_blur_of_one_point_is_the_kernel() -> None:
    point = torch.zeros(1, 2, 21, 21, dtype=torch.float64)
    point[0, 1, 10, 10] = 1
    found = made(point, "gaussian_blur", 3)
    assert found[0, 0].abs().max() == 0  # channels do not mix
    assert found.sum().item() == pytest.approx(1, abs=1e-12)
    for (row, column), squared in {(10, 11): 1, (11, 11): 2, (8, 10): 4, (7, 7): 18}.items():
        ratio = found[0, 1, row, column] / found[0, 1, 10, 10]
        assert ratio.item() == pytest.approx(math.exp(-squared / (2 * 1.2**2)), rel=1e-10)


def test_blur_keeps_what_does_not_vary() -> None:
    grey = torch.full((2, 1, 8, 8), 0.3, dtype=torch.float64)
    for severity in SEVERITIES:  # also where the window is larger than the image
        torch.testing.assert_close(made(grey, "gaussian_blur", severity), grey, rtol=1e-12, atol=0)


def test_contrast_scales_around_the_mean() -> None:
    x = images()
    found = made(x, "contrast", 4)
    torch.testing.assert_close(found.mean((2, 3)), x.mean((2, 3)), rtol=1e-12, atol=0)
    torch.testing.assert_close(found.std((2, 3)), 0.3 * x.std((2, 3)), rtol=1e-12, atol=0)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_occlusion_hides_one_rectangle(severity: int) -> None:
    white = torch.ones(60, 2, 20, 30)
    hidden = made(white, "occlusion", severity) == 0
    assert hidden[:, 0].equal(hidden[:, 1])
    rows, columns = hidden[:, 0].any(2), hidden[:, 0].any(1)  # (B, H), (B, W)
    assert hidden[:, 0].equal(rows[:, :, None] & columns[:, None, :])
    side = math.sqrt(severity / 10)
    assert set(rows.sum(1).tolist()) == {round(side * 20)} and set(columns.sum(1).tolist()) == {round(side * 30)}
    assert hidden.float().mean().item() == pytest.approx(severity / 10, abs=0.02)
    # Every place where it fits is possible, and nothing lies between its two ends.
    assert rows.float().argmax(1).min() == 0 and rows[:, -1].any()
    assert all(int(line.nonzero().max() - line.nonzero().min()) + 1 == int(line.sum()) for line in rows)


def test_pixels_are_means_of_blocks() -> None:
    x = images(size=8)
    found = made(x, "pixelate", 2)  # blocks of 3, 3 and 2
    for rows in (slice(0, 3), slice(3, 6), slice(6, 8)):
        for columns in (slice(0, 3), slice(3, 6), slice(6, 8)):
            block = x[:, :, rows, columns]
            mean = block.mean((2, 3), keepdim=True)
            torch.testing.assert_close(found[:, :, rows, columns], mean.expand_as(block), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("x", "severity", "complaint"),
    [
        (torch.zeros(2, 1, 4, 4), 0, r"severity in 1..5. Got 0"),
        (torch.zeros(2, 1, 4, 4), 6, r"severity in 1..5. Got 6"),
        (torch.zeros(1, 4, 4), 1, r"images \(B, C, H, W\) as floats or bytes. Got torch.float32, \(1, 4, 4\)"),
        (torch.zeros(2, 1, 4, 4).long(), 1, "Got torch.int64"),
        (torch.full((2, 1, 4, 4), 2.0), 1, r"images in 0..1, before any normalisation. Got 2..2"),
        (torch.full((2, 1, 4, 4), math.nan), 1, "images in 0..1"),
    ],
)
def test_what_does_not_fit(x: Tensor, severity: int, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        made(x, "contrast", severity)


def test_unknown_kinds() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'gaussian_noise'"):
        made(images(), "gausian_noise", 1)
