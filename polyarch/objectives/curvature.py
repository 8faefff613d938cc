"""The curvature of a loss: Hessian-vector products and the largest eigenvalue of the Hessian."""

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from polyarch.errors import InvalidInput, NotFiniteError


def flat_gradient(loss: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """The gradient as one vector (n,) that can be differentiated again; zero for parameters the loss does not use."""
    gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
    return torch.cat([gradient.reshape(-1) for gradient in gradients])


def hessian_vector_product(gradient: Tensor, parameters: Sequence[Tensor], vector: Tensor) -> Tensor:
    """H v = d(g . v) / dp, exactly, by a second backward pass, which can be repeated on the same gradient.

    Args:
        gradient: g of shape (n,), from `flat_gradient`.
        vector: v of shape (n,).
    """
    if not gradient.requires_grad:  # a loss that is linear in the parameters
        return torch.zeros_like(vector)
    columns = torch.autograd.grad(gradient, parameters, vector, retain_graph=True, materialize_grads=True)
    return torch.cat([column.reshape(-1) for column in columns])


def dominant_eigenvalue(
    loss: Callable[[], Tensor], parameters: Sequence[Tensor], *, generator: Generator, steps: int = 20
) -> float:
    """The largest signed eigenvalue of the Hessian of a loss: of -3 and 2 it is 2.

    Zela et al. (2020), "Understanding and Robustifying Differentiable Architecture Search", arXiv:1909.09656, compute
    the whole Hessian H and take ``max(eigvals(H))``. This uses the Lanczos method with full re-orthogonalisation: with
    an orthonormal basis Q (n, k) of span(v, Hv, ..., H^(k-1) v), the largest eigenvalue of Q^T H Q. It never exceeds
    the true value, and is exact if k = n or if the basis spans an invariant subspace earlier. Unlike
    ``scipy.sparse.linalg.eigsh`` it accepts a zero Hessian and a single parameter, and takes at most ``steps``
    products.

    Args:
        loss: called once; its graph is kept until the end.
        parameters: of the loss, n numbers together; their ``.grad`` stays unchanged.
        generator: draws the start vector v.
        steps: the largest k.
    """
    if steps < 1 or not parameters:
        raise InvalidInput(f"Expected 1 or more steps and parameters. Got {steps} and {len(parameters)}.")
    value = loss()
    if not value.isfinite():
        raise NotFiniteError(f"Expected a finite loss to compute its curvature. Got {value.item()}.")
    gradient = flat_gradient(value, parameters)
    size = gradient.numel()
    start = torch.randn(size, generator=generator, dtype=torch.float64)
    basis = [start / start.norm()]
    products: list[Tensor] = []
    while True:
        vector = basis[-1].to(gradient)
        products.append(hessian_vector_product(gradient, parameters, vector).to(start))
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
