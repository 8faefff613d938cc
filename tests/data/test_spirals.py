from __future__ import annotations

import math

import pytest
import torch

from polyarch.data import spirals
from polyarch.errors import InvalidInput


@pytest.mark.parametrize("count", [2, 7, 200])
def test_shape_and_balance(count: int) -> None:
    data = spirals(count, seed=0)
    assert data.inputs.shape == (count, 2)
    assert data.targets.bincount().tolist() == [(count + 1) // 2, count // 2]


def test_seed_and_stream_decide() -> None:
    first = spirals(50, seed=0)
    assert torch.equal(first.inputs, spirals(50, seed=0).inputs)
    assert not torch.equal(first.inputs, spirals(50, seed=1).inputs)
    assert not torch.equal(first.inputs, spirals(50, seed=0, stream="test").inputs)


def test_without_noise_points_lie_on_their_arm() -> None:
    """Radius = angle: turning a point back by its radius (and half a circle for arm 1) ends on the first axis."""
    data = spirals(300, seed=0, rotation=540.0, noise=0.0)
    radius = data.inputs.norm(dim=1)
    assert radius.max() <= math.radians(540)
    angle = radius + math.pi * data.targets
    torch.testing.assert_close(data.inputs, radius.unsqueeze(1) * torch.stack([angle.cos(), angle.sin()], 1),
                               atol=1e-4, rtol=0)  # fmt: skip


def test_one_point_is_not_enough() -> None:
    with pytest.raises(InvalidInput, match=r"two or more points. Got 1"):
        spirals(1, seed=0)
