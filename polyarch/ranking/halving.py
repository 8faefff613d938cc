"""Early elimination: every architecture starts a short run, and at each rung only the better ones continue.

Jamieson and Talwalkar (2016), "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
arXiv:1502.07943. Architectures are compared by their sum over training losses (SoTL): Ru, Lyle, Schut, Fil, van der
Wilk and Gal (2021), "Speedy Performance Estimation for Neural Architecture Search", arXiv:2006.04492.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators import OngoingRun, ShortRun
from polyarch.executors import Executor
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet

Curve = Sequence[float]
"""The losses of a run so far; a NaN at the end marks the step at which it diverged."""

Judge = Callable[[int, list[int]], Mapping[int, float]]
"""(steps, positions): trains these architectures up to that many steps -> minus the running loss total of each."""

DIVERGED = -math.inf


@dataclass(frozen=True)
class Elimination:
    """The ranking of n architectures by successive halving, and its cost.

    Architectures that reached a later rung rank first, ties are broken by score, and diverged ones come last.

    Args:
        order: (n,) positions of the architectures, best first.
        steps: (n,) training steps spent on each.
        values: (n,) minus the running total of losses where each stopped; minus infinity if it diverged.
        full_steps: the training steps of running all of them to the end.
    """

    order: tuple[int, ...]
    steps: tuple[int, ...]
    values: tuple[float, ...]
    full_steps: int

    @property
    def spent(self) -> int:
        """The training steps spent on all architectures together."""
        return sum(self.steps)


def successive_halving(
    net: Supernet,
    architectures: Sequence[Architecture],
    run: ShortRun,
    executor: Executor,
    *,
    rungs: Sequence[int],
    factor: float = 2.0,
    known: Mapping[str, Curve] | None = None,
    note: Callable[[str, Curve], None] | None = None,
) -> Elimination:
    """Trains all architectures for a few steps, the better ones further, and the best to the end.

    Rung r trains its n_r architectures up to ``rungs[r]`` steps; the n_{r+1} = ceil(n_r / factor) with the best SoTL
    continue from there. Every run is bit-identical to an uninterrupted one, whatever the executor.

    Args:
        run: the run of the architectures that are never eliminated.
        rungs: the steps at which architectures are compared, the last at ``run.steps``; see `geometric_rungs`.
        known: curves of an earlier call by architecture key, which are not run again. An architecture that advances
            beyond its known curve starts over, because its weights were not kept.
        note: receives the key and curve of every finished leg, to be passed as ``known`` next time.
    """
    _check(rungs, factor)
    if rungs[-1] != run.steps:
        raise InvalidInput(f"Expected the last rung at the end of the run, {run.steps}. Got {list(rungs)}.")
    keys = [architecture.key for architecture in architectures]
    curves: dict[str, Curve] = dict(known or {})
    states: dict[int, bytes] = {}

    def is_known(position: int, steps: int) -> bool:
        curve = curves.get(keys[position])
        return curve is not None and (len(curve) >= steps or math.isnan(curve[-1]))

    def judge(steps: int, positions: list[int]) -> dict[int, float]:
        missing = [position for position in positions if not is_known(position, steps)]
        legs = [_Leg(architectures[each], steps, steps < run.steps, states.get(each)) for each in missing]
        states.clear()
        for index, (curve, state) in train(legs):
            position = missing[index]
            curves[keys[position]] = curve
            if note is not None:
                note(keys[position], curve)
            if state is not None:
                states[position] = state
            if len(states) > _kept(len(positions), factor):  # the worst will be eliminated
                del states[min(states, key=lambda position: (_score(curves[keys[position]], steps), -position))]
        return {position: _score(curves[keys[position]], steps) for position in positions}

    with executor.open(_LegTraining(net, replace(run, valid=None, gradients=False))) as train:
        return _halve(len(architectures), rungs, factor, judge)


def halving_on_curves(losses: ArrayLike, rungs: Sequence[int], factor: float = 2.0) -> Elimination:
    """Replays `successive_halving` on the losses (n, T) of full runs, NaN from the step at which a run diverged.

    ``halving_on_curves(losses, [T])`` eliminates nothing: its order is the full ranking.
    """
    curves = np.asarray(losses, np.float64)
    if curves.ndim != 2:
        raise InvalidInput(f"Expected losses of shape (architectures, steps). Got {curves.shape}.")
    _check(rungs, factor)
    if rungs[-1] > curves.shape[1]:
        raise InvalidInput(f"Expected rungs within the {curves.shape[1]} steps of the curves. Got {list(rungs)}.")

    def judge(steps: int, positions: list[int]) -> dict[int, float]:
        return {position: _score(curves[position].tolist(), steps) for position in positions}

    return _halve(len(curves), rungs, factor, judge)


def geometric_rungs(steps: int, *, first: int, factor: float = 2.0) -> tuple[int, ...]:
    """The rungs first, first * factor, first * factor^2, ... and finally ``steps``.

    >>> geometric_rungs(100, first=12)
    (12, 24, 48, 96, 100)
    """
    if not (1 <= first <= steps and factor > 1):
        raise InvalidInput(f"Expected 1 <= first <= steps and a factor above 1. Got {first=}, {steps=}, {factor=}.")
    rungs, rung = [], float(first)
    while math.floor(rung) < steps:
        rungs.append(math.floor(rung))
        rung = max(rung * factor, rungs[-1] + 1.0)
    return (*rungs, steps)


def halving_counts(n: int, rungs: Sequence[int], factor: float = 2.0) -> list[int]:
    """The number of architectures at every rung if none diverges: n, ceil(n / factor), ..."""
    counts = [n]
    for _ in rungs[1:]:
        counts.append(_kept(counts[-1], factor))
    return counts


def halving_steps(n: int, rungs: Sequence[int], factor: float = 2.0) -> int:
    """The total of training steps, sum_r n_r (s_r - s_{r-1}); the full ranking takes n s_R."""
    legs = [steps - before for before, steps in pairwise((0, *rungs))]
    return sum(count * leg for count, leg in zip(halving_counts(n, rungs, factor), legs, strict=True))


@dataclass(frozen=True)
class _Leg:
    """Trains an architecture from ``state`` to step ``until``; ``carry`` returns its state for the next leg."""

    architecture: Architecture
    until: int
    carry: bool
    state: bytes | None


@dataclass(frozen=True)
class _LegTraining:
    """Trains one leg; the task of the workers."""

    net: Supernet
    run: ShortRun

    def __call__(self, leg: _Leg) -> tuple[Curve, bytes | None]:
        running = OngoingRun(self.run, self.net, leg.architecture)
        if leg.state is not None:
            running.load(leg.state)
        try:
            running.advance(leg.until)
        except NotFiniteError:
            return (*running.losses, math.nan), None
        return tuple(running.losses), running.state() if leg.carry else None


def _check(rungs: Sequence[int], factor: float) -> None:
    if not rungs or rungs[0] < 1 or any(later <= earlier for earlier, later in pairwise(rungs)):
        raise InvalidInput(f"Expected increasing rungs of 1 step or more. Got {list(rungs)}.")
    if not factor > 1:
        raise InvalidInput(f"Expected a factor above 1. Got {factor}.")


def _halve(n: int, rungs: Sequence[int], factor: float, judge: Judge) -> Elimination:
    reached, values = [0] * n, [DIVERGED] * n
    going = list(range(n))
    for steps in rungs:
        scores = judge(steps, going)
        for position in going:
            reached[position], values[position] = steps, scores[position]
        sound = (position for position in going if scores[position] > DIVERGED)
        going = sorted(sound, key=lambda position: (-values[position], position))[: _kept(len(going), factor)]
    order = sorted(range(n), key=lambda each: (values[each] == DIVERGED, -reached[each], -values[each], each))
    return Elimination(tuple(order), tuple(reached), tuple(values), full_steps=n * rungs[-1])


def _kept(n: int, factor: float) -> int:
    return math.ceil(n / factor)


def _score(curve: Curve, steps: int) -> float:
    losses = curve[:steps]
    return -math.fsum(losses) if all(map(math.isfinite, losses)) else DIVERGED
