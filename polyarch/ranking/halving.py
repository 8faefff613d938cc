"""Early elimination: all architectures start a short run, the better part goes on, and so on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators import Running, ShortRun, Whole, Window
from polyarch.executors import Executor, Mapper
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet

Curve = Sequence[float]
"""The losses of a run up to where it stands; a NaN at the end says that it diverged there."""

Judge = Callable[[int, list[int]], Mapping[int, float]]
"""Runs the architectures at these positions up to so many steps; minus the running loss total of each."""

DIVERGED = -math.inf


@dataclass(frozen=True)
class Elimination:
    """The order that successive halving found among n architectures, and what it cost.

    Those that reached a later rung come first, within a rung by the running score, and those that diverged come last.

    Args:
        order: (n,) positions of the architectures, best first.
        steps: (n,) training steps that were spent on each.
        values: (n,) the score of each where it stopped, minus the running total of losses; minus infinity if it
            diverged.
        full_steps: what it costs to run them all to the end.
    """

    order: tuple[int, ...]
    steps: tuple[int, ...]
    values: tuple[float, ...]
    full_steps: int

    @property
    def spent(self) -> int:
        """The training steps that were spent on all of them."""
        return sum(self.steps)


def successive_halving(
    net: Supernet,
    architectures: Sequence[Architecture],
    run: ShortRun,
    executor: Executor,
    *,
    rungs: Sequence[int],
    factor: float = 2.0,
    window: Window | None = None,
    known: Mapping[str, Curve] | None = None,
    note: Callable[[str, Curve], None] | None = None,
) -> Elimination:
    """Runs all architectures for a few steps, the better ones further from where they stopped, the best to the end.

    Rung r runs its n_r architectures up to ``rungs[r]`` steps; the n_{r+1} = ceil(n_r / factor) with the best SoTL so
    far go on. Every run has the bits of one that never stopped, whatever the executor.

    Args:
        run: the run of those that are never eliminated.
        rungs: the steps at which is judged, up to ``run.steps``; see `geometric_rungs`.
        window: which losses count; all so far by default.
        known: curves of an earlier call by architecture key. They are not run again, but one that goes on further
            starts anew, as its weights are gone.
        note: is given every curve with the key as soon as it is there, for the next call's ``known``.
    """
    _check(rungs, factor)
    if rungs[-1] != run.steps:
        raise InvalidInput(f"Expected the last rung at the end of the run, {run.steps}. Got {list(rungs)}.")
    with executor.open(_Going(net, replace(run, valid=None, gradients=False))) as going:
        race = _Race(architectures, going, run.steps, factor, window or Whole(), dict(known or {}), note)
        return _halve(len(architectures), rungs, factor, race.judge)


def halving_on_curves(
    losses: ArrayLike, rungs: Sequence[int], factor: float = 2.0, *, window: Window | None = None
) -> Elimination:
    """What `successive_halving` would have found and spent, from stored losses of full runs.

    ``halving_on_curves(losses, [T])`` eliminates nobody: its order is the full ranking.

    Args:
        losses: (n, T) training losses; NaN from where a run diverged.
    """
    curves = np.asarray(losses, np.float64)
    if curves.ndim != 2:
        raise InvalidInput(f"Expected losses of shape (architectures, steps). Got {curves.shape}.")
    _check(rungs, factor)
    if rungs[-1] > curves.shape[1]:
        raise InvalidInput(f"Expected rungs within the {curves.shape[1]} steps of the curves. Got {list(rungs)}.")
    chosen = window or Whole()

    def judge(steps: int, positions: list[int]) -> dict[int, float]:
        return {position: _score(curves[position].tolist(), steps, chosen) for position in positions}

    return _halve(len(curves), rungs, factor, judge)


def geometric_rungs(steps: int, *, first: int, factor: float = 2.0) -> tuple[int, ...]:
    """first, first * factor, first * factor^2, ... and at last ``steps``.

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
    """How many of n architectures take part in every rung if none diverges: n, ceil(n / factor), ..."""
    counts = [n]
    for _ in rungs[1:]:
        counts.append(_kept(counts[-1], factor))
    return counts


def halving_steps(n: int, rungs: Sequence[int], factor: float = 2.0) -> int:
    """The training steps of all of them together, sum_r n_r (s_r - s_{r-1}); the full ranking takes n s_R."""
    legs = [steps - before for before, steps in pairwise((0, *rungs))]
    return sum(count * leg for count, leg in zip(halving_counts(n, rungs, factor), legs, strict=True))


def top_kept(order: Sequence[int], full: Sequence[int], k: int = 10) -> float:
    """The share of the first k of the full ranking that are among the first k of another order, 0..1."""
    if not 1 <= k <= min(len(order), len(full)):
        raise InvalidInput(f"Expected k in 1..{min(len(order), len(full))}. Got {k}.")
    return len(set(order[:k]) & set(full[:k])) / k


@dataclass(frozen=True)
class _Leg:
    """How far an architecture is to run, and from where on; ``carry`` if it may go on after that."""

    architecture: Architecture
    until: int
    carry: bool
    state: bytes | None


@dataclass(frozen=True)
class _Going:
    """Runs a leg; the task of the workers."""

    net: Supernet
    run: ShortRun

    def __call__(self, leg: _Leg) -> tuple[Curve, bytes | None]:
        """The curve so far and the state to go on with."""
        running = Running(self.run, self.net, leg.architecture)
        if leg.state is not None:
            running.load(leg.state)
        try:
            running.advance(leg.until)
        except NotFiniteError:
            return (*running.losses, math.nan), None
        return tuple(running.losses), running.state() if leg.carry else None


@dataclass
class _Race:
    """The curves of all architectures and the weights of those that may go on."""

    architectures: Sequence[Architecture]
    going: Mapper[_Leg, tuple[Curve, bytes | None]]
    steps: int
    factor: float
    window: Window
    curves: dict[str, Curve]
    note: Callable[[str, Curve], None] | None
    states: dict[int, bytes] = field(default_factory=dict)

    def judge(self, steps: int, positions: list[int]) -> dict[int, float]:
        missing = [position for position in positions if not self._is_known(position, steps)]
        carry = steps < self.steps
        legs = [_Leg(self.architectures[position], steps, carry, self.states.get(position)) for position in missing]
        self.states.clear()
        for index, (curve, state) in self.going(legs):
            position = missing[index]
            key = self.architectures[position].key
            self.curves[key] = curve
            if self.note is not None:
                self.note(key, curve)
            if state is not None:
                self.states[position] = state
            if len(self.states) > _kept(len(positions), self.factor):  # the weights of the worst will not be needed
                del self.states[min(self.states, key=lambda position: (self._score(position, steps), -position))]
        return {position: self._score(position, steps) for position in positions}

    def _is_known(self, position: int, steps: int) -> bool:
        curve = self.curves.get(self.architectures[position].key)
        return curve is not None and (len(curve) >= steps or math.isnan(curve[-1]))

    def _score(self, position: int, steps: int) -> float:
        return _score(self.curves[self.architectures[position].key], steps, self.window)


def _check(rungs: Sequence[int], factor: float) -> None:
    if not rungs or rungs[0] < 1 or any(later <= earlier for earlier, later in pairwise(rungs)):
        raise InvalidInput(f"Expected rungs that rise from 1 step or more. Got {list(rungs)}.")
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
    order = sorted(
        range(n),
        key=lambda position: (values[position] == DIVERGED, -reached[position], -values[position], position),
    )
    return Elimination(tuple(order), tuple(reached), tuple(values), full_steps=n * rungs[-1])


def _kept(n: int, factor: float) -> int:
    return math.ceil(n / factor)


def _score(curve: Curve, steps: int, window: Window) -> float:
    losses = curve[:steps]
    return -window.total(losses) if all(map(math.isfinite, losses)) else DIVERGED
