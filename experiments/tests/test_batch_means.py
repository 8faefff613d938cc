"""The variance of batch means against closed forms: shifts that examples share, and shifts of their own."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at, global_seed
from polyarch.testing import same_bits, state_of
from polyarch_experiments.stochastic.batch_means import batch_mean_variances

BATCH, SHIFT = 4, 0.7


class Shifted(nn.Module):
    """Features x + shift, the shift being what an architecture does to all of an example's channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.BatchNorm2d(3, dtype=torch.float64)
        self.unused = nn.BatchNorm2d(3, dtype=torch.float64)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor, shift: Tensor) -> Tensor:
        """(B, 3, H, W), (B,) or ()."""
        output: Tensor = self.first(self.drop(x) + shift.double().view(-1, 1, 1, 1))
        return output


def centred(batches: int) -> list[Tensor]:
    """Batches whose mean is 0 and whose variance is 1 in every channel, so that the rest is the shifts' doing."""
    x = torch.randn(batches, BATCH, 3, 2, 2, dtype=torch.float64, generator=generator_at(0, "inputs"))
    x = x - x.mean((1, 3, 4), keepdim=True)
    return list(x / x.var((1, 3, 4), correction=0, keepdim=True).sqrt())


def test_shifts_that_a_batch_shares() -> None:
    """var(mean) is the variance of the shifts, and the spread within a batch does not see them."""
    shifts = torch.tensor([0.5, -1.0, 2.0, 0.25, 1.5])
    order = iter(shifts)
    found = batch_mean_variances(Shifted(), lambda net, x: net(x, next(order)), centred(5))
    assert list(found) == ["first"]  # the other layer never ran
    assert found["first"].variance == pytest.approx(shifts.double().var(correction=1).item(), rel=1e-12)
    assert found["first"].relative == pytest.approx(found["first"].variance, rel=1e-12)


def test_one_shift_for_the_batch_against_one_for_every_example() -> None:
    """All 2^B ways to give examples +-s: var(mean) = s^2 / B; all examples alike: s^2, however large the batch."""
    signs = list(itertools.product([-1.0, 1.0], repeat=BATCH))
    count = len(signs)
    each, shared = iter(signs), itertools.cycle([-1.0, 1.0])
    alone = batch_mean_variances(Shifted(), lambda net, x: net(x, SHIFT * torch.tensor(next(each))), centred(count))
    together = batch_mean_variances(
        Shifted(), lambda net, x: net(x, SHIFT * torch.tensor(next(shared))), centred(count)
    )
    unbiased = count / (count - 1)
    assert alone["first"].variance == pytest.approx(unbiased * SHIFT**2 / BATCH, rel=1e-6)
    assert together["first"].variance == pytest.approx(unbiased * SHIFT**2, rel=1e-6)


def test_without_any_shift_nothing_moves() -> None:
    found = batch_mean_variances(Shifted(), lambda net, x: net(x, torch.zeros(())), centred(6))
    assert found["first"].variance == pytest.approx(0, abs=1e-28)
    constant = [torch.full_like(x, float(position)) for position, x in enumerate(centred(3))]
    still = batch_mean_variances(Shifted(), lambda net, x: net(x, torch.zeros(())), constant)
    assert still["first"].variance == pytest.approx(1.0) and still["first"].relative is None


def test_units_cancel_in_the_relative_one() -> None:
    def measured(scale: float) -> tuple[float, float]:
        shifts = iter(torch.tensor([1.0, 2.0, 4.0]))
        inputs = [scale * x for x in centred(3)]
        found = batch_mean_variances(Shifted(), lambda net, x: net(x, scale * next(shifts)), inputs)["first"]
        assert found.relative is not None
        return found.variance, found.relative

    (variance, relative), (scaled, same) = measured(1.0), measured(8.0)
    assert scaled == pytest.approx(64 * variance) and same == pytest.approx(relative)


def test_deeper_layers_see_batch_statistics_and_the_network_stays_as_it_is() -> None:
    """What the second layer gets was normalised by the batch itself, so that a shared shift is gone."""
    with global_seed(0, "network"):
        net = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3), nn.BatchNorm1d(3)).double().eval()
    before = state_of(net)
    inputs = [shift + torch.randn(6, 2, dtype=torch.float64, generator=generator_at(0, "x")) for shift in range(4)]
    found = batch_mean_variances(net, lambda copy, x: copy(x), inputs)
    assert found["0"].variance == pytest.approx(5 / 3)  # of 0, 1, 2, 3
    assert found["2"].variance == pytest.approx(0, abs=1e-20)
    assert same_bits(state_of(net), before)
    assert not any(layer._forward_pre_hooks for layer in net)


def test_a_network_without_normalisation() -> None:
    with pytest.raises(InvalidInput, match="network with batch normalisation"):
        batch_mean_variances(nn.Linear(2, 2), lambda net, x: net(x), [torch.zeros(2, 2)])
