"""Runs that are repeated with several seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def seeded(counts: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """A name and a seed for every run, by ``NAME seed SEED``: all first seeds, then all second ones.

    Names with more seeds come before all others: it is on them that claims are judged.

    Args:
        counts: how many seeds every name has.
    """
    return {
        f"{name} seed {seed}": (name, seed)
        for most in sorted(set(counts.values()), reverse=True)
        for seed in range(most)
        for name, count in counts.items()
        if count == most
    }


def runs_of(runs: Mapping[str, Any], counts: Mapping[str, int], name: str) -> list[dict[str, Any]]:
    """The results of `seeded` runs of one name, one per seed that is finished."""
    return list(by_seed(runs, counts, name).values())


def by_seed(runs: Mapping[str, Any], counts: Mapping[str, int], name: str) -> dict[int, dict[str, Any]]:
    """The same by seed; nothing for a name that these settings do not have."""
    keys = {seed: f"{name} seed {seed}" for seed in range(counts.get(name, 0))}
    return {seed: runs[key] for seed, key in keys.items() if key in runs}
