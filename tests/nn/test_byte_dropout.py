"""Dropout by bytes: what is dropped, how the rest is scaled, and what its gradient is."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyarch.nn.byte_dropout import ByteDropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.999])
def test_the_share_that_is_dropped_is_right_and_the_mean_stays(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(1_000_000, dtype=torch.float64)
    y = ByteDropout(p)(x)
    exact = min(round(256 * p), 255) / 256
    assert abs(exact - p) <= 1 / 256
    deviation = (exact * (1 - exact) / len(x)) ** 0.5
    assert float((y == 0).double().mean()) == pytest.approx(exact, abs=5 * deviation)
    assert sorted(y.unique().tolist()) == pytest.approx([0, 1 / (1 - exact)])


def test_neighbours_are_dropped_independently() -> None:
    """Eight bytes come from one drawn integer."""
    torch.manual_seed(0)
    dropped = (ByteDropout(0.5)(torch.ones(100_000, 8)) == 0).double()
    correlations = torch.corrcoef(dropped.T) - torch.eye(8, dtype=torch.float64)
    assert float(correlations.abs().max()) < 5 / 100_000**0.5


def test_gradients_pass_where_features_do() -> None:
    torch.manual_seed(0)
    x = torch.rand(50, 3, dtype=torch.float64, requires_grad=True)
    y = ByteDropout(0.3)(x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


@given(st.integers(0, 40))
def test_it_takes_any_shape_and_does_nothing_in_evaluation(size: int) -> None:
    x = torch.ones(size, 3)
    layer = ByteDropout(0.3)
    assert layer(x).shape == x.shape
    assert torch.equal(layer.eval()(x), x)
