"""Functions over the plane: what a network predicts at every depth, as pictures, and what every block changes."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import torch
from torch import Tensor

from polyarch.methods.depth.functions import as_text
from polyarch.supernets import FullyConnectedDepth
from polyarch_experiments.depth.spirals import Problem
from polyarch_experiments.figures import Spec

SIDE = 48
REACH = 1.15
"""Of the largest coordinate of a training point, to every side of the picture."""


@torch.no_grad()
def class_one(one: Problem, net: FullyConnectedDepth, depths: Sequence[int], side: int = SIDE) -> Tensor:
    """p(class 1) on a square grid over the plane, row by row from the lowest y upwards: (depths, side * side)."""
    reach = float(one.examples.inputs.abs().max()) * REACH
    line = torch.linspace(-reach, reach, side)
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    points = one.normalisation(torch.stack([columns.flatten(), rows.flatten()], 1))
    logits = net.forward_many(points, [net.space.members[depth] for depth in depths])
    return logits.softmax(-1)[..., 1]


def picture(probabilities: Tensor) -> str:
    """Probabilities (side * side,) in percent as text."""
    return as_text((100 * probabilities).round())


def percent(text: str) -> list[int]:
    """The values of a picture."""
    return list(base64.b64decode(text))


def boundary_length(probabilities: Tensor) -> int:
    """How often the more probable class changes between neighbours on the grid."""
    side = round(len(probabilities) ** 0.5)
    grid = probabilities.view(side, side) >= 0.5
    return int((grid[1:] != grid[:-1]).sum() + (grid[:, 1:] != grid[:, :-1]).sum())


@torch.no_grad()
def update_sizes(net: FullyConnectedDepth, inputs: Tensor) -> list[float]:
    """mean_n |f_i(a_{i-1})| / |a_{i-1}| of every block i = 1..D over inputs (N, ...): 0 for the identity."""
    a, found = net.stem(inputs), []
    for block in net.blocks:
        update = block(a)
        found.append(float((update.norm(dim=1) / a.norm(dim=1)).mean()))
        a = a + update
    return found


def plane(text: str, title: str, *, size: int = 150) -> Spec:
    """A picture as a figure."""
    shown = percent(text)
    side = round(len(shown) ** 0.5)
    rows = [{"x": index % side, "y": index // side, "p": value} for index, value in enumerate(shown)]
    axis = {"type": "ordinal", "axis": None}
    colour = {
        "field": "p",
        "type": "quantitative",
        "scale": {"scheme": "blueorange", "domain": [0, 100]},
        "legend": None,
    }
    return {
        "data": {"values": rows},
        "title": {"text": title, "fontSize": 11},
        "width": size,
        "height": size,
        "mark": {"type": "rect", "strokeWidth": 1},  # a line of the same colour hides the seams
        "encoding": {
            "x": {"field": "x", **axis},
            "y": {"field": "y", **axis, "sort": "descending"},
            "color": colour,
            "stroke": colour,
        },
    }
