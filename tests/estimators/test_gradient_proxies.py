"""Proxies of gradients against the closed forms of softmax regression, in double precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from polyarch.data import Batches, TensorData
from polyarch.estimators import SNIP, Fisher, GradientNorm, GraSP
from polyarch.estimators.gradient_proxies import GradientProxy
from polyarch.randomness import generator_at

EXAMPLES, FEATURES, CLASSES = 7, 4, 3
GENERATOR = generator_at(0, "gradient proxies")
X = torch.randn(EXAMPLES, FEATURES, generator=GENERATOR).double()  # batches hold single precision
Y = torch.tensor([0, 1, 2, 0, 1, 2, 2])
W = torch.randn(CLASSES, FEATURES, generator=GENERATOR, dtype=torch.float64)
BATCHES = Batches(TensorData(X, Y, CLASSES), EXAMPLES, shuffle=False)


def regression(rectifier: nn.Module | None = None) -> nn.Module:
    """Logits z = W x, or a rectified copy of them that has no influence where it is positive anyway."""
    linear = nn.Linear(FEATURES, CLASSES, bias=False).double()
    linear.weight = nn.Parameter(W.clone())
    return nn.Sequential(linear) if rectifier is None else nn.Sequential(linear, rectifier)


def residuals() -> Tensor:
    """dL/dz = (p - y) / N, (N, C)."""
    return (torch.softmax(X @ W.T, -1) - nn.functional.one_hot(Y, CLASSES)) / EXAMPLES


def gradient() -> Tensor:
    """dL/dW, (C, D)."""
    return residuals().T @ X


def hessian_product(direction: Tensor) -> Tensor:
    """H v = 1/N sum_n (diag(p_n) - p_n p_n^T) (V x_n) x_n^T, (C, D)."""
    total = torch.zeros_like(W)
    for x in X:
        p = torch.softmax(W @ x, -1)
        total += ((torch.diag(p) - torch.outer(p, p)) @ (direction @ x))[:, None] * x[None]
    return total / EXAMPLES


CLOSED_FORMS: dict[type[GradientProxy], Callable[[], Tensor]] = {
    GradientNorm: lambda: gradient().norm(),
    SNIP: lambda: (W * gradient()).abs().sum(),
    GraSP: lambda: -(W * hessian_product(gradient())).sum(),
    Fisher: lambda: ((X @ W.T) * residuals()).square().mean(0).sum() / 2,
}


@pytest.mark.parametrize("kind", CLOSED_FORMS)
def test_closed_forms_of_softmax_regression(kind: type[GradientProxy]) -> None:
    assert kind(BATCHES).value(regression()) == pytest.approx(CLOSED_FORMS[kind]().item(), rel=1e-12)


def test_grasp_is_the_change_of_the_gradient_flow() -> None:
    """-w . H g is minus half the derivative of ||g||^2 along the weights, by central differences."""
    network = nn.Sequential(nn.Linear(FEATURES, 5, bias=False), nn.Tanh(), nn.Linear(5, CLASSES, bias=False)).double()
    weights = [parameter.detach().clone() for parameter in network.parameters()]

    def flow(scale: float) -> float:
        with torch.no_grad():
            for parameter, weight in zip(network.parameters(), weights, strict=True):
                parameter.copy_(scale * weight)
        loss = nn.functional.cross_entropy(network(X), Y)
        return sum(one.square().sum().item() for one in torch.autograd.grad(loss, list(network.parameters())))

    step = 1e-5
    difference = (flow(1 + step) - flow(1 - step)) / (2 * step)
    flow(1.0)
    assert GraSP(BATCHES).value(network) == pytest.approx(-difference / 2, rel=1e-7)


@pytest.mark.parametrize("in_place", [False, True])
def test_fisher_reads_outputs_before_what_follows_changes_them(in_place: bool) -> None:
    """Rectified logits have no gradient where z < 0, and z itself, not relu(z), counts elsewhere."""
    logits = (X @ W.T).clamp_min(0)
    slopes = (torch.softmax(logits, -1) - nn.functional.one_hot(Y, CLASSES)) / EXAMPLES * (X @ W.T > 0)
    expected = ((X @ W.T) * slopes).square().mean(0).sum() / 2
    found = Fisher(BATCHES).value(regression(nn.ReLU(inplace=in_place)))
    assert found == pytest.approx(expected.item(), rel=1e-12)


def test_fisher_adds_up_the_places_of_a_channel_before_it_squares() -> None:
    """Logits are sums over two places of a convolution: each place has the gradient of the logit."""
    images = torch.randn(EXAMPLES, FEATURES, 2, 1, generator=GENERATOR).double()
    convolution = nn.Conv2d(FEATURES, CLASSES, 1, bias=False).double()
    network = nn.Sequential(convolution, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    z = torch.einsum("cd,ndhw->nchw", convolution.weight[:, :, 0, 0], images).detach()
    logits = z.mean((2, 3))
    slopes = (torch.softmax(logits, -1) - nn.functional.one_hot(Y, CLASSES)) / EXAMPLES / 2
    expected = (z * slopes[:, :, None, None]).sum((2, 3)).square().mean(0).sum() / 2
    batches = Batches(TensorData(images, Y, CLASSES), EXAMPLES, shuffle=False)
    assert Fisher(batches).value(network) == pytest.approx(expected.item(), rel=1e-12)
