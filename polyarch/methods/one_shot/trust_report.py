"""How far to trust the ranking: agreements and the first place, as a short table and in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from polyarch.reports.words import SPACE, estimator_name, key_of
from polyarch.results import IntervalRecord, RankingRecord, TrustRecord

AGREEMENTS = ((0.8, "alike"), (0.5, "roughly alike"), (0.2, "only a little alike"), (-math.inf, "differently"))
"""The least Spearman correlation for words, and the words."""

OF_ESTIMATORS = {
    "alike": "they support each other about which are the better ones; the order of close neighbours stays open",
    "roughly alike": "the first ones are likely better than the last ones, but which is best is open; retrain several",
    "only a little alike": "the ranking is a hint; retrain several of the first and compare them",
    "differently": "at least one of them misleads; believe the retrained networks alone",
}
"""What their agreement means for the ranking."""

OF_SEEDS = {
    "alike": "another training would give nearly the same ranking",
    "roughly alike": "another training would give a similar ranking, perhaps with another first",
    "only a little alike": "another training would give a rather different ranking",
    "differently": "the ranking hangs on the chance of one training",
}
"""What the agreement of supernets means for the ranking."""

PLACES = (
    (0.1, "it stays near the top whoever judges"),
    (0.5, "it is better than an average one, but not surely the best"),
    (1.0, "that it is better than an average one is not confirmed"),
)
"""The most that the upper end of the interval of its place may be for words, and the words."""


@dataclass(frozen=True)
class TrustLine:
    """A row of the table."""

    name: str
    value: str
    interval: str


@dataclass(frozen=True)
class TrustPart:
    """What the report says; ``key`` is the architecture that came first."""

    sentences: tuple[str, ...]
    lines: tuple[TrustLine, ...]
    key: str


def trust_part(ranking: RankingRecord | None) -> TrustPart | None:
    """The part of the report, where the run compared anything."""
    if ranking is None or ranking.trust is None:
        return None
    found = ranking.trust
    return TrustPart(tuple(_sentences(found)), tuple(_lines(found)), key_of(found.top_architecture))


def _sentences(trust: TrustRecord) -> Iterator[str]:
    yield _agreement("The two estimators order", trust.estimator_agreement, OF_ESTIMATORS)
    if trust.seed_agreement is not None:
        yield _agreement("Supernets with different seeds order", trust.seed_agreement, OF_SEEDS)
    place = _known(trust.top_rank_interval)
    if place is not None:
        words = next(words for most, words in PLACES if place[2] <= most)
        yield (
            f"Of all others, {_share(place[0])} come before the first architecture by "
            f"{estimator_name(trust.estimators[0])} when other estimators judge "
            f"({_share(place[1])} to {_share(place[2])}): {words}."
        )


def _agreement(who: str, agreement: IntervalRecord, meanings: Mapping[str, str]) -> str:
    known = _known(agreement)
    if known is None:
        return f"{who} nothing: one side gives all architectures the same score."
    value, low, high = known
    words = next(words for least, words in AGREEMENTS if value >= least)
    chance = " This may be chance: the interval includes 0." if low <= 0 <= high else ""
    return f"{who} architectures {words} ({value:.2f}, {low:.2f} to {high:.2f}): {meanings[words]}.{chance}"


def _lines(trust: TrustRecord) -> Iterator[TrustLine]:
    first, second = map(estimator_name, trust.estimators)
    yield _line(f"agreement of {first} and {second}", trust.estimator_agreement, "{:.2f}".format)
    if trust.seed_agreement is not None:
        yield _line("agreement of supernets with different seeds", trust.seed_agreement, "{:.2f}".format)
    yield _line(f"share of others before the first by {first}", trust.top_rank_interval, _share)


def _line(name: str, interval: IntervalRecord, shown: Callable[[float], str]) -> TrustLine:
    known = _known(interval)
    if known is None:
        return TrustLine(name, "–", "–")
    value, low, high = map(shown, known)
    return TrustLine(name, value, f"{low} to {high}")


def _known(interval: IntervalRecord) -> tuple[float, float, float] | None:
    if interval.value is None or interval.low is None or interval.high is None:
        return None
    return interval.value, interval.low, interval.high


def _share(value: float) -> str:
    return f"{100 * value:.0f}{SPACE}%"
