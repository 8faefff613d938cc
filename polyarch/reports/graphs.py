"""Pictures of networks whose wiring is searched too: DARTS, NAS-Bench-101 and wired stages."""

import math
import re
from collections.abc import Mapping

from polyarch.reports.canvas import WIDTH, arrow, box, label, picture
from polyarch.spaces import DARTS_CELLS, DARTS_NODES

_COLOURS = {
    "skip": "#80868b",
    "sep_conv": "#e5484d",
    "dil_conv": "#a855f7",
    "max_pool": "#2f9e57",
    "avg_pool": "#2f9e57",
}
_WORDS = {"sep_conv": "sep", "dil_conv": "dil", "max_pool": "max", "avg_pool": "avg"}
_SHORT = {"conv1x1-bn-relu": "1x1", "conv3x3-bn-relu": "3x3", "maxpool3x3": "pool"}
_NODES = r"\d(,\d)*"


def darts_picture(architecture: Mapping[str, str], words: str) -> str | None:
    """A row per node of both cells: its two inputs with their operations from either side. None for other choices."""
    parts, y = [], 0.0
    middle = WIDTH / 2
    for cell in DARTS_CELLS:
        parts.append(label(middle, y + 18, "reduction cell" if cell == "reduce" else "normal cell", WIDTH, quiet=True))
        y += 30
        for node in DARTS_NODES:
            options = [architecture.get(f"{cell}{node}_{end}", "") for end in ("inputs", "first", "second")]
            if not re.fullmatch(r"\d,\d", options[0]):
                return None
            for side, source, operation in zip((-1, 1), options[0].split(","), options[1:], strict=True):
                x = middle + side * 200
                kind, _, size = operation.rpartition("_")
                colour = _COLOURS.get(kind, "currentColor")
                start, end = x - side * 22, middle + side * 22
                parts.append(arrow(f"M{start:g},{y + 20:g} H{end:g}", colour=colour, dashed=kind == "skip"))
                short = "skip" if kind == "skip" else f"{_WORDS.get(kind, kind)} {size}".strip()
                parts.append(label((start + end) / 2, y + 14, short, 140))
                parts.extend(_node(x, y + 20, {"0": "c₋₂", "1": "c₋₁"}.get(source, source), quiet=True))
            parts.extend(_node(middle, y + 20, str(node), quiet=False))
            y += 46
    parts.append(label(middle, y + 16, "c₋₂, c₋₁: the two cells before; output: nodes 2 to 5", WIDTH, quiet=True))
    return picture(y + 28, parts, words)


def nb101_picture(architecture: Mapping[str, str], words: str) -> str | None:
    """The nodes that reach the output in a row, neighbours joined by lines, others by arcs; None for other choices."""
    nodes = 0
    while f"node{nodes + 1}_operation" in architecture:
        nodes += 1
    wiring = [architecture.get(f"node{node}_parents", "") for node in range(1, nodes + 1)]
    wiring.append(architecture.get("output_parents", ""))
    if not 1 <= nodes <= 8 or not all(re.fullmatch(_NODES, option) for option in wiring):
        return None
    parents: list[list[int]] = [[], *([int(node) for node in option.split(",")] for option in wiring)]
    if any(source >= node for node, sources in enumerate(parents) for source in sources):
        return None
    last = nodes + 1
    used = {0, last}
    for node in range(last, 0, -1):
        used.update(parents[node] if node in used else ())
    row = sorted(used)
    edges = [(row.index(source), row.index(node)) for node in row for source in parents[node]]
    step = WIDTH / len(row)
    half = min(step / 2 - 9, 36)
    places = [step * (position + 0.5) for position in range(len(row))]
    highest = max(_height(*edge) for edge in edges)
    level = highest + 30.0
    parts = []
    for source, target in edges:
        if target == source + 1:
            parts.append(arrow(f"M{places[source] + half:g},{level:g} H{places[target] - half:g}"))
            continue
        side = -1 if (target - source) % 2 == 0 else 1  # half of the arcs above, half below
        x1, x2, y = places[source] + 6, places[target] - 6, level + side * 20
        control = y + side * 2 * (_height(source, target) - 20)
        parts.append(arrow(f"M{x1:g},{y:g} Q{(x1 + x2) / 2:g},{control:g} {x2:g},{y:g}"))
    for node, x in zip(row, places, strict=True):
        operation = architecture.get(f"node{node}_operation", "in" if node == 0 else "out")
        inner = 0 < node < last
        parts.append(box(x - half, level - 18, 2 * half, 36, filled=inner))
        parts.append(label(x, level + 5, _SHORT.get(operation, operation), 2 * half, quiet=not inner))
    return picture(level + highest + 30, parts, words)


def _height(source: int, node: int) -> float:
    """How far an arc rises from the row."""
    return 20.0 + 12.0 * (node - source)


def _node(x: float, y: float, name: str, *, quiet: bool) -> list[str]:
    opacity = ' stroke-opacity="0.6"' if quiet else ""
    circle = f'<circle cx="{x:g}" cy="{y:g}" r="18" fill="none" stroke="currentColor" stroke-width="1.6"{opacity}/>'
    return [circle, label(x, y + 5, name, 34, quiet=quiet)]


MOST_MODULES, MOST_STAGES = 64, 16
"""Larger ones are not drawn as graphs."""

LEFT = 76
"""Room for the name of the stage."""


def wiring_picture(architecture: Mapping[str, str], words: str) -> str | None:
    """A row per stage, its input on the left. None for other choices."""
    edges = [re.fullmatch(r"stage([0-9]{1,2})_([0-9]{1,2})->([0-9]{1,2}|out)", name) for name in architecture]
    found = [edge.groups() for edge in edges if edge is not None]
    outputs = any(target == "out" for _, _, target in found)
    last = 2 + max((int(source) for _, source, _ in found), default=0)  # what reads the most of a stage
    known = [(int(at), int(source), last if target == "out" else int(target)) for at, source, target in found]
    if not known or len(known) < len(architecture):
        return None
    stages, modules = max(edge[0] for edge in known) + 1, max(edge[2] for edge in known)
    if stages > MOST_STAGES or modules > MOST_MODULES or any(source >= target for _, source, target in known):
        return None
    step = (WIDTH - LEFT - 12) / modules
    places = [LEFT + step * node for node in range(modules + 1)]
    radius = min(9.0, step / 3)
    highest = 22 + 60 * min(modules / 6, 1)
    parts = []
    for stage in range(stages):
        level = (highest + 36) * stage + highest + 6
        parts.append(label(LEFT / 2 - 8, level + 5, f"stage {stage + 1}", LEFT - 16, quiet=True))
        parts.append(
            f'<path d="M{places[0] + radius:g},{level:g} H{places[-1]:g}" stroke="currentColor" stroke-opacity="0.6" '
            'stroke-width="2" fill="none"/>'
        )
        for (at, source, target), option in zip(known, architecture.values(), strict=True):
            if at == stage and option == "on":
                rise = 2 * highest * (target - source) / modules  # of the control point: the arc goes half as high
                middle = (places[source] + places[target]) / 2
                slope = math.hypot(middle - places[source], rise) / radius  # arcs end where they meet the circles
                across, up = (middle - places[source]) / slope, rise / slope
                x1, x2, y = places[source] + across, places[target] - across, level - up
                parts.append(
                    f'<path d="M{x1:g},{y:g} Q{middle:g},{level - rise:g} {x2:g},{y:g}" '
                    'stroke="#4c8df6" stroke-width="2.2" fill="none"/>'
                )
        for node, x in enumerate(places):
            is_module = 0 < node < modules + (not outputs)  # the input of a stage is none, nor is its output
            fill = "currentColor" if is_module else "none"
            parts.append(
                f'<circle cx="{x:g}" cy="{level:g}" r="{radius:g}" fill="{fill}" stroke="currentColor" '
                'stroke-width="1.6"/>'
            )
    return picture((highest + 36) * stages, parts, words)
