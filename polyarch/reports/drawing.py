"""Architectures as SVG pictures."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from polyarch.spaces import NB201_EDGES, edge_name

COLOURS = {
    "none": "#9aa0a6",
    "skip_connect": "#5f6368",
    "nor_conv_1x1": "#1a73e8",
    "nor_conv_3x3": "#c5221f",
    "avg_pool_3x3": "#188038",
}
LABELS = {"skip_connect": "skip", "nor_conv_1x1": "conv 1x1", "nor_conv_3x3": "conv 3x3", "avg_pool_3x3": "pool 3x3"}
FONT = 'font-family="system-ui, sans-serif" font-size="13"'


def draw(architecture: Mapping[str, str], kind: str) -> str:
    """An SVG picture: the cell as a graph for ``nb201``, a row of boxes for the others."""
    return _cell(architecture) if kind == "nb201" else _chain(architecture)


def _cell(architecture: Mapping[str, str]) -> str:
    """Four nodes on a line; an arc per edge, longer edges further out; ``none`` is left away."""
    places = [(70 + 170 * node, 150) for node in range(4)]
    parts = []
    for source, target in NB201_EDGES:
        operation = architecture[edge_name(source, target)]
        if operation == "none":
            continue
        (x1, y1), (x2, y2) = places[source], places[target]
        length = target - source
        bend = 0 if length == 1 else (-62 if (source, target) != (1, 3) else 62) * length
        if length == 3:
            bend = -150
        middle_x, middle_y = (x1 + x2) / 2, y1 + bend
        colour = COLOURS.get(operation, "#1a73e8")
        dash = ' stroke-dasharray="5 4"' if operation == "skip_connect" else ""
        start, end = (x1 + 22, y1) if not bend else (x1, y1), (x2 - 24, y2) if not bend else (x2, y2)
        if bend:
            offset = 22 if bend > 0 else -22
            start, end = (x1 + 8, y1 + offset), (x2 - 8, y2 + offset)
        parts.append(
            f'<path d="M{start[0]},{start[1]} Q{middle_x},{middle_y + bend * 0.55} {end[0]},{end[1]}" fill="none" '
            f'stroke="{colour}" stroke-width="2.2"{dash} marker-end="url(#arrow)"/>'
        )
        label_y = (middle_y - 8) if not bend else y1 + bend * 0.78 + (16 if bend > 0 else -4)
        parts.append(
            f'<text x="{middle_x}" y="{label_y}" text-anchor="middle" fill="{colour}" {FONT}>'
            f"{escape(LABELS.get(operation, operation))}</text>"
        )
    for node, (x, y) in enumerate(places):
        name = {0: "in", 3: "out"}.get(node, str(node))
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="20" fill="none" stroke="currentColor" stroke-width="1.6"/>'
            f'<text x="{x}" y="{y + 4.5}" text-anchor="middle" fill="currentColor" {FONT}>{name}</text>'
        )
    return _svg(650, 300, parts)


def _chain(architecture: Mapping[str, str]) -> str:
    """One box per choice, in rows of six."""
    parts = []
    rows = -(-len(architecture) // 6)
    for index, (choice, option) in enumerate(architecture.items()):
        row, column = divmod(index, 6)
        x, y = 14 + 106 * column, 20 + 74 * row
        dash = ' stroke-dasharray="5 4"' if option == "skip" else ""
        parts.append(
            f'<rect x="{x}" y="{y}" width="88" height="46" rx="6" fill="none" stroke="currentColor"{dash}/>'
            f'<text x="{x + 44}" y="{y + 18}" text-anchor="middle" fill="currentColor" opacity="0.65" {FONT}>'
            f"{escape(choice)}</text>"
            f'<text x="{x + 44}" y="{y + 36}" text-anchor="middle" fill="currentColor" {FONT}>{escape(option)}</text>'
        )
        if column < 5 and index + 1 < len(architecture):
            parts.append(
                f'<path d="M{x + 88},{y + 23} h14" stroke="currentColor" stroke-width="1.6" marker-end="url(#arrow)"/>'
            )
    return _svg(650, 30 + 74 * rows, parts)


def _svg(width: int, height: int, parts: list[str]) -> str:
    marker = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="context-stroke"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="architecture">{marker}{"".join(parts)}</svg>\n'
    )
