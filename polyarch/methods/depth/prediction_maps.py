"""Maps of what is predicted at every depth, for data of two numbers: class as colour, confidence as strength.

A map is a small PNG inside an SVG. Its strength is transparency, so that it suits light and dark pages. Training
examples are drawn once and shared by all maps.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

from markupsafe import Markup
from PIL import Image

from polyarch.methods.depth.record import DepthFunctions, DepthRecord
from polyarch.reports.specs import evenly

COLOURS = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6"),
    *("#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"),
)
"""Petroff (2021), Accessible Color Sequences for Data Visualization, arXiv:2107.02270; more classes start again."""
LEVELS = 16
"""Of strength: ten colours with sixteen each fit into the palette of a PNG."""
WEAKEST, STRONGEST = 0.1, 0.8
"""The opacity of a guess and of certainty."""
MOST_MAPS = 24


@dataclass(frozen=True)
class PredictionMap:
    """The picture of one depth."""

    depth: int
    q: float | None
    is_chosen: bool
    picture: Markup


def prediction_maps(record: DepthRecord, classes: int) -> list[PredictionMap]:
    """Maps of all depths, or of an even selection of many; none for data other than two numbers."""
    functions = record.functions
    if functions is None:
        return []
    q = {one.depth: one.q for one in record.depths}
    return [
        PredictionMap(depth, q.get(depth), depth == record.chosen, _picture(functions, index, classes))
        for index, depth in selected(functions.depths, record.chosen)
    ]


def selected(depths: Sequence[int], chosen: int) -> list[tuple[int, int]]:
    """Positions and depths of an even selection with the first, the last and the chosen one."""
    kept = evenly(len(depths), MOST_MAPS)
    position = depths.index(chosen)
    if position not in kept:  # then it lies between two of the inner ones, or between one of them and an end
        nearest = min(kept[1:-1], key=lambda index: abs(index - position))
        kept[kept.index(nearest)] = position
    return [(index, depths[index]) for index in kept]


def colour_of(index: int) -> str:
    """The colour of a class."""
    return COLOURS[index % len(COLOURS)]


def _picture(functions: DepthFunctions, index: int, classes: int) -> Markup:
    side = functions.side
    encoded = b64encode(_png(functions, index, classes)).decode()
    name = f"what is predicted at depth {functions.depths[index]}"
    return Markup(
        f'<svg viewBox="0 0 {side} {side}" role="img" aria-label="{name}">'
        f'<image href="data:image/png;base64,{encoded}" width="{side}" height="{side}"/>'
        '<use href="#training-points"/></svg>'
    )


def _png(functions: DepthFunctions, index: int, classes: int) -> bytes:
    """A byte per grid point, ``LEVELS`` times the colour plus the level, and the palette of these bytes."""
    most_probable, confidence = b64decode(functions.classes[index]), b64decode(functions.confidence[index])
    pixels = bytes(
        (label % len(COLOURS)) * LEVELS + value * LEVELS // 256
        for label, value in zip(most_probable, confidence, strict=True)
    )
    side = functions.side
    rows = [pixels[start : start + side] for start in range(0, side * side, side)]
    picture = Image.frombytes("P", (side, side), b"".join(reversed(rows)))  # pictures begin at the top
    picture.putpalette(b"".join(bytes.fromhex(colour[1:]) * LEVELS for colour in COLOURS))
    target = BytesIO()
    picture.save(target, "PNG", transparency=bytes(_opacities(classes)) * len(COLOURS))
    return target.getvalue()


def _opacities(classes: int) -> Iterator[int]:
    """Of every level: the most probable of C classes has at least a probability of 1/C."""
    least = 1 / max(classes, 2)
    for level in range(LEVELS):
        share = max((level / (LEVELS - 1) - least) / (1 - least), 0.0)
        yield round(255 * (WEAKEST + (STRONGEST - WEAKEST) * share))


def training_points(functions: DepthFunctions) -> Markup:
    """Training examples, as a definition that the maps refer to.

    Dots are lines of no length with round ends: one path for all rims, one per class on top of them.
    """
    side = functions.side
    shown = [functions.points[index] for index in evenly(len(functions.points))]
    places = [
        (_place(x, functions.x_range, side), side - _place(y, functions.y_range, side), label) for x, y, label in shown
    ]

    def dots(labels: set[int]) -> str:
        return "".join(f"M{x:.1f} {y:.1f}h0" for x, y, label in places if label in labels)

    labels = {label for _, _, label in places}
    parts = [f'<path class="rim" d="{dots(labels)}" stroke-width="{0.034 * side:g}"/>']
    parts += [
        f'<path d="{dots({label})}" stroke="{colour_of(label)}" stroke-width="{0.024 * side:g}"/>'
        for label in sorted(labels)
    ]
    return Markup(
        f'<svg class="shared" aria-hidden="true"><defs><g id="training-points" stroke-linecap="round">{"".join(parts)}'
        "</g></defs></svg>"
    )


def _place(value: float, ends: tuple[float, float], side: int) -> float:
    """Grid points lie in the middle of their pixels."""
    return 0.5 + (side - 1) * (value - ends[0]) / (ends[1] - ends[0])
