"""Estimators that read the trace of a short run: how fast an architecture learns."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from polyarch.errors import InvalidInput
from polyarch.estimators.estimator import Estimator, require_finite
from polyarch.estimators.short_run import ShortRun
from polyarch.estimators.trace import Trace
from polyarch.estimators.windows import WholeRun, Window
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


class TraceEstimator(Estimator):
    """A number that is read off the trace of a short run.

    Estimators over one `ShortRun` object need one run per architecture together: `Scoring` sees to it.

    Args:
        run: the run that is read.
    """

    def __init__(self, run: ShortRun) -> None:
        self.run = run

    @property
    def policy(self) -> str:
        """All losses are taken with the statistics of the batch."""
        return "batch"

    @abstractmethod
    def value(self, trace: Trace) -> float:
        """The number, of a run that was made before."""

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The number, of a run made for it alone."""
        return self.read(self.run.run(net, architecture), architecture)

    def read(self, trace: Trace, architecture: Architecture) -> float:
        """The number of the trace of this architecture, if it is finite."""
        return require_finite(self.value(trace), self, architecture)


class SoTL(TraceEstimator):
    """Minus the sum over training losses of a short run from inherited weights: how fast it learns.

    score = -sum_{t=1..T} loss(w_t, batch_t), w_{t+1} = SGD step from w_t, over the whole run or a window of it. Its
    name is ``sotl``, ``sotl_last`` or ``sotl_ema`` by the window.

    Args:
        run: the run.
        window: `WholeRun`, `LastPart` or `ExponentialAverage`.
    """

    def __init__(self, run: ShortRun, window: Window | None = None) -> None:
        super().__init__(run)
        self.window = window or WholeRun()
        self.name = f"sotl{self.window.suffix}"

    def value(self, trace: Trace) -> float:
        """Minus the total of the losses, in nats."""
        return -self.window.total(trace.losses)


class SoVL(TraceEstimator):
    """Minus the sum over validation losses along the run, one minibatch per step: -sum_t loss_valid(w_t, batch_t)."""

    name = "sovl"

    def __init__(self, run: ShortRun) -> None:
        if run.valid is None:
            raise InvalidInput("Expected a short run with validation batches for sovl. Got one without.")
        super().__init__(run)

    def value(self, trace: Trace) -> float:
        """Minus the sum of T losses, in nats."""
        assert trace.valid_losses is not None
        return -WholeRun().total(trace.valid_losses)


class TLMini(TraceEstimator):
    """Minus the loss of one training minibatch at the inherited weights, which is the first loss of a run."""

    name = "tl_mini"

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """Alone it takes one step only."""
        alone = replace(self.run, steps=1, valid=None, gradients=False)
        return self.read(alone.run(net, architecture), architecture)

    def value(self, trace: Trace) -> float:
        """Minus one loss, in nats."""
        return -trace.losses[0]


class _GradientEstimator(TraceEstimator):
    def __init__(self, run: ShortRun) -> None:
        if not run.gradients:
            raise InvalidInput(f"Expected a short run with gradients=True for {self.name}. Got one without.")
        super().__init__(run)


class SoG(_GradientEstimator):
    """The sum of gradients along the run, in absolute value: sum over coordinates i of |sum_t g_{t,i}|."""

    name = "sog"

    def value(self, trace: Trace) -> float:
        """How far plain gradient steps would have led, in L1 norm per unit of learning rate."""
        assert trace.gradient_sum is not None
        return trace.gradient_sum


class SoGN(_GradientEstimator):
    """The sum of gradient norms along the run: sum_t ||g_t||_1."""

    name = "sogn"

    def value(self, trace: Trace) -> float:
        """The length of the way, in L1 norm per unit of learning rate."""
        assert trace.gradient_norm is not None
        return trace.gradient_norm
