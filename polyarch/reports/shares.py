"""Which options are likely: under the learned q, or among the best architectures of the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyarch.reports.drawing import LABELS
from polyarch.reports.searched import best_quarter, is_spelled_out, ordered
from polyarch.reports.words import several
from polyarch.results import Results, ScoredArchitecture


@dataclass(frozen=True)
class Share:
    """How much of the probability, or of the architectures, an option of a choice has; ``position`` counts from 0."""

    choice: str
    option: str
    position: int
    share: float


@dataclass(frozen=True)
class Shares:
    """The shares of all options, and a name that says among what."""

    name: str
    shares: tuple[Share, ...]

    @property
    def choices(self) -> list[str]:
        """The names of the choices, in order."""
        return list(dict.fromkeys(share.choice for share in self.shares))


def distributions(results: Results) -> list[Shares]:
    """The learned q alone, or the best quarter of the search beside everything searched; empty before either."""
    if not is_spelled_out(results):
        return []
    choices = _choices(results)
    if results.training.q:
        shares = [
            Share(choice, option, position, probability)
            for choice, probabilities in results.training.q.items()
            for position, (option, probability) in enumerate(
                zip(_options(choices, choice, len(probabilities)), probabilities, strict=True)
            )
        ]
        return [Shares("the learned distribution q", tuple(shares))]
    if results.search is None or not results.search.evaluated:
        return []
    items = ordered(results.search)
    best = best_quarter(items)
    return [
        Shares(f"the best quarter: {several(len(best), 'architecture')}", _shares(best, choices)),
        Shares(f"all {len(items):,} searched", _shares(items, choices)),
    ]


def _shares(items: Sequence[ScoredArchitecture], choices: dict[str, list[str]]) -> tuple[Share, ...]:
    found = []
    for choice, options in choices.items():
        taken = [item.architecture.get(choice) for item in items]
        found += [
            Share(choice, option, position, taken.count(option) / len(items)) for position, option in enumerate(options)
        ]
    return tuple(found)


def _choices(results: Results) -> dict[str, list[str]]:
    """The options of every choice, or those that were seen where the results do not say."""
    declared: dict[str, list[str]] = results.space.get("choices") or {}
    if declared or results.search is None:
        return declared
    seen: dict[str, dict[str, None]] = {}
    for item in results.search.evaluated:
        for choice, option in item.architecture.items():
            seen.setdefault(choice, {})[option] = None
    return {choice: list(options) for choice, options in seen.items()}


def _options(choices: dict[str, list[str]], choice: str, number: int) -> list[str]:
    options = choices.get(choice, [])
    return options if len(options) == number else [str(position + 1) for position in range(number)]


def column_names(shares: Shares) -> list[str] | None:
    """The options in order where all choices offer the same ones, so that columns can be named; else None."""
    options = {choice: [share.option for share in shares.shares if share.choice == choice] for choice in shares.choices}
    first = next(iter(options.values()), [])
    return first if all(found == first for found in options.values()) else None


def option_label(option: str) -> str:
    """A shorter name where there is a usual one."""
    return LABELS.get(option, option)
