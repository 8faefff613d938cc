"""Pictures of kept channels: for every layer with a gate how likely they are, and which ones a draw has."""

from html import escape
from itertools import pairwise

from polyarch.methods.posterior_guided.record import GatedLayer, GuidedRecord
from polyarch.reports.canvas import CHARACTER, WIDTH, box, label, picture, printable
from polyarch.reports.text import SPACE

ROW = 46
BAR = 96
"""The width of the bar that is as full as channels are kept."""
LEFT = BAR + 12
"""Where the strip of channels begins."""
CELL, LEAST_CELL = 14, 4
"""The width of a channel, at most and at least; where there is no room for all, a cell stands for several."""
MOST_CELLS = (WIDTH - LEFT) // LEAST_CELL
LEVELS = 5
"""Shades of cells that stand for several channels: from all dropped to all kept."""
PALE = 0.16
"""The opacity of a dropped channel."""
ONE_COLUMN, TWO_COLUMNS = 8, 40
"""So many layers stand below each other; more are shared out."""


def channel_pictures(record: GuidedRecord) -> list[str]:
    """SVG pictures with a row per layer, in the order of the network: one, or up to three to stand side by side."""
    layers = record.layers
    columns = 1 if len(layers) <= ONE_COLUMN else 2 if len(layers) <= TWO_COLUMNS else 3
    rows = -(-len(layers) // columns)
    found = []
    for start in range(0, len(layers), rows):
        shown = layers[start : start + rows]
        parts = [_row(layer, ROW * place, record.uses(layer)) for place, layer in enumerate(shown)]
        words = (
            f"kept channels of layers {start + 1} to {start + len(shown)} of {len(layers)}; they are in a table, too"
        )
        found.append(picture(ROW * len(shown), parts, words))
    return found


def kept_text(layer: GatedLayer, used: bool) -> str:
    """What the best draw keeps of a layer, as a word or a share."""
    if not used:
        return "unused"
    if "1" not in layer.kept:
        return "dropped"
    rounded = round(100 * layer.share)
    if rounded == 0 or (rounded == 100 and "0" in layer.kept):
        return f"{'<' if rounded == 0 else '>'}{SPACE}{abs(rounded - 1)}{SPACE}%"
    return f"{rounded}{SPACE}%"


def probability(drop: float) -> str:
    """With two digits; 0 and 1 are never reached."""
    return f"<{SPACE}0.01" if drop < 0.005 else f">{SPACE}0.99" if drop >= 0.995 else f"{drop:.2f}"


def cells(kept: str, most: int = MOST_CELLS) -> list[float]:
    """The share of kept channels in every cell, from the first channel to the last; few have a cell each."""
    count = min(len(kept), most)
    ends = [round(place * len(kept) / count) for place in range(count + 1)]
    parts = [kept[start:end] for start, end in pairwise(ends)]
    return [part.count("1") / len(part) for part in parts]


def _row(layer: GatedLayer, top: float, used: bool) -> str:
    """Name and numbers, and below them the bar and the strip."""
    numbers = f"K {len(layer.kept)} · p {probability(layer.drop)} · {kept_text(layer, used)}"
    has_none = not used or "1" not in layer.kept
    left, level = (16 if layer.side == "output" else 0), top + 22
    name = label(
        left, top + 14, layer.name, WIDTH - left - CHARACTER * (len(numbers) + 1), quiet=has_none, anchor="start"
    )
    ring = f'<circle cx="6" cy="{top + 9:g}" r="4.5" fill="none" stroke="currentColor" stroke-width="1.8"/>'
    kept = layer.kept if used else "0" * len(layer.kept)
    parts = [
        f"<g><title>{escape(printable(layer.name))}: {kept.count('1')} of {len(kept)} channels kept</title>",
        *([ring] if left else []),
        name,
        label(WIDTH, top + 14, numbers, WIDTH, quiet=has_none, anchor="end"),
        _bar(layer.drop, kept.count("1") / len(kept), level),
        *_strip(kept, level),
        *([box(LEFT - 3, level - 3, _length(kept) + 6, 16, dashed=True)] if has_none else []),
        "</g>",
    ]
    return "".join(parts)


def _bar(drop: float, share: float, level: float) -> str:
    """As full as channels are kept; a line shows what the posterior expects."""
    expected = min(max(BAR * (1 - drop), 1), BAR - 1)  # the line is inside of the bar at either end
    return (
        f'<rect x="0" y="{level:g}" width="{BAR}" height="10" fill="currentColor" fill-opacity="0.12"/>'
        f'<rect x="0" y="{level:g}" width="{BAR * share:.4g}" height="10" fill="currentColor" fill-opacity="0.5"/>'
        f'<path d="M{expected:.4g},{level - 3:g} v16" stroke="currentColor" stroke-width="2"/>'
    )


def _strip(kept: str, level: float) -> list[str]:
    """The channels from the first to the last: a path for every shade, made of thick short lines."""
    shares = cells(kept)
    step = _length(kept) / len(shares)
    width = step - 1 if len(shares) == len(kept) else step  # single channels stand apart
    places: dict[int, list[str]] = {}
    for place, share in enumerate(shares):
        places.setdefault(_shade(share), []).append(f"M{LEFT + step * place:.5g} {level + 5:g}h{width:.4g}")
    return [
        f'<path d="{"".join(path)}" stroke="#4c8df6" stroke-width="10" '
        f'stroke-opacity="{PALE + (1 - PALE) * shade / (LEVELS - 1):.3g}" fill="none"/>'
        for shade, path in sorted(places.items())
    ]


def _shade(share: float) -> int:
    """The first shade is nothing kept, the last everything."""
    return round(share) * (LEVELS - 1) if share in (0, 1) else min(max(round(share * (LEVELS - 1)), 1), LEVELS - 2)


def _length(kept: str) -> float:
    """Of the strip: layers with few channels have a short one."""
    return min(CELL * len(kept), WIDTH - LEFT - 4)
