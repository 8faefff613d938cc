"""Fewer points of what is too long to be drawn in full."""

from __future__ import annotations


def evenly(count: int, most: int) -> list[int]:
    """At most so many positions out of ``count``, the first and the last among them, equally far apart."""
    if count <= most:
        return list(range(count))
    return [round(index * (count - 1) / (most - 1)) for index in range(most)]
