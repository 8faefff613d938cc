"""Pictures of wirings: the modules of every stage in a row, with arcs for what they read beside the one before."""

import re
from collections.abc import Mapping

from polyarch.reports.canvas import WIDTH, label, picture

MOST_MODULES, MOST_STAGES = 64, 16
"""Larger ones are not drawn as graphs."""

LEFT = 76
"""Room for the name of the stage."""


def wiring_picture(architecture: Mapping[str, str], words: str) -> str | None:
    """A row per stage, its input on the left. None for other choices."""
    edges = [re.fullmatch(r"stage([0-9]{1,2})_([0-9]{1,2})->([0-9]{1,2})", name) for name in architecture]
    known = [tuple(map(int, edge.groups())) for edge in edges if edge is not None]
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
            f'<path d="M{places[0]:g},{level:g} H{places[-1]:g}" stroke="currentColor" stroke-opacity="0.6" '
            'stroke-width="2" fill="none"/>'
        )
        for (at, source, target), option in zip(known, architecture.values(), strict=True):
            if at == stage and option == "on":
                rise = 2 * highest * (target - source) / modules  # of the control point: the arc goes half as high
                x1, x2 = places[source], places[target]
                parts.append(
                    f'<path d="M{x1:g},{level:g} Q{(x1 + x2) / 2:g},{level - rise:g} {x2:g},{level:g}" '
                    'stroke="#4c8df6" stroke-width="2.2" fill="none"/>'
                )
        for node, x in enumerate(places):
            fill = "currentColor" if node else "none"  # the input of a stage is no module
            parts.append(
                f'<circle cx="{x:g}" cy="{level:g}" r="{radius:g}" fill="{fill}" stroke="currentColor" '
                'stroke-width="1.6"/>'
            )
    return picture((highest + 36) * stages, parts, words)
