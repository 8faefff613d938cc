"""Exact gradients of q through steps of the weights, and the central differences of second-order DARTS.

See `polyarch.strategies.hypergradients` for the papers.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Generator, Tensor
from torch.optim import SGD

from polyarch.data import Batch
from polyarch.errors import InvalidInput
from polyarch.objectives import InnerSGD, Tensors, unrolled_gradient
from polyarch.spaces import Gates
from polyarch.strategies.hypergradients import Batches, Hypergradient, backward_through, require_steps
from polyarch.strategies.mixed_supernet import MixedSupernet
from polyarch.strategies.strategy import finite

DIFFERENCE = 0.01
"""The length of the step of central differences, as in the code of DARTS."""


@dataclass(frozen=True)
class _UnrolledGradient(Hypergradient):
    """T steps of SGD as a function of the gates of every pass, followed by a held-out batch if one is needed."""

    steps: int = 1
    segment: int | None = None

    def __post_init__(self) -> None:
        require_steps(self.steps)

    def run(
        self, mixed: MixedSupernet, optimizer: SGD, train: Batches, held_out: Batches, generator: Generator
    ) -> float:
        """Leaves the weights and the statistics of normalisation layers unchanged."""
        final = held_out[0] if self.held_out_batches else None
        passes = [*train] if final is None else [*train, final]
        draws = _draws(mixed, len(passes), generator)
        settings = {
            f"{position} {name}": gate.detach() for position, gates in enumerate(draws) for name, gate in gates.items()
        }
        last = len(draws) - 1

        def loss(weights: Tensors, values: Tensors, item: tuple[int, Batch]) -> Tensor:
            position = min(item[0], last)
            gates = {name: values[f"{position} {name}"] for name in draws[position]}
            return mixed.loss_with(gates, item[1], weights)

        weights, velocity = state_of(mixed, optimizer)
        outer: list[float] = []

        def final_loss(weights: Tensors, values: Tensors) -> Tensor:
            assert final is not None
            value = loss(weights, values, (len(train), final))
            outer.append(finite(value))
            return value

        found = unrolled_gradient(
            loss,
            weights,
            settings,
            list(enumerate(train)),
            inner_sgd(optimizer),
            velocity=velocity,
            final_loss=None if final is None else final_loss,
            segment=self.segment,
        )
        for position, gates in enumerate(draws):
            backward_through(gates, {name: found.gradient[f"{position} {name}"] for name in gates})
        return sum(found.losses) / len(found.losses) if final is None else outer[0]


class UnrolledLossSum(_UnrolledGradient):
    """grad_a sum_t L_t(w_t(a), a), exactly, through all T steps.

    Args:
        steps: T.
        segment: steps whose graph is kept at once; sqrt(T) by default.
    """


@dataclass(frozen=True)
class UnrolledLoss(_UnrolledGradient):
    """grad_a V(w_T(a), a), the loss on held-out data after T steps that depend on the architecture.

    Args:
        steps: T; second-order DARTS takes one.
        segment: steps whose graph is kept at once; sqrt(T) by default.
        form: ``exact`` by automatic differentiation, or ``difference``, for one step of learning rate eta:

                grad_a V(w', a) - eta (grad_a L(w+, a) - grad_a L(w-, a)) / (2 e),    w+- = w +- e grad_w' V(w', a)

            where e is 0.01 over the norm of grad_w' V.
    """

    form: Literal["exact", "difference"] = "exact"

    held_out_batches = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form == "difference" and self.steps != 1:
            raise InvalidInput(f"Expected one step for central differences. Got {self.steps}.")

    def run(
        self, mixed: MixedSupernet, optimizer: SGD, train: Batches, held_out: Batches, generator: Generator
    ) -> float:
        """Leaves the weights and the statistics of normalisation layers unchanged."""
        if self.form == "difference":
            return _central_difference(mixed, optimizer, train[0], held_out[0], generator)
        return super().run(mixed, optimizer, train, held_out, generator)


def inner_sgd(optimizer: SGD) -> InnerSGD:
    """The update rule of the optimiser with its current learning rate."""
    if type(optimizer) is not SGD or len(optimizer.param_groups) != 1:
        raise InvalidInput(
            "Expected torch.optim.SGD with one group of weights to unroll. "
            f"Got {type(optimizer).__name__} with {len(optimizer.param_groups)}."
        )
    (group,) = optimizer.param_groups
    if group["nesterov"] or group["dampening"]:
        raise InvalidInput("Expected SGD without Nesterov momentum or dampening to unroll. Got one with it.")
    return InnerSGD(float(group["lr"]), group["momentum"], group["weight_decay"])


def state_of(mixed: MixedSupernet, optimizer: SGD) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights that the optimiser moves and its momentum, by their names in the relaxation."""
    (group,) = optimizer.param_groups
    moved = set(group["params"])
    weights, velocity = {}, {}
    for name, weight in mixed.relaxation.named_parameters():
        if weight in moved:
            weights[name] = weight.detach()
            buffer = optimizer.state[weight].get("momentum_buffer") if weight in optimizer.state else None
            velocity[name] = torch.zeros_like(weight) if buffer is None else buffer.detach()
    return weights, velocity


def _draws(mixed: MixedSupernet, count: int, generator: Generator) -> list[Gates]:
    """The gates of every pass; one entry for all passes if they do not depend on a draw."""
    return [mixed.gates(generator) for _ in range(1 if mixed.weighing == "mean" else count)]


def _central_difference(
    mixed: MixedSupernet, optimizer: SGD, train: Batch, held_out: Batch, generator: Generator
) -> float:
    rule = inner_sgd(optimizer)
    assert isinstance(rule.rate, float)
    draws = _draws(mixed, 2, generator)
    leaves = [{name: gate.detach().requires_grad_() for name, gate in gates.items()} for gates in draws]
    weights, velocity = state_of(mixed, optimizer)

    def gradients(at: Tensors, which: int, batch: Batch, *, of_weights: bool) -> tuple[float, list[Tensor], Any]:
        gates = leaves[min(which, len(leaves) - 1)]
        moving = {name: value.detach().requires_grad_(of_weights) for name, value in at.items()}
        loss = mixed.loss_with(gates, batch, moving)
        wanted = [*gates.values(), *(moving.values() if of_weights else ())]
        found = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
        return finite(loss), list(found[: len(gates)]), dict(zip(moving, found[len(gates) :], strict=False))

    _, _, first = gradients(weights, 0, train, of_weights=True)
    ahead, _ = rule.step(weights, velocity, first, {})
    value, outer, direction = gradients(ahead, 1, held_out, of_weights=True)
    length = DIFFERENCE / torch.linalg.vector_norm(torch.stack([part.norm() for part in direction.values()]))
    sides = []
    for sign in (1, -1):
        moved = {name: value + sign * length * direction[name] for name, value in weights.items()}
        sides.append(gradients(moved, 0, train, of_weights=False)[1])
    implicit = [(plus - minus) * (-rule.rate / (2 * length)) for plus, minus in zip(*sides, strict=True)]
    if len(draws) == 1:
        outer = [direct + through for direct, through in zip(outer, implicit, strict=True)]
    else:
        backward_through(draws[0], dict(zip(draws[0], implicit, strict=True)))
    backward_through(draws[-1], dict(zip(draws[-1], outer, strict=True)))
    return value
