"""Drop-path: what it does to examples, its expectation, and that it is the identity in evaluation mode."""

from __future__ import annotations

import pytest
import torch

from polyarch.nn.drop_path import DropPath


@pytest.mark.parametrize("share", [0.2, 0.75])
def test_examples_are_dropped_as_a_whole_and_kept_in_expectation(share: float) -> None:
    """A mean of n draws of 1 / (1 - p) with probability 1 - p has the standard error sqrt(p / (1 - p) / n)."""
    n = 20_000
    x = torch.linspace(1, 2, 6, dtype=torch.float64).reshape(1, 2, 3, 1).expand(n, 2, 3, 1)
    dropped = DropPath(share)(x)
    factors = (dropped / x).flatten(1)
    assert torch.equal(factors, factors[:, :1].expand_as(factors))
    assert set(factors[:, 0].tolist()) == {0.0, 1 / (1 - share)}
    error = (share / (1 - share) / n) ** 0.5
    assert abs(float(factors[:, 0].mean()) - 1) < 4 * error
    assert abs(float((factors[:, 0] == 0).double().mean()) - share) < 4 * (share * (1 - share) / n) ** 0.5


def test_identity_in_evaluation_and_without_probability() -> None:
    x = torch.randn(5, 3)
    assert DropPath(0.9).eval()(x) is x
    assert torch.equal(DropPath(0.0)(x), x)


def test_gradients_pass_through_what_is_kept() -> None:
    x = torch.ones(64, 2, requires_grad=True)
    dropped = DropPath(0.5)(x)
    dropped.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, dropped.detach()) and 0 < int((x.grad == 0).sum()) < 128
