"""Architectures as SVG pictures."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from polyarch.reports.canvas import WIDTH, arrow, box, label, picture
from polyarch.reports.graphs import darts_picture, nb101_picture, wiring_picture
from polyarch.reports.text import several
from polyarch.spaces import NB201_EDGES, edge_name
from polyarch.spaces.macro import macro_canonical as MACRO_FORM
from polyarch.spaces.macro import macro_space
from polyarch.supernets.nb201 import live_edges

Choices = Mapping[str, Sequence[str]]
"""Choice name -> its options."""

Nesting = Mapping[str, Any]
"""``outer``: names of choices; ``inner``: choice -> option -> names of the choices directly inside."""

MACRO_LAYERS = macro_space().choice_names

ARCS = {(0, 2): 56, (0, 3): 108, (1, 3): -62}
"""How far the middle of an edge lies above the nodes of a cell that it passes by, by the places of its ends."""
COLOURS = {"skip_connect": "#80868b", "nor_conv_1x1": "#3b82f6", "nor_conv_3x3": "#e5484d", "avg_pool_3x3": "#2f9e57"}
LABELS = {"skip_connect": "skip", "nor_conv_1x1": "conv 1x1", "nor_conv_3x3": "conv 3x3", "avg_pool_3x3": "pool 3x3"}
NOTHING = ("skip", "skip_connect", "identity", "none")
"""Options that compute nothing; their boxes are dashed."""

DEEPEST = 200
"""Deeper networks are not drawn block by block."""


def draw(
    architecture: Mapping[str, str], kind: str, *, choices: Choices | None = None, nesting: Nesting | None = None
) -> str:
    """An SVG picture of what an architecture computes.

    Args:
        architecture: choice name -> option name.
        kind: the kind of space: ``nb201``, ``nb101``, ``darts`` and ``wired`` give graphs, a depth a row of blocks,
            ``mlp`` blocks of their widths, and every other kind a box per choice.
        choices: the options on offer; with them unused blocks of a depth are shown, and widths are compared with the
            largest possible one.
        nesting: which choices lie inside of options of other choices, see `RunChoices.described`.
    """
    choices = choices or {}
    if kind == "nb201" and all(edge_name(*edge) in architecture for edge in NB201_EDGES):
        return _cell(architecture)
    graph = {"darts": darts_picture, "nb101": nb101_picture, "wired": wiring_picture}.get(kind)
    if graph is not None and (drawn := graph(architecture, _words(architecture))) is not None:
        return drawn
    depth = _number(architecture.get("depth", ""))
    if depth is not None and depth <= DEEPEST and kind.startswith("depth"):
        return _depth(architecture, choices)
    if depth is not None and kind == "mlp":
        return _widths(architecture, choices)
    running = _running(architecture, nesting)
    if kind == "module":
        return _boxes(running, columns=2, in_order=False)
    return _boxes({name: option for name, option in running.items() if not _left_out(kind, name, option)})


def _left_out(kind: str, layer: str, option: str) -> bool:
    """Whether a layer of a chain computes nothing; some identities of NAS-Bench-Macro are convolutions."""
    if kind == "macro" and layer in MACRO_LAYERS:
        return option == MACRO_FORM.skip and MACRO_FORM.keeps_shape[MACRO_LAYERS.index(layer)]
    return kind == "chain" and option == "skip"


def _running(architecture: Mapping[str, str], nesting: Nesting | None) -> dict[str, str]:
    """The choices without those inside of options that do not run."""
    if nesting is None:
        return dict(architecture)
    waiting, running = list(nesting["outer"]), set[str]()
    while waiting:
        name = waiting.pop()
        if name in architecture and name not in running:
            running.add(name)
            waiting.extend(nesting["inner"].get(name, {}).get(architecture[name], ()))
    return {name: option for name, option in architecture.items() if name in running}


def _cell(architecture: Mapping[str, str]) -> str:
    """The nodes and edges on a way from input to output; edges that pass by a node are arcs."""
    operations = [architecture[edge_name(*edge)] for edge in NB201_EDGES]
    live = live_edges([operation != "none" for operation in operations], True, False, to_output=True)
    edges = {edge: operation for edge, operation, runs in zip(NB201_EDGES, operations, live, strict=True) if runs}
    nodes = sorted({0, 3, *(node for edge in edges for node in edge)})
    rises = {edge: ARCS.get((nodes.index(edge[0]), nodes.index(edge[1])), 0) for edge in edges}
    level = max([0, *rises.values()]) + 30
    below = max([0, *(-rise for rise in rises.values())])
    places = {node: 30 + 420 * position / (len(nodes) - 1) for position, node in enumerate(nodes)}
    parts = []
    for (source, target), operation in edges.items():
        rise = rises[source, target]
        edge = 20 if rise > 0 else -20 if rise < 0 else 0  # arcs leave a node at its top or bottom
        shift = 8 if rise else 22
        x1, x2, y = places[source] + shift, places[target] - shift, level - edge
        middle, control = (x1 + x2) / 2, y - 2 * (rise - edge)
        colour = COLOURS.get(operation, "currentColor")
        parts.append(arrow(f"M{x1:g},{y} Q{middle:g},{control} {x2:g},{y}", colour=colour, dashed=operation in NOTHING))
        parts.append(label(middle, level - rise + (18 if rise < 0 else -8), LABELS.get(operation, operation), 92))
    if not edges:
        parts.append(label(WIDTH / 2, level + 5, "nothing reaches the output", 300, quiet=True))
    for node, x in places.items():
        name = {0: "in", 3: "out"}.get(node, str(node))
        parts.append(f'<circle cx="{x:g}" cy="{level}" r="20" fill="none" stroke="currentColor" stroke-width="1.6"/>')
        parts.append(label(x, level + 5, name, 30))
    shown = {edge_name(*edge): operation for edge, operation in edges.items()}
    return picture(level + 30 + below, parts, _words(shown or architecture))


def _boxes(architecture: Mapping[str, str], columns: int = 4, in_order: bool = True) -> str:
    """One box per choice with its option, row by row, joined by arrows where data pass them in this order."""
    step = (WIDTH - 8) / columns
    width = step - 18
    parts = []
    for index, (choice, option) in enumerate(architecture.items()):
        row, column = divmod(index, columns)
        x, y = 4 + step * column, 6 + 70 * row
        parts.append(box(x, y, width, 52, filled=option not in NOTHING, dashed=option in NOTHING))
        parts.append(label(x + width / 2, y + 21, choice, width - 8, quiet=True))
        parts.append(label(x + width / 2, y + 41, option, width - 8))
        if in_order and column < columns - 1 and index + 1 < len(architecture):
            parts.append(arrow(f"M{x + width:g},{y + 26:g} h16"))
    rows = -(-len(architecture) // columns)
    return picture(max(70 * rows - 6, 10), parts, _words(architecture))


def _depth(architecture: Mapping[str, str], choices: Choices) -> str:
    """A row of numbered blocks, ten in a line; the used ones are filled."""
    used = _number(architecture["depth"]) or 0
    deepest = min(max([used, *(_number(option) or 0 for option in choices.get("depth", ()))]), DEEPEST)
    parts = []
    for index in range(deepest):
        row, column = divmod(index, 10)
        x, y = 4 + 47.5 * column, 6 + 52 * row
        parts.append(box(x, y, 38, 38, filled=index < used, dashed=index >= used))
        parts.append(label(x + 19, y + 24, str(index + 1), 38, quiet=index >= used))
    rows = -(-deepest // 10)
    blocks = f"{used} of {several(deepest, 'block')}" if deepest > used else several(used, "block")
    parts.append(label(WIDTH / 2, 6 + 52 * rows + 14, f"{blocks} used", WIDTH))
    return picture(52 * rows + 30, parts, _words(architecture))


def _widths(architecture: Mapping[str, str], choices: Choices) -> str:
    """The used blocks from top to bottom, each as wide as its option says; other choices follow as boxes."""
    depth = _number(architecture["depth"]) or 0
    blocks = [name for name in architecture if re.fullmatch(r"block\d+", name)]
    options = [option for name in blocks for option in (architecture[name], *choices.get(name, ()))]
    largest = max([_number(option) or 0 for option in options], default=0) or 1
    middle, y = WIDTH / 2, 18.0
    parts = [label(middle, y, "in", 60, quiet=True)]
    for name in blocks[:depth]:
        option = architecture[name]
        width = max(360 * (_number(option) or largest) / largest, 8)
        parts.append(arrow(f"M{middle:g},{y + 6:g} v18"))
        parts.append(box(middle - width / 2, y + 26, width, 34, filled=True))
        if width >= 60:
            parts.append(label(middle, y + 48, option, width - 8))
        else:  # a narrow block has its text beside it
            parts.append(label(middle + width / 2 + 40, y + 48, option, 70))
        parts.append(label(32, y + 48, name, 62, quiet=True))
        y += 62
    parts.append(arrow(f"M{middle:g},{y + 6:g} v18"))
    parts.append(label(middle, y + 42, "out", 60, quiet=True))
    others = [f"{name}: {option}" for name, option in architecture.items() if name not in (*blocks, "depth")]
    for index, words in enumerate(others):
        parts.append(label(middle, y + 68 + 22 * index, words, WIDTH - 8))
    return picture(y + 52 + 22 * len(others), parts, _words(architecture))


def _number(option: str) -> int | None:
    """The number in an option such as ``h64`` or ``3``."""
    digits = re.search(r"[0-9]{1,9}", option)
    return int(digits[0]) if digits else None


def _words(architecture: Mapping[str, str]) -> str:
    return "architecture: " + ", ".join(f"{choice} {option}" for choice, option in architecture.items())
