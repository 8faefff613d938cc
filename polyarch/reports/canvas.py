"""SVG in small pieces: text that fits its place, boxes, arrows, and the picture around them."""

import re
from collections.abc import Iterable
from html import escape

WIDTH = 480
"""Of every picture: a telephone scales it to three quarters, where 14 pixels are still readable."""
FONT_SIZE = 14
CHARACTER = 7.7
"""About the width of a character in pixels at that size, rounded up."""

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """The text without characters that XML and UTF-8 cannot hold; names are arbitrary text."""
    return _UNPRINTABLE.sub("\ufffd", text)


def shortened(text: str, length: int) -> str:
    """At most so many characters: beginning and end stay, because long names often differ only at the end."""
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}…{text[len(text) - tail :]}"


def label(x: float, y: float, text: str, room: float, *, quiet: bool = False, anchor: str = "middle") -> str:
    """Text at x that takes up no more than ``room`` pixels; the whole text shows under the pointer.

    Args:
        anchor: which part of the text is at x: its ``middle``, its ``start`` or its ``end``.
    """
    text = printable(text)
    opacity = ' opacity="0.7"' if quiet else ""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="currentColor"{opacity}><title>{escape(text)}</title>'
        f"{escape(shortened(text, max(int(room / CHARACTER), 3)))}</text>"
    )


def box(x: float, y: float, width: float, height: float, *, filled: bool = False, dashed: bool = False) -> str:
    """A rounded rectangle; filled ones have a tint that lets text stay readable."""
    fill = 'fill="#4c8df6" fill-opacity="0.22" stroke="#4c8df6"' if filled else 'fill="none" stroke="currentColor"'
    dash = ' stroke-dasharray="5 4" stroke-opacity="0.6"' if dashed else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" {fill} stroke-width="1.4"{dash}/>'


def arrow(path: str, *, colour: str = "currentColor", dashed: bool = False) -> str:
    """A path with a head at its end."""
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<path d="{path}" fill="none" stroke="{escape(colour)}" stroke-width="2"{dash} '
        'marker-end="url(#architecture-arrow)"/>'
    )


def picture(height: float, parts: Iterable[str], words: str) -> str:
    """The whole SVG; ``words`` describe it to screen readers."""
    marker = (
        '<defs><marker id="architecture-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="context-stroke"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img" aria-label="{escape(printable(words))}" '
        f'font-family="system-ui, sans-serif" font-size="{FONT_SIZE}">{marker}{"".join(parts)}</svg>\n'
    )
