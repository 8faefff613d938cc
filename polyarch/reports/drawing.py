"""Architectures as SVG pictures."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from polyarch.spaces import NB201_EDGES, edge_name

ARCS = {(0, 2): 65, (0, 3): 120, (1, 3): -70}
COLOURS = {
    "skip_connect": "#80868b",
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
    """Four nodes on a line; longer edges are arcs further out; ``none`` is left away."""
    level = 150
    places = [70 + 170 * node for node in range(4)]
    parts = []
    for source, target in NB201_EDGES:
        operation = architecture[edge_name(source, target)]
        if operation == "none":
            continue
        rise = ARCS.get((source, target), 0)  # how far the middle of the arc lies above the nodes
        edge = 20 if rise > 0 else -20 if rise < 0 else 0
        shift = 8 if rise else 22
        x1, x2, y = places[source] + shift, places[target] - shift, level - edge
        middle, control = (x1 + x2) / 2, y - 2 * (rise - edge)
        colour = COLOURS[operation]
        dash = ' stroke-dasharray="5 4"' if operation == "skip_connect" else ""
        label_y = level - rise + (18 if rise < 0 else -8)
        parts.append(
            f'<path d="M{x1},{y} Q{middle},{control} {x2},{y}" fill="none" stroke="{colour}" stroke-width="2.2"{dash} '
            f'marker-end="url(#arrow)"/>'
            f'<text x="{middle}" y="{label_y}" text-anchor="middle" fill="{colour}" {FONT}>{LABELS[operation]}</text>'
        )
    for node, x in enumerate(places):
        name = {0: "in", 3: "out"}.get(node, str(node))
        parts.append(
            f'<circle cx="{x}" cy="{level}" r="20" fill="none" stroke="currentColor" stroke-width="1.6"/>'
            f'<text x="{x}" y="{level + 4.5}" text-anchor="middle" fill="currentColor" {FONT}>{name}</text>'
        )
    return _svg(650, 270, parts)


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
