"""Estimators that read the trace of a short run: how fast an architecture learns.

SoTL: Ru et al. (2021), "Speedy Performance Estimation for Neural Architecture Search", arXiv:2006.04492. Runs from the
weights of a supernet, and the other estimators: "Improving weight-sharing Neural Architecture Search with a marginal
likelihood estimator" (MSc thesis, University of Oxford, 2021).
"""

import math
from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators.estimator import Estimator
from polyarch.estimators.short_run import ShortRun, Trace
from polyarch.estimators.windows import WholeRun, Window
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


class TraceEstimator(Estimator):
    """A score read off the trace of a short run.

    Estimators over the same `ShortRun` object share one run per architecture; `Scoring` takes care of that.
    """

    needs: ClassVar[str | None] = None
    """The argument of `ShortRun` that the estimator needs."""

    def __init__(self, run: ShortRun) -> None:
        if self.needs is not None and getattr(run, self.needs) in (None, False):
            raise InvalidInput(f"Expected a short run with {self.needs} for {self.name}. Got one without.")
        self.run = run

    @property
    def policy(self) -> str:
        """Losses and gradients use batch statistics."""
        return "batch"

    @abstractmethod
    def value(self, trace: Trace) -> float:
        """The score that a trace gives."""

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The score from a separate run."""
        return self.read(self.run.trace(net, architecture), architecture)

    def read(self, trace: Trace, architecture: Architecture) -> float:
        """The score from the trace of this architecture; raises `NotFiniteError` if it is not finite."""
        value = self.value(trace)
        if not math.isfinite(value):
            raise NotFiniteError(f"Expected a finite {self.name} of {architecture.key}. Got {value}.")
        return value


class SoTL(TraceEstimator):
    """Minus the sum of training losses: -sum_{t=1..T} loss(w_t, batch_t), w_{t+1} = SGD step from w_t.

    The window selects which losses count; by it the name is ``sotl``, ``sotl_last`` or ``sotl_ema``.
    """

    def __init__(self, run: ShortRun, window: Window | None = None) -> None:
        super().__init__(run)
        self.window = window or WholeRun()
        self.name = f"sotl{self.window.suffix}"

    def value(self, trace: Trace) -> float:
        """Minus the total of the training losses, in nats."""
        return -self.window.total(trace.losses)


class SoVL(TraceEstimator):
    """Minus the sum of validation losses along the run, one minibatch per step: -sum_t loss_valid(w_t, batch_t)."""

    name = "sovl"
    needs = "valid"

    def value(self, trace: Trace) -> float:
        """Minus the sum of the validation losses, in nats."""
        assert trace.valid_losses is not None
        return -WholeRun().total(trace.valid_losses)


class TLMini(TraceEstimator):
    """Minus the loss of one training minibatch at the inherited weights, which is the first loss of a run."""

    name = "tl_mini"

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The score from a run of a single step."""
        one_step = replace(self.run, steps=1, valid=None, gradients=False, judge=None)
        return self.read(one_step.trace(net, architecture), architecture)

    def value(self, trace: Trace) -> float:
        """Minus the first training loss, in nats."""
        return -trace.losses[0]


class SoG(TraceEstimator):
    """The L1 norm of the sum of gradients along the run: sum over coordinates i of |sum_t g_{t,i}|."""

    name = "sog"
    needs = "gradients"

    def value(self, trace: Trace) -> float:
        """How far plain gradient steps would have led, in L1 norm per unit of learning rate."""
        assert trace.gradient_sum is not None
        return trace.gradient_sum


class SoGN(TraceEstimator):
    """The sum of gradient norms along the run: sum_t ||g_t||_1."""

    name = "sogn"
    needs = "gradients"

    def value(self, trace: Trace) -> float:
        """The length of the path of plain gradient steps, in L1 norm per unit of learning rate."""
        assert trace.gradient_norm is not None
        return trace.gradient_norm


class ValAccAfter(TraceEstimator):
    """The validation metric after the short run, not at the inherited weights as `ValAcc` (table 4.4 of the thesis)."""

    name = "val_acc_after"
    needs = "judge"

    @property
    def policy(self) -> str:
        """The batch-statistics policy of the judge, in words."""
        assert self.run.judge is not None
        return self.run.judge.policy

    def value(self, trace: Trace) -> float:
        """The metric on the judge's validation data, negated if less is better."""
        assert trace.final_score is not None
        return trace.final_score
