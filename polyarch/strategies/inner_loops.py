"""Where the paths of one training step want the shared weights to go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from polyarch.data import Batch
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture
from polyarch.strategies.strategy import Loss, Stateful, finite
from polyarch.supernets import Supernet


class InnerLoop(ABC):
    """Gives every weight on the paths of a step a pseudo-gradient, the mean over the paths; an optimiser follows it."""

    batches: int = 1
    """How many training batches a step uses."""

    @abstractmethod
    def run(self, net: Supernet, paths: Sequence[Architecture], train: Sequence[Batch], loss: Loss) -> float:
        """Leaves the pseudo-gradient in ``.grad`` of the weights on the paths and returns the mean loss.

        All ``.grad`` are ``None`` before, and afterwards still are off the paths: with zeros, momentum and decay of the
        optimiser would move those weights too. The weights themselves are as they were, also after an error.
        """

    def parts(self) -> Mapping[str, Stateful]:
        """What a checkpoint must keep."""
        return {}


class PathGradients(InnerLoop):
    """The gradient of the mean loss of k paths on one batch: 1/k sum_i grad of loss(net(x, a_i), y)."""

    def run(self, net: Supernet, paths: Sequence[Architecture], train: Sequence[Batch], loss: Loss) -> float:
        """One backward pass per path, so that one path at a time is in memory."""
        (batch,) = train
        total = 0.0
        for path in paths:
            value = loss(net(batch.inputs, path), batch.targets)
            total += finite(value)
            (value / len(paths)).backward()
        return total / len(paths)


class InnerSteps(InnerLoop):
    """The way w - w_T that T optimiser steps on T batches go from the weights w, for every path from the same w.

    Step t follows the gradient of L_t(w_t) + proximal / 2 ||w_t - w||^2, over the weights of the path. With plain SGD
    of rate eta and without the proximal term, w - w_T = eta sum_t grad L_t(w_t). The running averages of batch
    normalisation keep moving; the weights are put back.

    Args:
        optimizer: takes the inner steps; it holds the weights, and schedules set its rate. What it remembers, e.g.
            momentum, starts afresh on every path: w_T then depends on w, the path and the batches alone.
        steps: T.
        proximal: how strongly the path is held at w.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, *, steps: int = 4, proximal: float = 0.0) -> None:
        if steps < 1:
            raise InvalidInput(f"Expected 1 or more inner steps. Got {steps}.")
        if not proximal >= 0:
            raise InvalidInput(f"Expected a proximal weight of 0 or more. Got {proximal}.")
        self.optimizer = optimizer
        self.batches = steps
        self.proximal = proximal

    def run(self, net: Supernet, paths: Sequence[Architecture], train: Sequence[Batch], loss: Loss) -> float:
        """T steps on every path, all on the same T batches; the loss is the mean over paths and steps."""
        totals: dict[Tensor, Tensor] = {}
        value = 0.0
        for path in paths:
            mean, ways = self._walk(net, path, train, loss)
            value += mean / len(paths)
            for weight, way in ways.items():
                totals[weight] = totals[weight].add_(way) if weight in totals else way
        if len(paths) > 1:
            torch._foreach_div_(list(totals.values()), len(paths))
        for weight, total in totals.items():
            weight.grad = total
        return value

    def _walk(
        self, net: Supernet, path: Architecture, train: Sequence[Batch], loss: Loss
    ) -> tuple[float, dict[Tensor, Tensor]]:
        """The mean loss of the steps on one path and, for every weight on it, w - w_T."""
        start: dict[Tensor, Tensor] = {}
        total = 0.0
        try:
            for batch in train:
                value = loss(net(batch.inputs, path), batch.targets)
                total += finite(value)
                value.backward()
                weights = self._with_gradients()
                if self.proximal:
                    _pull([weight for weight in weights if weight in start], start, self.proximal)
                start.update({weight: weight.detach().clone() for weight in weights if weight not in start})
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
            ways = torch._foreach_sub(list(start.values()), [weight.detach() for weight in start])
            return total / len(train), dict(zip(start, ways, strict=True))
        finally:
            with torch.no_grad():
                for weight, value_before in start.items():
                    weight.copy_(value_before)
            self.optimizer.zero_grad(set_to_none=True)
            self.optimizer.state.clear()

    def _with_gradients(self) -> list[Tensor]:
        groups = self.optimizer.param_groups
        return [weight for group in groups for weight in group["params"] if weight.grad is not None]

    def parts(self) -> Mapping[str, Stateful]:
        """The optimiser of the inner steps."""
        return {"inner optimizer": self.optimizer}


def _pull(weights: Sequence[Tensor], start: Mapping[Tensor, Tensor], proximal: float) -> None:
    """Adds the gradient of the proximal term, proximal * (w_t - w), to that of weights that have moved."""
    for weight in weights:
        assert weight.grad is not None
        weight.grad.add_(weight.detach() - start[weight], alpha=proximal)
