"""Gradients through training: how the losses of an SGD run change with settings that the run depends on.

A run starts at weights w_0 and takes T steps, one per batch. With settings a (architecture weights, a learning rate):

    v_t+1 = m v_t + dL_t/dw (w_t, a) + decay w_t,    w_t+1 = w_t - rate v_t+1

Its sum of training losses, SoTL(a) = sum_{t<T} L_t(w_t(a), a), depends on a directly and through every w_t.
`unrolled_gradient` differentiates through both; `direct_gradient` ignores the second path and costs no more than
training. SoTL gradients: "Improving weight-sharing Neural Architecture Search with a marginal likelihood estimator"
(MSc thesis, University of Oxford, 2021). Recomputation in segments: Chen, Xu, Zhang and Guestrin (2016), "Training Deep
Nets with Sublinear Memory Cost", arXiv:1604.06174.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from polyarch.errors import InvalidInput, NotFiniteError

Tensors = Mapping[str, Tensor]
TrainingLoss = Callable[[Tensors, Tensors, Any], Tensor]
"""(weights, settings, batch) -> a scalar, differentiable in weights and settings. Equal arguments must give equal
values, so anything random has to come with the batch."""
FinalLoss = Callable[[Tensors, Tensors], Tensor]
"""(weights, settings) -> a scalar, for example the validation loss of the trained weights."""


@dataclass(frozen=True)
class InnerSGD:
    """The update of ``torch.optim.SGD`` as a differentiable function.

    Args:
        rate: the learning rate, or the name of a setting to use as the learning rate and differentiate like the others.
    """

    rate: float | str
    momentum: float = 0.0
    weight_decay: float = 0.0

    def step(
        self, weights: Tensors, velocity: Tensors, gradients: Tensors, settings: Tensors
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """v <- m v + g + decay w; w <- w - rate v. Weights without a gradient stay unchanged."""
        rate = settings[self.rate] if isinstance(self.rate, str) else self.rate
        moved, speeds = dict(weights), dict(velocity)
        for name, gradient in gradients.items():
            speed = gradient
            if self.weight_decay:
                speed = speed + self.weight_decay * weights[name]
            if self.momentum:
                speed = speed + self.momentum * velocity[name]
            speeds[name] = speed
            moved[name] = weights[name] - rate * speed
        return moved, speeds


@dataclass(frozen=True)
class Unrolled:
    """The result of T training steps."""

    losses: list[float]  # L_t(w_t) of every batch before its step
    gradient: dict[str, Tensor]  # d objective / d settings; empty where it was not asked for
    weights: dict[str, Tensor]  # w_T
    velocity: dict[str, Tensor]  # v_T


def unrolled_gradient(
    loss: TrainingLoss,
    weights: Tensors,
    settings: Tensors,
    batches: Sequence[Any],
    optimiser: InnerSGD,
    *,
    velocity: Tensors | None = None,
    final_loss: FinalLoss | None = None,
    segment: int | None = None,
) -> Unrolled:
    """The exact gradient of SoTL, or of the loss after training, through all T = len(batches) steps.

    Only the states (w, v) at the starts of segments are kept. From the last segment to the first, each is run again
    with its graph to propagate the gradient u of everything after it from its end to its start:

        u_start = d/d(w, v)_start [ sum of the segment's losses + <u_end, (w, v)_end> ]

    With segments of sqrt(T) steps memory grows as sqrt(T), and all segments but the last run twice.

    Args:
        velocity: v_0; zeros by default.
        final_loss: if given, its value at w_T is differentiated in place of SoTL.
        segment: the number of steps whose graph is held at once; ceil(sqrt(T)) by default.
    """
    length = math.ceil(math.sqrt(len(batches))) if segment is None else segment
    if length < 1 or not batches:
        raise InvalidInput(f"Expected batches, and segments of 1 or more steps. Got {len(batches)} and {segment}.")
    parts = [batches[start : start + length] for start in range(0, len(batches), length)]
    starts, seen = [_start(weights, velocity)], []
    for part in parts[:-1]:
        state, values = _steps(loss, starts[-1], _detached(settings), part, optimiser, graph=False)
        starts.append(state)
        seen.append([value.item() for value in values])
    gradient = {name: torch.zeros_like(value) for name, value in settings.items()}
    losses: list[float] = []
    after: _State | None = None
    for index in reversed(range(len(parts))):
        found, state, after, direct = _backwards(
            loss, starts.pop(), settings, parts[index], optimiser, after, final_loss
        )
        if index == len(parts) - 1:
            end = state
        else:
            _check_repeated(found, seen[index])
        _accumulate(gradient, direct)
        losses = [*found, *losses]
    return Unrolled(losses, gradient, *end)


def direct_gradient(
    loss: TrainingLoss,
    weights: Tensors,
    settings: Tensors,
    batches: Sequence[Any],
    optimiser: InnerSGD,
    *,
    velocity: Tensors | None = None,
    final_loss: FinalLoss | None = None,
) -> Unrolled:
    """The direct part of the gradient: sum_t dL_t/da at fixed w_t, or that of the loss after training at fixed w_T.

    It comes with the backward passes that training needs anyway. It ignores the effect of the settings through the
    weights, which is the whole effect of a learning rate.

    Args:
        velocity: v_0; zeros by default.
        final_loss: if given, its value at w_T is differentiated in place of SoTL.
    """
    if not batches:
        raise InvalidInput("Expected 1 or more batches. Got none.")
    start, leaves = _start(weights, velocity), _leaves(settings)
    gradient = {name: torch.zeros_like(value) for name, value in settings.items()}
    direct = gradient if final_loss is None else None
    state, values = _steps(loss, start, leaves, batches, optimiser, graph=False, direct=direct)
    if final_loss is not None:
        _accumulate(gradient, *_gradients(_finite(final_loss(state.weights, leaves)), leaves))
    return Unrolled([value.item() for value in values], gradient, *state.detached())


def plain_steps(
    loss: TrainingLoss,
    weights: Tensors,
    settings: Tensors,
    batches: Sequence[Any],
    optimiser: InnerSGD,
    *,
    velocity: Tensors | None = None,
) -> Unrolled:
    """T = len(batches) training steps without a gradient of the settings.

    Args:
        velocity: v_0; zeros by default.
    """
    state, values = _steps(loss, _start(weights, velocity), _detached(settings), batches, optimiser, graph=False)
    return Unrolled([value.item() for value in values], {}, *state.detached())


def module_loss(module: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> TrainingLoss:
    """loss(module(inputs), targets) as a function of the module's weights, for batches (inputs, targets).

    The weights are ``dict(module.named_parameters())``; the module and its running averages stay unchanged.
    """

    def training_loss(weights: Tensors, settings: Tensors, batch: Any) -> Tensor:
        inputs, targets = batch
        # batch normalisation writes into the buffers that it is given
        buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
        outputs: Tensor = functional_call(module, {**weights, **buffers}, (inputs,))
        return loss(outputs, targets)

    return training_loss


class _State(NamedTuple):
    """The state of training: w and v."""

    weights: dict[str, Tensor]
    velocity: dict[str, Tensor]

    def detached(self) -> "_State":
        return _State(_detached(self.weights), _detached(self.velocity))

    def leaves(self) -> "_State":
        return _State(_leaves(self.weights), _leaves(self.velocity))


def _start(weights: Tensors, velocity: Tensors | None) -> _State:
    if velocity is None:
        velocity = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    if velocity.keys() != weights.keys():
        raise InvalidInput(f"Expected a velocity for each of {sorted(weights)}. Got {sorted(velocity)}.")
    return _State(_detached(weights), _detached(velocity))


def _steps(
    loss: TrainingLoss,
    state: _State,
    settings: Tensors,
    batches: Sequence[Any],
    optimiser: InnerSGD,
    *,
    graph: bool,
    direct: dict[str, Tensor] | None = None,
) -> tuple[_State, list[Tensor]]:
    """Takes one step per batch; returns the state and the losses before each step.

    Args:
        graph: whether to keep the graph from the given state and settings to the results.
        direct: if given, the gradients of the losses in the settings at fixed weights are added to it.
    """
    losses = []
    for batch in batches:
        state = state if graph else state.leaves()
        value = _finite(loss(state.weights, settings, batch))
        slopes, by_settings = _gradients(value, state.weights, {} if direct is None else settings, graph=graph)
        if direct is not None:
            _accumulate(direct, by_settings)
        with torch.set_grad_enabled(graph):
            state = _State(*optimiser.step(state.weights, state.velocity, slopes, settings))
        losses.append(value if graph else value.detach())
    return state, losses


def _backwards(
    loss: TrainingLoss,
    start: _State,
    settings: Tensors,
    batches: Sequence[Any],
    optimiser: InnerSGD,
    after: _State | None,
    final_loss: FinalLoss | None,
) -> tuple[list[float], _State, _State, dict[str, Tensor]]:
    """The losses and end of a segment, and the gradient of its objective in its start and in the settings.

    Its own function, so that the graph is freed before the next segment begins.

    Args:
        after: u, the gradient of everything after the segment in its end; None for the last segment.
    """
    start, leaves = start.leaves(), _leaves(settings)
    end, values = _steps(loss, start, leaves, batches, optimiser, graph=True)
    terms = values if final_loss is None else []
    if after is not None:
        pairs = zip(after, end, strict=True)
        terms = [*terms, *((u * tensors[name]).sum() for some, tensors in pairs for name, u in some.items())]
    elif final_loss is not None:
        terms = [_finite(final_loss(end.weights, leaves))]
    objective = sum(terms, start=torch.zeros(()))
    by_weights, by_velocity, direct = _gradients(objective, start.weights, start.velocity, leaves)
    return [value.item() for value in values], end.detached(), _State(by_weights, by_velocity), direct


def _gradients(value: Tensor, *groups: Tensors, graph: bool = False) -> list[dict[str, Tensor]]:
    """d value / d each tensor of each group, without tensors that the value does not depend on."""
    if not value.requires_grad:
        return [{} for _ in groups]
    tensors = [tensor for group in groups for tensor in group.values()]
    slopes = iter(torch.autograd.grad(value, tensors, create_graph=graph, allow_unused=True))
    return [{name: slope for name in group if (slope := next(slopes)) is not None} for group in groups]


def _accumulate(totals: dict[str, Tensor], terms: Tensors) -> None:
    for name, term in terms.items():
        totals[name] = totals[name] + term


def _detached(tensors: Tensors) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _leaves(tensors: Tensors) -> dict[str, Tensor]:
    return {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}


def _finite(loss: Tensor) -> Tensor:
    if not torch.isfinite(loss):
        raise NotFiniteError(f"Expected a finite loss. Got {loss.item()}; try a lower learning rate.")
    return loss


def _check_repeated(losses: list[float], seen: list[float]) -> None:
    """Requires the second run of a segment to repeat the first."""
    if not all(math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-6) for one, other in zip(losses, seen, strict=True)):
        raise InvalidInput(
            "Expected a loss that depends on weights, settings and batch alone. Got different values for the same "
            "arguments; anything random, such as dropout, has to come with the batch."
        )
