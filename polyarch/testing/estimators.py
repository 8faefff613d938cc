"""The contract of estimators."""

import json
import math
from dataclasses import asdict

import torch

from polyarch.estimators import Estimator
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet
from polyarch.testing.tools import same_bits, state_of


class EstimatorContract:
    """Inherit, and return an estimator and a small supernet; ``deterministic`` is False only for e.g. timings."""

    deterministic: bool = True

    def make_estimator(self) -> Estimator:
        """The estimator under test; all calls return equal ones."""
        raise NotImplementedError

    def make_supernet(self) -> Supernet:
        """A supernet to score; its weights come from torch's global generator, which the contract seeds."""
        raise NotImplementedError

    def test_a_score_is_a_finite_float(self) -> None:
        """Neither a tensor nor NaN."""
        net, architectures = self._made()
        scores = [self.make_estimator().score(net, architecture) for architecture in architectures]
        assert all(type(score) is float and math.isfinite(score) for score in scores)

    def test_scoring_changes_nothing(self) -> None:
        """Neither weights, statistics, modes and gradients of the supernet nor torch's global generator."""
        net, architectures = self._made()
        for mode in (True, False):
            net.train(mode)
            before, random = state_of(net), torch.get_rng_state()
            for architecture in architectures:
                self.make_estimator().score(net, architecture)
            assert same_bits(state_of(net), before)
            assert all(parameter.grad is None for parameter in net.parameters())
            assert torch.get_rng_state().equal(random)

    def test_equal_inputs_give_equal_bits(self) -> None:
        """Whatever was scored before, for equal estimators, and in both modes of the supernet."""
        if not self.deterministic:
            return
        net, architectures = self._made()
        estimator = self.make_estimator()
        forward = [estimator.score(net.train(), architecture) for architecture in architectures]
        backward = [estimator.score(net.eval(), architecture) for architecture in reversed(architectures)]
        fresh = [self.make_estimator().score(net, architecture) for architecture in architectures]
        assert forward == backward[::-1] == fresh

    def test_a_record_says_how_the_score_was_taken(self) -> None:
        """Name, policy and seconds, as plain values that JSON can hold."""
        net, (architecture, *_) = self._made()
        estimator = self.make_estimator()
        record = estimator.record(net, architecture)
        assert record.estimator == estimator.name
        assert record.policy == estimator.policy
        assert record.seconds >= 0
        assert not self.deterministic or record.value == estimator.score(net, architecture)
        assert json.loads(json.dumps(asdict(record), allow_nan=False)) == asdict(record)

    def _made(self) -> tuple[Supernet, list[Architecture]]:
        with global_seed(0, "contract"):
            net = self.make_supernet()
        generator = generator_at(0, "contract")
        return net, [net.space.sample(generator) for _ in range(2)]
