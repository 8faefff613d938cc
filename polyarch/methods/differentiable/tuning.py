"""Tuning of training settings while training goes on: any number that the training loss or its steps depend on.

Training runs in blocks of T steps. After each, the settings take a step of their own along the gradient of the block's
sum of training losses (SoTL), or of a held-out loss at its end. The weights go on from where they are, or return to the
start of the block and repeat its steps with the new settings, as in Algorithm 1 of "Improving weight-sharing Neural
Architecture Search with a marginal likelihood estimator" (MSc thesis, University of Oxford, 2021).
"""

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from polyarch.errors import InvalidInput, NotFiniteError, UnknownName
from polyarch.objectives import InnerSGD, Tensors, TrainingLoss, direct_gradient, plain_steps, unrolled_gradient

OuterOptimiser = Callable[[list[Tensor]], torch.optim.Optimizer]


def slow_sgd(settings: list[Tensor]) -> torch.optim.Optimizer:
    """SGD with a rate of 0.01, as in the thesis for learning rates."""
    return torch.optim.SGD(settings, lr=0.01)


@dataclass(frozen=True)
class TunedSteps:
    """T steps of training with the same settings; a tuner with ``repeat`` takes them again with the next settings.

    Attributes:
        settings: those that the steps were taken with.
        losses: the training loss of every batch before its step, (T,).
        gradient: of the objective with respect to the settings, before it was clipped.
    """

    settings: dict[str, Tensor]
    losses: list[float]
    gradient: dict[str, Tensor]


class Tuner:
    """Trains weights and tunes settings.

    Args:
        loss: (weights, settings, batch) -> scalar; `module_loss` makes one of a module.
        weights: w_0, e.g. ``dict(net.named_parameters())``; they are not changed, the trained ones are in ``weights``.
        settings: where the settings start.
        inner: the steps of the weights; its rate may be the name of a setting.
        outer: makes the optimiser of the settings, e.g. ``functools.partial(torch.optim.Adam, lr=0.1)``.
        exact: differentiate through the steps of a block; else only the direct term, which costs nothing.
        clip: the largest norm of a gradient of all settings together.
        positive: settings that stay above 0: an entry that a step would take to 0 or below is halved instead.
        repeat: whether the weights return to the start of every block and take its steps again with the new settings.
    """

    def __init__(
        self,
        loss: TrainingLoss,
        weights: Tensors,
        settings: Mapping[str, Tensor | float],
        inner: InnerSGD,
        *,
        outer: OuterOptimiser = slow_sgd,
        exact: bool = True,
        clip: float = 10.0,
        positive: Collection[str] = (),
        repeat: bool = False,
    ) -> None:
        self.loss = loss
        self.inner = inner
        self.exact = exact
        self.clip = clip
        self.repeat = repeat
        self.weights = {name: weight.detach() for name, weight in weights.items()}
        self.velocity: dict[str, Tensor] | None = None
        self.history: list[TunedSteps] = []
        self._settings = {
            name: value.detach().clone() if isinstance(value, Tensor) else torch.tensor(float(value))
            for name, value in settings.items()
        }
        for name in (*positive, *((inner.rate,) if isinstance(inner.rate, str) else ())):
            if name not in self._settings:
                raise UnknownName("setting", name, self._settings)
        if isinstance(inner.rate, str) and not exact:
            raise InvalidInput(f"Expected exact gradients to tune the rate {inner.rate!r}: its direct gradient is 0.")
        for name in positive:
            if not bool((self._settings[name] > 0).all()):
                raise InvalidInput(f"Expected {name} to start above 0. Got {self._settings[name].tolist()}.")
        self.positive = frozenset(positive)
        self._outer = outer(list(self._settings.values()))

    @property
    def settings(self) -> dict[str, Tensor]:
        """The settings now, as copies."""
        return {name: value.clone() for name, value in self._settings.items()}

    def run(self, batches: Iterable[Any], steps: int, held_out: Iterable[Any] | None = None) -> list[TunedSteps]:
        """All batches, in blocks of ``steps``; a last block may be shorter.

        Args:
            steps: T.
            held_out: a batch for every block; its loss after the block is then what falls, in place of SoTL.
        """
        if steps < 1:
            raise InvalidInput(f"Expected blocks of 1 or more steps. Got {steps}.")
        source, others = iter(batches), None if held_out is None else iter(held_out)
        done: list[TunedSteps] = []
        while block := list(islice(source, steps)):
            other = None if others is None else next(others, None)
            if others is not None and other is None:
                raise InvalidInput(f"Expected a held-out batch for every block. Got {len(done)}.")
            done.append(self.block(block, other))
        return done

    def block(self, batches: list[Any], held_out: Any = None) -> TunedSteps:
        """One step of the weights per batch, then one of the settings, then with ``repeat`` those of the weights again.

        An error leaves weights and settings as they were.
        """

        def held_out_loss(weights: Tensors, settings: Tensors) -> Tensor:
            return self.loss(weights, settings, held_out)

        gradient = unrolled_gradient if self.exact else direct_gradient
        found = gradient(
            self.loss,
            self.weights,
            self._settings,
            batches,
            self.inner,
            velocity=self.velocity,
            final_loss=None if held_out is None else held_out_loss,
        )
        block = TunedSteps(self.settings, found.losses, found.gradient)
        memory = copy.deepcopy(self._outer.state_dict())
        self._step(found.gradient)
        if self.repeat:
            try:
                found = plain_steps(
                    self.loss, self.weights, self._settings, batches, self.inner, velocity=self.velocity
                )
            except NotFiniteError:
                self._outer.load_state_dict(memory)
                for name, value in block.settings.items():
                    self._settings[name].copy_(value)
                raise
        self.weights, self.velocity = found.weights, found.velocity
        self.history.append(block)
        return block

    def _step(self, gradient: Tensors) -> None:
        before = self.settings
        norm = torch.sqrt(sum((part.double().square().sum() for part in gradient.values()), start=torch.zeros(())))
        if not torch.isfinite(norm):
            raise NotFiniteError("Expected a finite gradient of the settings. Got another one; try shorter blocks.")
        scale = min(1.0, self.clip / norm.item()) if norm > 0 else 1.0
        for name, value in self._settings.items():
            value.grad = gradient[name] * scale
        self._outer.step()
        for name in self.positive:
            value = self._settings[name]
            value.copy_(torch.where(value > 0, value, before[name] / 2))
