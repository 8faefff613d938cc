"""Verdicts on depths from intervals: a claim holds or fails if a 95 % interval says so; else it is undecided."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from polyarch.ranking import Interval
from polyarch_experiments.results import Claim

CONFIDENCE = 0.95


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean of one value per seed with Student's interval, mean +- t sd / sqrt(n); of one seed there is none."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, None, None)
    from scipy.stats import t  # takes a second to import

    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def paired(first: Sequence[float], second: Sequence[float]) -> Interval:
    """The mean difference of two values per seed, with Student's interval."""
    return over_seeds([one - other for one, other in zip(first, second, strict=True)])


def lies(interval: Interval, *, above: float = -math.inf, below: float = math.inf) -> bool | None:
    """Whether the quantity lies between the bounds: None where the interval reaches over one, or there is none."""
    if interval.low is None or interval.high is None:
        return None
    if interval.high <= above or interval.low >= below:
        return False
    return True if interval.low > above and interval.high < below else None


def all_of(verdicts: Sequence[bool | None]) -> bool | None:
    """Whether all hold: False as soon as one fails, None where one is undecided or there are none."""
    if False in verdicts:
        return False
    return True if verdicts and None not in verdicts else None


def shown(interval: Interval, digits: int = 3) -> str:
    """For people: the value with its interval."""
    if interval.value is None:
        return "not defined"
    if interval.low is None or interval.high is None:
        return f"{interval.value:.{digits}f} (one seed)"
    return f"{interval.value:.{digits}f} ({interval.low:.{digits}f} to {interval.high:.{digits}f})"


def claim(
    text: str,
    supported: bool | None,
    numbers: str,
    *,
    number: int | None = None,
    document: str = "not in the paper",
    ours: str | None = None,
    needs: str | None = None,
) -> Claim:
    """A claim whose numbers also say which threshold is ours and what a fair test would take.

    Args:
        needs: what a fair test would take, if this is none: what fails here is then undecided.
    """
    parts = [numbers]
    if ours:
        parts.append(f"threshold: ours, {ours}")
    if needs and supported is not True:
        parts.append(f"a fair test would take {needs}")
    verdict = None if supported is False and needs else supported
    return Claim(text=text, supported=verdict, numbers="; ".join(parts), number=number, document=document)
