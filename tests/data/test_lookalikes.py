"""Images of one data set in the form of another's."""

from __future__ import annotations

import pytest
import torch

from polyarch.data import shaped_like
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at


def images(channels: int, size: int) -> torch.Tensor:
    return torch.randint(256, (3, channels, size, size), generator=generator_at(0, "images"), dtype=torch.uint8)


def test_grey_in_every_channel() -> None:
    grey = images(1, 8)
    found = shaped_like(grey, (3, 8, 8), as_bytes=True)
    assert found.dtype == torch.uint8 and found.is_contiguous()
    assert all(found[:, channel].equal(grey[:, 0]) for channel in range(3))


def test_colours_averaged_to_grey() -> None:
    found = shaped_like(images(3, 8), (1, 8, 8), as_bytes=True)
    assert found.equal(images(3, 8).double().mean(1, keepdim=True).round().byte())


def test_resized_by_areas() -> None:
    found = shaped_like(images(1, 8), (3, 4, 4), as_bytes=True)
    means = images(1, 8).double().unflatten(2, (4, 2)).unflatten(4, (4, 2)).mean((3, 5))
    assert found.shape == (3, 3, 4, 4)
    assert (found.double() - means).abs().max() <= 0.5  # rounded
    assert shaped_like(images(1, 28), (3, 32, 32), as_bytes=True).shape == (3, 3, 32, 32)


def test_floats_have_the_levels_of_bytes() -> None:
    raw = images(3, 6)
    assert shaped_like(raw, (3, 6, 6), as_bytes=False).equal(raw.float() / 255)
    assert shaped_like(raw.float() / 255, (3, 6, 6), as_bytes=True).equal(raw)


@pytest.mark.parametrize(
    ("shape", "complaint"), [((3, 8, 6), "square images. Got 8x6"), ((4, 8, 8), "with 1 or 4 channels. Got")]
)
def test_what_does_not_fit(shape: tuple[int, int, int], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        shaped_like(images(3, 8), shape, as_bytes=True)
