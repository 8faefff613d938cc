"""Training with an auxiliary classifier: the sum of both losses, its gradient, and gradients that are clipped."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from polyarch.data import Batch
from polyarch.strategies import Supervised, SupervisedWithAuxiliary

WEIGHT, RATE = 0.4, 0.1
BATCH = Batch(torch.randn(8, 3, generator=Generator().manual_seed(0)).double(), torch.arange(8) % 4)


class TwoHeads(nn.Module):
    """(B, 3) -> (2, B, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.5), nn.Linear(5, 4)).double()
        self.auxiliary = nn.Linear(5, 4).double()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.network[0](x)
        return torch.stack([self.network[2](inner), self.auxiliary(inner)])


def strategy_of(taught: TwoHeads, **options: float) -> SupervisedWithAuxiliary:
    optimizer = torch.optim.SGD(taught.parameters(), lr=RATE)
    return SupervisedWithAuxiliary(taught.network, optimizer, taught, WEIGHT, **options)  # type: ignore[arg-type]


def expected(taught: TwoHeads) -> tuple[Tensor, list[Tensor]]:
    """L(outputs) + 0.4 L(auxiliary outputs), and its gradient."""
    outputs, auxiliary = taught(BATCH.inputs)
    loss = F.cross_entropy(outputs, BATCH.targets) + WEIGHT * F.cross_entropy(auxiliary, BATCH.targets)
    gradients = torch.autograd.grad(loss, list(taught.parameters()))
    return loss.detach(), list(gradients)


def test_the_auxiliary_loss_is_added_with_its_weight() -> None:
    taught = TwoHeads()
    before = [weight.detach().clone() for weight in taught.parameters()]
    loss, gradients = expected(taught)
    found = strategy_of(taught).step([BATCH], generator=Generator())
    assert found["loss"] == pytest.approx(loss.item(), abs=1e-12)
    for weight, start, gradient in zip(taught.parameters(), before, gradients, strict=True):
        torch.testing.assert_close(weight.detach(), start - RATE * gradient, rtol=0, atol=1e-12)


def test_gradients_are_scaled_to_the_norm() -> None:
    taught = TwoHeads()
    before = [weight.detach().clone() for weight in taught.parameters()]
    _, gradients = expected(taught)
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    clip = 0.1
    assert norm > clip
    strategy_of(taught, clip=clip).step([BATCH], generator=Generator())
    for weight, start, gradient in zip(taught.parameters(), before, gradients, strict=True):
        # torch divides by the norm + 1e-6
        torch.testing.assert_close(weight.detach(), start - RATE * gradient * clip / norm, rtol=1e-4, atol=1e-9)


def test_small_gradients_are_left_alone() -> None:
    networks = [nn.Linear(3, 4).double() for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    for network, clip in zip(networks, (None, 100.0), strict=True):
        optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
        Supervised(network, optimizer, clip=clip).step([BATCH], generator=Generator())
    assert torch.equal(networks[0].weight, networks[1].weight)


def test_evaluation_is_that_of_the_network_alone_and_training_goes_on() -> None:
    taught = TwoHeads()
    strategy = strategy_of(taught)
    found = strategy.evaluate([BATCH], generator=Generator())
    outputs = taught(BATCH.inputs)[0]  # without dropout
    assert found["loss"] == pytest.approx(F.cross_entropy(outputs, BATCH.targets).item(), abs=1e-12)
    assert not any(part.training for part in taught.modules())
    strategy.step([BATCH], generator=Generator())
    assert all(part.training for part in taught.modules())
