"""Errors of other packages inside our sentences."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """What an error says, as part of a sentence; its type if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
