"""The contract of training strategies."""

import copy
import math
from typing import Any
from unittest import TestCase

import torch
from torch import Tensor, nn

from polyarch.data import Batch
from polyarch.data.named_inputs import mapped
from polyarch.errors import NotFiniteError
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import Strategy
from polyarch.testing.tools import same_bits, saved_and_loaded


class StrategyContract:
    """Inherit, and return a strategy and its batches."""

    def make_strategy(self) -> Strategy:
        """The strategy under test; its weights come from torch's global generator, which the contract seeds."""
        raise NotImplementedError

    def make_batches(self) -> list[Batch]:
        """Enough batches for four steps."""
        raise NotImplementedError

    def test_a_step_measures_and_changes_something(self) -> None:
        """It returns finite floats and changes some part."""
        strategy = self._made()
        before = _state(strategy)
        measured = self._step(strategy, 0)
        assert measured
        assert all(type(value) is float and math.isfinite(value) for value in measured.values())
        assert not same_bits(_state(strategy), before)

    def test_same_generator_same_bits(self) -> None:
        """Two trainings from the same start measure the same and end in the same state."""
        first, second = self._made(), self._made()
        assert same_bits(_state(first), _state(second))
        for position in range(3):
            assert self._step(first, position) == self._step(second, position)
        assert same_bits(_state(first), _state(second))

    def test_evaluation_changes_nothing(self) -> None:
        """It returns the same loss and accuracy twice; weights, statistics and optimisers keep their bits."""
        strategy = self._made()
        self._step(strategy, 0)
        before = _state(strategy)
        first, second = (
            strategy.evaluate(self.make_batches(), generator=generator_at(0, "evaluate")) for _ in range(2)
        )
        assert first == second
        assert math.isfinite(first["loss"]) and 0 <= first["accuracy"] <= 1
        assert same_bits(_state(strategy), before)

    def test_parts_hold_all_that_a_resumed_run_needs(self) -> None:
        """A fresh strategy with the state after two steps takes a bit-identical third step."""
        strategy, resumed = self._made(), self._made()
        for position in range(2):
            self._step(strategy, position)
        saved = saved_and_loaded(_state(strategy))
        for name, part in resumed.parts().items():
            part.load_state_dict(saved[name])
        assert self._step(resumed, 2) == self._step(strategy, 2)
        assert same_bits(_state(resumed), _state(strategy))

    def test_a_loss_that_is_not_finite_raises(self) -> None:
        """NaN inputs raise before any weight or optimiser changes."""
        strategy = self._made()
        self._step(strategy, 0)
        spoiled = [Batch(mapped(_spoiled, inputs), targets) for inputs, targets in self._train(strategy, 1)]
        before = _learnt(strategy)
        with TestCase().assertRaises(NotFiniteError):
            strategy.step(spoiled, self._held_out(strategy), generator=generator_at(0, "step", 1))
        assert same_bits(_learnt(strategy), before)

    def _made(self) -> Strategy:
        with global_seed(0, "contract"):
            return self.make_strategy()

    def _train(self, strategy: Strategy, position: int) -> list[Batch]:
        size = strategy.batches_per_step
        return self.make_batches()[position * size : (position + 1) * size]

    def _held_out(self, strategy: Strategy) -> list[Batch]:
        return self.make_batches()[: strategy.held_out_per_step]

    def _step(self, strategy: Strategy, position: int) -> dict[str, float]:
        generator = generator_at(0, "step", position)
        return strategy.step(self._train(strategy, position), self._held_out(strategy), generator=generator)


def _state(strategy: Strategy) -> dict[str, Any]:
    return {name: copy.deepcopy(part.state_dict()) for name, part in strategy.parts().items()}


def _learnt(strategy: Strategy) -> dict[str, Any]:
    """The state without the buffers of networks, which a batch updates before its loss is known."""
    return {
        name: [parameter.detach().clone() for parameter in part.parameters()]
        if isinstance(part, nn.Module)
        else copy.deepcopy(part.state_dict())
        for name, part in strategy.parts().items()
    }


def _spoiled(inputs: Tensor) -> Tensor:
    return torch.full_like(inputs, torch.nan)
