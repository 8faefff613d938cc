"""Cells of NAS-Bench-101 whose sizes and hashes are published."""

from __future__ import annotations

from polyarch.spaces import NB101_OPERATIONS, NB101Cell

CONV1, CONV3, POOL = NB101_OPERATIONS


def make_cell(matrix: list[list[int]], operations: list[str]) -> NB101Cell:
    return NB101Cell(tuple(map(tuple, matrix)), tuple(operations))


INCEPTION = make_cell(
    [
        [0, 1, 1, 1, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0],
    ],
    ["input", CONV1, CONV3, CONV3, CONV3, POOL, "output"],
)
"""The example of the NAS-Bench-101 documentation."""

FIRST = make_cell(
    [
        [0, 1, 0, 0, 1, 1, 0],
        [0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 1],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0],
    ],
    ["input", CONV3, POOL, CONV3, CONV3, CONV1, "output"],
)
"""The first of its files."""
