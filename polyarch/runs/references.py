"""References to code, ``package.module:name``, in a run description."""

from collections.abc import Mapping
from typing import Any

from polyarch.plugins import is_reference

PLACES = (
    "method",
    "space.kind",
    "space.module",
    "train.strategy",
    "search.sampler",
    "search.objectives",
    "rank.estimators",
)
"""Settings that may name code instead of a registered part."""


def references_in(content: Mapping[str, Any]) -> dict[str, str]:
    """The references of a run description, each with the first setting that has it."""
    found: dict[str, str] = {}
    for place in PLACES:
        section, _, name = place.rpartition(".")
        holder = content.get(section) if section else content
        value = holder.get(name) if isinstance(holder, Mapping) else None
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, str) and is_reference(one):
                found.setdefault(one, place)
    return found
