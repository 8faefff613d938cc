"""How far to trust a ranking: agreement of estimators and of supernets, in words and as rows of a table."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from polyarch.methods.one_shot.record import IntervalRecord, TrustRecord
from polyarch.reports.text import estimator_name, percent

AGREEMENTS = ((0.8, "closely"), (0.5, "roughly"), (0.2, "only slightly"), (-math.inf, "hardly at all"))
"""The least Spearman correlation for a word, and the word."""

OF_ESTIMATORS = {
    "closely": "they back each other on which architectures are better; the order of close neighbours remains open",
    "roughly": "the top is likely better than the bottom, but which one is best remains open; retrain several",
    "only slightly": "treat the ranking as a hint; retrain several of the top and compare them",
    "hardly at all": "at least one of them is misleading; trust only retrained networks",
}
"""What their agreement means for the ranking."""

OF_SEEDS = {
    "closely": "another training run would give nearly the same ranking",
    "roughly": "another training run would give a similar ranking, perhaps with another architecture on top",
    "only slightly": "another training run would give a rather different ranking",
    "hardly at all": "the ranking depends on the luck of a single training run",
}
"""What the agreement of supernets means for the ranking."""

PLACES = (
    (0.1, "it stays near the top whichever estimator judges"),
    (0.5, "it is better than average, but not certainly the best"),
    (1.0, "that it is better than average is not confirmed"),
)
"""The largest upper end of the interval of its place for a verdict, and the verdict."""


def trust_sentences(trust: TrustRecord) -> Iterator[str]:
    """What the agreements mean."""
    yield _agreement("The two estimators", trust.estimator_agreement, OF_ESTIMATORS)
    if trust.seed_agreement is not None:
        yield _agreement("Supernets trained with different seeds", trust.seed_agreement, OF_SEEDS)
    place = _known(trust.top_rank_interval)
    if place is not None:
        value, low, high = (percent(share, 0) for share in place)
        verdict = next(verdict for most, verdict in PLACES if place[2] <= most)
        yield (
            f"Other estimators put {value} of the other architectures ahead of the one that "
            f"{estimator_name(trust.estimators[0])} ranks first ({low} to {high}): {verdict}."
        )


def trust_rows(trust: TrustRecord) -> Iterator[tuple[str, str, str]]:
    """Name, value and interval of every agreement."""
    first, second = map(estimator_name, trust.estimators)
    yield f"agreement of {first} and {second}", *_shown(trust.estimator_agreement, "{:.2f}".format)
    if trust.seed_agreement is not None:
        yield "agreement of supernets with different seeds", *_shown(trust.seed_agreement, "{:.2f}".format)
    yield (
        f"share of the others ahead of the first by {first}",
        *_shown(trust.top_rank_interval, partial(percent, digits=0)),
    )


def _agreement(who: str, agreement: IntervalRecord, meanings: Mapping[str, str]) -> str:
    known = _known(agreement)
    if known is None:
        return f"{who} cannot be compared: one side gives all architectures the same score."
    value, low, high = known
    degree = next(degree for least, degree in AGREEMENTS if value >= least)
    chance = " This may be chance: the interval includes 0." if low <= 0 <= high else ""
    return f"{who} agree {degree} ({value:.2f}, {low:.2f} to {high:.2f}): {meanings[degree]}.{chance}"


def _shown(interval: IntervalRecord, shown: Callable[[float], str]) -> tuple[str, str]:
    known = _known(interval)
    if known is None:
        return "–", "–"
    value, low, high = map(shown, known)
    return value, f"{low} to {high}"


def _known(interval: IntervalRecord) -> tuple[float, float, float] | None:
    if interval.value is None or interval.low is None or interval.high is None:
        return None
    return interval.value, interval.low, interval.high
