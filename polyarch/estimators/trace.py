"""What a short training run leaves behind: its losses and, where asked for, its gradients in two numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trace:
    """The course of one short run of T steps, w_{t+1} = SGD step from w_t.

    Args:
        losses: (T,) the loss of training minibatch t at w_t, before step t.
        valid_losses: (T,) the loss of validation minibatch t at w_t.
        gradient_sum: sum over coordinates of |sum_t g_t|, g_t the gradient of training loss t.
        gradient_norm: sum_t ||g_t||_1.
    """

    losses: tuple[float, ...]
    valid_losses: tuple[float, ...] | None = None
    gradient_sum: float | None = None
    gradient_norm: float | None = None
