"""Inner loops of one-shot training: from the paths of a step to a pseudo-gradient of the shared weights.

`InnerSteps` is Reptile: Nichol, Achiam and Schulman (2018), "On First-Order Meta-Learning Algorithms",
arXiv:1803.02999. With a proximal term it is MetaProx: Zhou et al. (2019), "Efficient Meta Learning via Minibatch
Proximal Update", NeurIPS.
"""

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
    """Gives every weight on the paths of a step a pseudo-gradient, the mean over the paths, for an optimiser."""

    batches: int = 1
    """Training batches per step."""
    passes: int = 1
    """Forward and backward passes of a path over each of these batches."""

    @abstractmethod
    def run(self, net: Supernet, paths: Sequence[Architecture], train: Sequence[Batch], loss: Loss) -> float:
        """Leaves the pseudo-gradient in ``.grad`` of the weights on the paths and returns the mean loss.

        All ``.grad`` are ``None`` before; off the paths they stay so, because with zeros the optimiser's momentum and
        decay would move those weights too. The weights themselves do not change, even after an error.
        """

    def parts(self) -> Mapping[str, Stateful]:
        """The state that a checkpoint must keep."""
        return {}


class PathGradients(InnerLoop):
    """The gradient of the mean loss of k paths on one batch: 1/k sum_i grad of loss(net(x, a_i), y)."""

    def run(self, net: Supernet, paths: Sequence[Architecture], train: Sequence[Batch], loss: Loss) -> float:
        """One backward pass per path, so that memory holds one path at a time."""
        (batch,) = train
        total = 0.0
        for path in paths:
            value = loss(net(batch.inputs, path), batch.targets)
            total += finite(value)
            (value / len(paths)).backward()
        return total / len(paths)


class InnerSteps(InnerLoop):
    """The displacement w - w_T of T optimiser steps; every path starts from the same weights w.

    Step t follows the gradient of L_t(w_t) + proximal / 2 ||w_t - w||^2 over the weights of the path, where L_t is the
    loss on the one batch of the step, or on the t-th of T batches. With plain SGD of learning rate eta and no proximal
    term, w - w_T = eta sum_t grad L_t(w_t). The weights are restored afterwards; the running averages of batch
    normalisation keep their updates.

    Args:
        optimizer: takes the inner steps; it holds the weights, and schedules set its learning rate. Its state, such as
            momentum, is cleared for every path, so that w_T depends on w, the path and the batches alone.
        steps: T.
        proximal: how strongly the path is pulled back to w.
        same_batch: whether all T steps are on one batch, as in Algorithm 4 of the thesis "Improving weight-sharing
            Neural Architecture Search with a marginal likelihood estimator"; else each is on a batch of its own.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, *, steps: int = 4, proximal: float = 0.0, same_batch: bool = True
    ) -> None:
        if steps < 1:
            raise InvalidInput(f"Expected 1 or more inner steps. Got {steps}.")
        if not proximal >= 0:
            raise InvalidInput(f"Expected a proximal weight of 0 or more. Got {proximal}.")
        self.optimizer = optimizer
        self.batches, self.passes = (1, steps) if same_batch else (steps, 1)
        self.proximal = proximal

    def run(self, net: Supernet, paths: Sequence[Architecture], train: Sequence[Batch], loss: Loss) -> float:
        """Takes the steps on every path, all on the same batches; returns the mean loss over paths and steps."""
        train = [batch for batch in train for _ in range(self.passes)]
        totals: dict[Tensor, Tensor] = {}
        value = 0.0
        for path in paths:
            mean, displacements = self._train(net, path, train, loss)
            value += mean / len(paths)
            for weight, displacement in displacements.items():
                totals[weight] = totals[weight].add_(displacement) if weight in totals else displacement
        if len(paths) > 1:
            torch._foreach_div_(list(totals.values()), len(paths))
        for weight, total in totals.items():
            weight.grad = total
        return value

    def _train(
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
                groups = self.optimizer.param_groups
                weights = [weight for group in groups for weight in group["params"] if weight.grad is not None]
                if self.proximal:
                    for weight in weights:
                        if weight in start:  # it has moved: add the gradient of the proximal term
                            weight.grad.add_(weight.detach() - start[weight], alpha=self.proximal)
                start.update({weight: weight.detach().clone() for weight in weights if weight not in start})
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
            moved = torch._foreach_sub(list(start.values()), [weight.detach() for weight in start])
            return total / len(train), dict(zip(start, moved, strict=True))
        finally:
            with torch.no_grad():
                for weight, value_before in start.items():
                    weight.copy_(value_before)
            self.optimizer.zero_grad(set_to_none=True)
            self.optimizer.state.clear()

    def parts(self) -> Mapping[str, Stateful]:
        """The optimiser of the inner steps."""
        return {"inner optimizer": self.optimizer}
