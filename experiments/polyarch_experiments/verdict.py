"""Verdicts that come from intervals: a claim holds, fails, or the numbers leave it undecided."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polyarch.ranking import Interval
from polyarch_experiments.results import VERDICTS, Claim, Finding

CONFIDENCE = 0.95
"""Of all intervals."""


def over_seeds(values: Sequence[float], step: float = 0.0) -> Interval:
    """The mean of one value per seed with Student's interval, mean +- t sd / sqrt(n); of one seed there is none.

    A bootstrap of two or three seeds would be too narrow: that of two covers their mean in half of all cases.

    Args:
        step: between neighbouring values, where they are counts or shares of a few: seeds that happen to agree do not
            show that others would, so sd is at least that of rounding, step / sqrt(12).
    """
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, None, None)
    spread = max(statistics.stdev(values), step / math.sqrt(12))
    half = student(len(values)) * spread / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def student(seeds: int) -> float:
    """The quantile of Student's t by which the standard error of a mean over seeds is multiplied."""
    from scipy.stats import t  # takes a second to import

    return float(t.ppf((1 + CONFIDENCE) / 2, seeds - 1))


def paired(first: Sequence[float], second: Sequence[float], step: float = 0.0) -> Interval:
    """The mean difference of two values per seed, with Student's interval."""
    return over_seeds([one - other for one, other in zip(first, second, strict=True)], step)


def spread_ratio(first: Sequence[float], second: Sequence[float]) -> Interval:
    """The standard deviation of some values over that of others, with the interval of normal values by Fisher's F."""
    if min(len(first), len(second)) < 2 or not statistics.stdev(second):
        return Interval(None, None, None)
    from scipy.stats import f  # takes a second to import

    ratio = (statistics.stdev(first) / statistics.stdev(second)) ** 2
    low, high = (
        ratio / float(f.ppf(share, len(first) - 1, len(second) - 1))
        for share in ((1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2)
    )
    return Interval(math.sqrt(ratio), math.sqrt(low), math.sqrt(high))


def paired_by_seed(first: Mapping[int, float], second: Mapping[int, float]) -> Interval:
    """The same over the seeds that both have; nothing if there are none."""
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return Interval(None, None, None)
    return paired([first[seed] for seed in seeds], [second[seed] for seed in seeds])


def several_seeds(draws: NDArray[np.float64], seeds: int) -> NDArray[np.float64]:
    """Draws of a rank statistic; one seed says nothing about others, so that its value has none."""
    return draws if seeds > 1 else np.append(draws[:1], np.full(len(draws) - 1, np.nan))


def finding(name: str, interval: Interval, *, above: float | None = None, below: float | None = None) -> Finding:
    """A quantity that a claim expects above one bound, below another, or between both."""
    return Finding(name=name, value=interval.value, low=interval.low, high=interval.high, above=above, below=below)


def not_run(name: str) -> Finding:
    """A quantity that has not been measured, so that a claim on it and others cannot hold yet."""
    return Finding(name=name, value=None)


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether all hold: False as soon as one fails, None where one is undecided or there are none."""
    found = list(verdicts)
    if False in found:
        return False
    return True if found and None not in found else None


def any_of(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether one holds, as a claim that something can happen says: False only if all fail."""
    found = list(verdicts)
    if True in found:
        return True
    return False if found and None not in found else None


def claim(
    text: str,
    findings: Sequence[Finding],
    numbers: str = "",
    *,
    decide: Callable[[Iterable[bool | None]], bool | None] = all_of,
    number: int | None = None,
    document: str = "not in the paper",
    ours: str | None = None,
    needs: str | None = None,
) -> Claim:
    """A claim that holds if all its findings do and fails if one does, unless the test was not a fair one.

    Args:
        numbers: what else was measured; the findings are told before it.
        decide: the verdict from those on the findings.
        ours: the threshold that is ours and not the paper's.
        needs: what a fair test would take, if this is none: what fails here is then undecided.
    """
    supported = decide(found.supported for found in findings)
    told = "; ".join(map(described, findings))
    return Claim(
        text=text,
        supported=None if supported is False and needs else supported,
        numbers="; ".join(part for part in (told, numbers) if part) or "not run",
        number=number,
        document=document,
        findings=list(findings),
        ours=ours,
        needs=needs,
    )


def described(found: Finding) -> str:
    """For people: the value, its interval, and what it says about the claim."""
    if found.value is None:
        return f"{found.name}: not measured"
    if found.low is None or found.high is None:
        return f"{found.name} {found.value:.{_digits(found.value)}f} (no interval)"
    digits = _digits(found.value, found.low, found.high)
    ends = f"{found.low:.{digits}f} to {found.high:.{digits}f}"
    return f"{found.name} {found.value:.{digits}f} ({ends}, {VERDICTS[found.supported]})"


def interval_in_words(interval: Interval, digits: int) -> str:
    """The value and, where there is one, its interval."""
    if interval.value is None:
        return "-"
    if interval.low is None or interval.high is None:
        return f"{interval.value:.{digits}f}"
    return f"{interval.value:.{digits}f} ({interval.low:.{digits}f} to {interval.high:.{digits}f})"


def _digits(*values: float) -> int:
    """Three for shares and correlations, two for what is larger."""
    return 3 if max(map(abs, values)) < 1 else 2
