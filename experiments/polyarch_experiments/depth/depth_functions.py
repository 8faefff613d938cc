"""Spirals: the function learned at every depth, and which inputs need depth (figures 3, 7 and 8)."""

from __future__ import annotations

import base64
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polyarch.methods.depth.functions import as_text
from polyarch.methods.depth.search import DepthTraining, choose_depth
from polyarch.predictive import responsibilities
from polyarch.supernets import FullyConnectedDepth
from polyarch_experiments.depth.side_by_side import train_together
from polyarch_experiments.depth.spirals import QUICK, SPIRALS, Problem, learned, measure, network, problem
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec, side_by_side, summary, with_spread
from polyarch_experiments.measures import rank_correlation, spread
from polyarch_experiments.papers import VARIATIONAL_DEPTH
from polyarch_experiments.results import Claim

SIDE = 48
REACH = 1.15
"""Of the largest coordinate of a training point, to every side of the picture."""
RINGS = 6


def items(settings: Settings) -> dict[str, int | None]:
    """The learned depth for all seeds, and fixed depths for the first."""
    return {"learned": None, **{f"depth {depth}": depth for depth in settings["fixed_depths"]}}


def run(settings: Settings, depth: int | None, folder: Path) -> dict[str, Any]:
    """Trains, and looks at the functions."""
    if depth is not None:
        one = problem(settings, 0)
        fixed = DepthTraining(epochs=settings["epochs"], patience=settings["patience"])
        ((net, _),) = train_together(fixed, [network(settings, 0, depth, depth)], [one.train], seed=0)
        return {"picture": _pictures(one, net.eval(), [depth])[0]}
    found = []
    for seed, (one, net, q, history) in enumerate(learned(settings)):
        everything = range(settings["max_depth"] + 1)
        result = {
            **measure(one, net, q, history),
            "changes": [_changes(picture) for picture in _pictures(one, net, everything)],
            "rings": _depth_by_radius(one, net, q.log_probabilities().detach().exp()),
        }
        if seed == 0:
            shown = sorted({round(index * choose_depth(q) / 5) for index in range(6)} | {settings["max_depth"]})
            result["pictures"] = dict(zip(map(str, shown), _pictures(one, net, shown), strict=True))
        found.append(result)
    return {"seeds": found}


@torch.no_grad()
def _pictures(one: Problem, net: FullyConnectedDepth, depths: Iterable[int]) -> list[str]:
    """p(class 1) in percent on a grid over the plane, row by row from the lowest y upwards, at every depth, as text."""
    reach = float(one.examples.inputs.abs().max()) * REACH
    line = torch.linspace(-reach, reach, SIDE)
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    points = one.normalisation(torch.stack([columns.flatten(), rows.flatten()], 1))
    logits = net.forward_many(points, [net.space.members[depth] for depth in depths])
    return [as_text((100 * p).round()) for p in logits.softmax(-1)[..., 1]]


def _percent(picture: str) -> list[int]:
    return list(base64.b64decode(picture))


def _changes(picture: str) -> int:
    """How often the more probable class changes between neighbours on the grid: the length of the boundary."""
    grid = torch.tensor(_percent(picture)).view(SIDE, SIDE) >= 50
    return int((grid[1:] != grid[:-1]).sum() + (grid[:, 1:] != grid[:, :-1]).sum())


@torch.no_grad()
def _depth_by_radius(one: Problem, net: FullyConnectedDepth, q: Tensor) -> list[float]:
    """The mean of E[d | x, y] over the test points of every ring around the centre, from inside to outside."""
    logits = net.forward_many(one.inputs, net.space.members)
    depths = torch.arange(len(q), dtype=torch.float64)
    expected = depths @ responsibilities(logits, one.targets, q)  # (N,)
    radius = one.inputs.norm(dim=1)
    order = radius.argsort()
    return [float(expected[part].mean()) for part in order.chunk(RINGS)]


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Whether boundaries get longer with depth, and whether the outer turns need more of it."""
    seeds = runs["learned"]["seeds"]
    correlations = []
    for seed in seeds:
        chosen = seed["depths"]["argmax"]
        correlations.append(rank_correlation(range(chosen + 1), seed["changes"][: chosen + 1]))
    rings = [rank_correlation(range(RINGS), seed["rings"]) for seed in seeds]
    first, last = ([seed["rings"][place] for seed in seeds] for place in (0, -1))
    return [
        Claim(
            number=9,
            text="The functions become more complex from depth to depth, up to the chosen one.",
            supported=statistics.fmean(correlations) >= 0.8,
            numbers=f"Spearman of depth and length of the decision boundary {spread(correlations, 2)}",
            document="pictures: nearly linear at first, two clean spirals at the chosen depth",
        ),
        Claim(
            text="Some inputs need more depth: E[d given x, y] changes steadily from inner to outer turns.",
            supported=abs(statistics.fmean(rings)) >= 0.8,
            numbers=f"mean depth {spread(first, 2)} in the innermost sixth of the test points, {spread(last, 2)} in "
            f"the outermost; Spearman with the radius {spread(rings, 2)}",
        ),
    ]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Pictures of the plane, boundary lengths, and the depth that inputs need."""
    seeds = runs["learned"]["seeds"]
    pictures = {f"learned, depth {depth}": found for depth, found in seeds[0]["pictures"].items()}
    pictures |= {f"fixed depth {depth}": runs[f"depth {depth}"]["picture"] for depth in settings["fixed_depths"]}
    changes = [
        {"x": depth, **summary([seed["changes"][depth] for seed in seeds])}
        for depth in range(settings["max_depth"] + 1)
    ]
    rings = [{"x": ring + 1, **summary([seed["rings"][ring] for seed in seeds])} for ring in range(RINGS)]
    return {
        "functions": side_by_side(*(_plane(found, name) for name, found in pictures.items()), columns=5),
        "input_depths": side_by_side(
            with_spread(changes, "depth", "length of the boundary (grid steps)"),
            with_spread(rings, "test points from inside (1) to outside (6)", "mean of E[d given x, y]"),
        ),
    }


def _plane(picture: str, title: str) -> Spec:
    rows = [{"x": index % SIDE, "y": index // SIDE, "p": value} for index, value in enumerate(_percent(picture))]
    axis = {"type": "ordinal", "axis": None}
    colour = {
        "field": "p",
        "type": "quantitative",
        "scale": {"scheme": "blueorange", "domain": [0, 100]},
        "legend": None,
    }
    return {
        "data": {"values": rows},
        "title": title,
        "width": 150,
        "height": 150,
        "mark": {"type": "rect", "strokeWidth": 1},  # a line of the same colour hides the seams
        "encoding": {
            "x": {"field": "x", **axis},
            "y": {"field": "y", **axis, "sort": "descending"},
            "color": colour,
            "stroke": colour,
        },
    }


DEPTH_FUNCTIONS = Experiment(
    name="depth_functions",
    document=VARIATIONAL_DEPTH,
    claim="The function learned at every depth, as a picture (figures 3, 7 and 8).",
    presets={
        "quick": {**QUICK, "fixed_depths": [1, 5]},
        "cpu": {**SPIRALS, "fixed_depths": [2, 9, 20]},
        "paper": {**SPIRALS, "max_depth": 50, "epochs": 100_000, "fixed_depths": [2, 9, 20, 50]},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)
