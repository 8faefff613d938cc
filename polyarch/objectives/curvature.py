"""The curvature of a loss: Hessian-vector products and the largest eigenvalue of the Hessian."""

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from polyarch.errors import InvalidInput, NotFiniteError


def hessian_vector_product(loss: Tensor, parameters: Sequence[Tensor], vector: Tensor) -> Tensor:
    """H v = d(g . v) / dp with the gradient g of the loss, exactly, by a second backward pass.

    The graphs of both passes together take about three times the memory of a step of training.

    Args:
        vector: v of shape (n,), for the n numbers of all parameters together; those the loss does not use have g = 0.
    """
    if not loss.isfinite():
        raise NotFiniteError(f"Expected a finite loss to compute its curvature. Got {loss.item()}.")
    gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
    gradient = torch.cat([part.reshape(-1) for part in gradients])  # (n,)
    if not gradient.requires_grad:  # a loss that is linear in the parameters
        return torch.zeros_like(vector)
    columns = torch.autograd.grad(gradient, parameters, vector, materialize_grads=True)
    return torch.cat([column.reshape(-1) for column in columns])


def dominant_eigenvalue(
    losses: Sequence[Callable[[], Tensor]], parameters: Sequence[Tensor], *, generator: Generator, steps: int = 20
) -> float:
    """The largest signed eigenvalue of the Hessian of a sum of losses: of -3 and 2 it is 2.

    Zela et al. (2020), "Understanding and Robustifying Differentiable Architecture Search", arXiv:1909.09656, compute
    the whole Hessian H and take ``max(eigvals(H))``. This uses the Lanczos method with full re-orthogonalisation: with
    an orthonormal basis Q (n, k) of span(v, Hv, ..., H^(k-1) v), the largest eigenvalue of Q^T H Q. It never exceeds
    the true value, and is exact if k = n or if the basis spans an invariant subspace earlier. Unlike
    ``scipy.sparse.linalg.eigsh`` it accepts a zero Hessian and a single parameter, and takes at most ``steps``
    products.

    Args:
        losses: each is called for every product, so that one graph is in memory at a time; they must not be random.
        parameters: of the losses, n numbers together; their ``.grad`` stays unchanged.
        generator: draws the start vector v.
        steps: the largest k.
    """
    if steps < 1 or not parameters:
        raise InvalidInput(f"Expected 1 or more steps and parameters. Got {steps} and {len(parameters)}.")
    size = sum(parameter.numel() for parameter in parameters)
    start = torch.randn(size, generator=generator, dtype=torch.float64)
    basis = [start / start.norm()]
    products: list[Tensor] = []
    while True:
        vector = basis[-1].to(parameters[0])
        columns = [hessian_vector_product(loss(), parameters, vector).to(start) for loss in losses]
        products.append(torch.stack(columns).sum(0))
        scale = max(float(product.norm()) for product in products)
        rest = products[-1]
        known = torch.stack(basis)  # (k, n)
        for _ in range(2):  # once is not enough in floating point
            rest = rest - known.T @ (known @ rest)
        if len(basis) == min(steps, size) or rest.norm() <= 1e-6 * scale:  # the basis is complete
            break
        basis.append(rest / rest.norm())
    projected = known @ torch.stack(products).T  # Q^T H Q, (k, k)
    if not projected.isfinite().all():
        raise NotFiniteError("Expected a finite curvature. Got NaN or infinity.")
    return float(torch.linalg.eigvalsh((projected + projected.T) / 2)[-1])
