"""How sharply a loss bends: Hessian-vector products and the largest eigenvalue of the Hessian."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from polyarch.errors import InvalidInput, NotFiniteError


def flat_gradient(loss: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """The gradient as one vector (n,) that can be differentiated again; zero where the loss does not depend on one."""
    gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
    return torch.cat([gradient.reshape(-1) for gradient in gradients])


def hessian_vector_product(gradient: Tensor, parameters: Sequence[Tensor], vector: Tensor) -> Tensor:
    """H v = d(g . v) / dp, exactly, by a second backward pass; can be repeated on the same gradient.

    Args:
        gradient: g of shape (n,), from `flat_gradient`.
        vector: v of shape (n,).
    """
    if not gradient.requires_grad:  # a loss that is linear in the parameters
        return torch.zeros_like(vector)
    columns = torch.autograd.grad(gradient, parameters, vector, retain_graph=True, materialize_grads=True)
    return torch.cat([column.reshape(-1) for column in columns])


def dominant_eigenvalue(
    loss: Callable[[], Tensor],
    parameters: Sequence[Tensor],
    *,
    generator: Generator,
    steps: int = 20,
    tolerance: float = 1e-6,
) -> float:
    """The largest eigenvalue of the Hessian of a loss, with its sign: of -3 and 2 it is 2.

    This is what Zela et al. (2020), "Understanding and Robustifying Differentiable Architecture Search", call dominant;
    their code computes the whole Hessian and takes ``max(eigvals(H))``. Here, by the method of Lanczos with full
    re-orthogonalisation: with an orthonormal basis Q (n, k) of span(v, Hv, ..., H^(k-1) v), the largest eigenvalue of
    Q^T H Q. It is never too large, and exact when k = n or when the basis spans an invariant subspace earlier. Unlike
    ``scipy.sparse.linalg.eigsh`` it takes a Hessian of zeros and a single parameter, and costs at most ``steps``
    products.

    Args:
        loss: called once; its graph is kept until the end.
        parameters: what the loss is differentiated in, n numbers together; ``.grad`` is not touched.
        generator: of the start vector v.
        steps: the largest k.
        tolerance: the basis is complete when what a product adds to it is this much smaller than the products so far.
    """
    if steps < 1 or not parameters:
        raise InvalidInput(f"Expected 1 or more steps and parameters. Got {steps} and {len(parameters)}.")
    value = loss()
    if not value.isfinite():
        raise NotFiniteError(f"Expected a finite loss to find its curvature. Got {value.item()}.")
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
        if len(basis) == min(steps, size) or rest.norm() <= tolerance * scale:
            break
        basis.append(rest / rest.norm())
    projected = known @ torch.stack(products).T  # Q^T H Q, (k, k)
    if not projected.isfinite().all():
        raise NotFiniteError("Expected a finite curvature. Got values that are not.")
    return float(torch.linalg.eigvalsh((projected + projected.T) / 2)[-1])
