"""Small SVG plots without a plotting library: a curve, points, and means with spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 14, 46
FONT = 'font-family="system-ui, sans-serif" font-size="12" fill="currentColor"'


@dataclass(frozen=True)
class Series:
    """A named line of points (x, y)."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str


@dataclass(frozen=True)
class Point:
    """A point with words that show when the pointer rests on it."""

    x: float
    y: float
    title: str
    highlighted: bool = False


def curve(series: Sequence[Series], *, x_label: str, y_label: str) -> str:
    """Lines over a common axis, with a legend."""
    axis = _Axis([p for line in series for p in line.points], x_label, y_label)
    parts = []
    for index, line in enumerate(series):
        path = " ".join(f"{axis.x(x):.1f},{axis.y(y):.1f}" for x, y in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="1.8"/>')
        x = LEFT + 10 + 170 * index
        parts.append(f'<path d="M{x},{TOP + 4} h18" stroke="{line.colour}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 24}" y="{TOP + 8}" {FONT}>{escape(line.name)}</text>')
    return axis.svg(parts)


def scatter(points: Sequence[Point], *, x_label: str, y_label: str) -> str:
    """Points; highlighted ones are larger and drawn last."""
    axis = _Axis([(p.x, p.y) for p in points], x_label, y_label)
    parts = []
    for point in sorted(points, key=lambda p: p.highlighted):
        radius, colour = (6, "#c5221f") if point.highlighted else (3.6, "#1a73e8")
        parts.append(
            f'<circle cx="{axis.x(point.x):.1f}" cy="{axis.y(point.y):.1f}" r="{radius}" fill="{colour}" '
            f'fill-opacity="0.75"><title>{escape(point.title)}</title></circle>'
        )
    return axis.svg(parts)


class _Axis:
    """Linear axes with a few round ticks around the given points."""

    def __init__(self, points: Sequence[tuple[float, float]], x_label: str, y_label: str) -> None:
        self._x_range = _padded([x for x, _ in points])
        self._y_range = _padded([y for _, y in points])
        self._labels = (x_label, y_label)

    def x(self, value: float) -> float:
        low, high = self._x_range
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y_range
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def svg(self, parts: Sequence[str]) -> str:
        frame = [
            f'<path d="M{self.x(value):.1f},{TOP} V{HEIGHT - BOTTOM}" stroke="currentColor" opacity="0.12"/>'
            f'<text x="{self.x(value):.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle" {FONT}>'
            f"{_text(value)}</text>"
            for value in _ticks(*self._x_range)
        ]
        frame += [
            f'<path d="M{LEFT},{self.y(value):.1f} H{WIDTH - RIGHT}" stroke="currentColor" opacity="0.12"/>'
            f'<text x="{LEFT - 7}" y="{self.y(value) + 4:.1f}" text-anchor="end" {FONT}>{_text(value)}</text>'
            for value in _ticks(*self._y_range)
        ]
        x_label, y_label = (escape(label) for label in self._labels)
        middle = (LEFT + WIDTH - RIGHT) / 2
        frame.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle" {FONT}>{x_label}</text>')
        frame.append(
            f'<text transform="translate(13,{(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle" {FONT}>'
            f"{y_label}</text>"
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{y_label} over {x_label}">{"".join(frame)}{"".join(parts)}</svg>'
        )


def _padded(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def _ticks(low: float, high: float) -> list[float]:
    """About five round values inside the range."""
    rough = (high - low) / 5
    power = 10.0 ** len(str(int(rough))) if rough >= 1 else 1.0
    while power > rough:
        power /= 10
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = int(low // step) + 1
    return [round(step * index, 10) for index in range(first, int(high // step) + 1)]


def _text(value: float) -> str:
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{suffix}"
    return f"{value:g}"
