"""Fewer points of what is too long to be drawn in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST_EPOCHS = 400
"""Points of a curve: more than there are pixels only make the page larger."""
MOST_DRAWS = 400
"""Points of a cloud, for the same reason."""


def evenly(count: int, most: int) -> list[int]:
    """At most so many positions out of ``count``, the first and the last among them, equally far apart."""
    if count <= most:
        return list(range(count))
    return [round(index * (count - 1) / (most - 1)) for index in range(most)]


def curve(history: Sequence[Mapping[str, float]], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Points of curves over the epochs: what was measured under a key, by the name of its curve."""
    for key, name in names.items():
        rows = [
            {"epoch": row["epoch"], "value": row[key], "series": name}
            for row in history
            if key in row and "epoch" in row
        ]
        yield from (rows[index] for index in evenly(len(rows), MOST_EPOCHS))
