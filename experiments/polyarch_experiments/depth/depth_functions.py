"""Spirals: the function learned at every depth, and which inputs need depth (figures 3, 7 and 8)."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polyarch.methods.depth.search import choose_depth
from polyarch.predictive import responsibilities
from polyarch.supernets import FullyConnectedDepth
from polyarch_experiments.depth.planes import boundary_length, class_one, picture, plane, update_sizes
from polyarch_experiments.depth.spirals import QUICK, SPIRALS, Problem, fixed, learned, measure, posterior
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec, side_by_side, summary, with_spread
from polyarch_experiments.measures import rank_correlation, spread
from polyarch_experiments.papers import VARIATIONAL_DEPTH
from polyarch_experiments.results import Claim, Finding
from polyarch_experiments.verdict import claim, finding, interval_in_words, over_seeds, paired

RINGS = 6
SMALL = 32
"""The side of pictures of which a figure has many."""
SPIRAL = 0.9
"""The test accuracy from which on a function resembles the spirals."""
GRIDS = {"rotation": "figure_7", "train": "figure_8"}
TITLES = {"rotation": "{} degrees", "train": "{} points"}

Item = tuple[str, float]


def items(settings: Settings) -> dict[str, Item]:
    """Learned and fixed depths for all seeds; for the first seed, other rotations and numbers of points."""
    grids = {f"{name} {value}": (name, value) for name in GRIDS for value in settings[f"{name}s"]}
    return {"learned": ("learned", 0), "fixed": ("fixed", 0), **grids}


def run(settings: Settings, item: Item, folder: Path) -> dict[str, Any]:
    """Trains, and looks at the functions."""
    kind, value = item
    if kind in GRIDS:
        ((one, net, q, _),) = learned({**settings, "seeds": 1, kind: value})
        chosen = posterior(one, net, q)
        pictures = class_one(one, net, settings["shown"], SMALL)
        depths = {"exact": choose_depth(chosen.exact), "learned": choose_depth(q)}
        return {"depths": depths, "pictures": [picture(found) for found in pictures]}
    found = []
    if kind == "learned":
        for one, net, q, history in learned(settings):
            result = measure(one, net, q, history)
            exact = posterior(one, net, q).exact.log_probabilities().exp()
            mixed = exact.float() @ class_one(one, net, range(len(exact)))
            result |= {"rings": _depth_by_radius(one, net, exact), "mixture": picture(mixed)}
            found.append({**result, **_functions(settings, one, net)})
    else:
        found = [_functions(settings, one, net) for one, net, _ in fixed(settings, settings["max_depth"])]
    for result in found[1:]:  # only one seed is drawn
        del result["pictures"]
        result.pop("mixture", None)
    return {"seeds": found}


@torch.no_grad()
def _functions(settings: Settings, one: Problem, net: FullyConnectedDepth) -> dict[str, Any]:
    """Of every depth: boundary, test accuracy and size of its block's update; pictures of some."""
    grids = class_one(one, net, range(len(net.blocks) + 1))
    predicted = net.forward_many(one.inputs, net.space.members).argmax(-1)  # (D+1, N)
    return {
        "changes": [boundary_length(grid) for grid in grids],
        "accuracy": (predicted == one.targets).double().mean(1).tolist(),
        "updates": update_sizes(net, one.inputs),
        "pictures": [picture(grids[depth]) for depth in settings["shown"]],
    }


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
    """Whether boundaries get longer with depth, late layers do little, and the outer turns need more depth."""
    seeds, others = runs["learned"]["seeds"], runs["fixed"]["seeds"]
    correlations = []
    for seed in seeds:
        chosen = seed["learned_depths"]["argmax"]
        correlations.append(rank_correlation(range(chosen + 1), seed["changes"][: chosen + 1]))
    sources = {"learned q": "learned_depths", "exact posterior": "depths"}
    sizes = {source: _late_over_early(seeds, seeds, source) for source in sources.values()}
    same = {source: _late_over_early(others, seeds, source) for source in sources.values()}
    arrival, later = ([_first_spiral(seed) for seed in side] for side in (seeds, others))
    rings = [rank_correlation(range(RINGS), seed["rings"]) for seed in seeds]
    first, last = ([seed["rings"][place] for seed in seeds] for place in (0, -1))
    return [
        claim(
            "The functions become more complex from depth to depth, up to the chosen one.",
            [finding("Spearman of depth and length of the decision boundary", over_seeds(correlations), above=0.8)],
            number=9,
            document="pictures: nearly linear at first, two clean spirals at the chosen depth",
            ours="a rank correlation above 0.8, up to the depth chosen from the learned q",
        ),
        claim(
            "Blocks after the chosen depth are closer to the identity than those of a network of fixed depth.",
            [finding("difference", paired(sizes["learned_depths"], same["learned_depths"]), below=0)]
            if sizes["learned_depths"]
            else [],
            "size of the updates |f(a)| / |a| after the chosen depth over that before it: "
            + "; ".join(_sizes_told(name, sizes[source], same[source]) for name, source in sources.items())
            + f"; last block {spread([seed['updates'][-1] for seed in seeds], 3)} learned depth, "
            f"{spread([seed['updates'][-1] for seed in others], 3)} fixed depth",
            number=9,
            document="layers after the chosen depth learn functions close to the identity",
            ours="a smaller ratio than in the network of fixed depth, where updates shrink with depth, too",
        ),
        claim(
            f"With a learned depth the function resembles a spiral (test accuracy {SPIRAL:.0%}) after fewer blocks.",
            [finding("blocks fewer", paired(later, arrival), above=0)],
            f"first depth with this accuracy: {spread(arrival, 1)} learned, {spread(later, 1)} in a network of fixed "
            f"depth {settings['max_depth']}",
            number=9,
            document="layer 15 of a fixed depth of 20; with a learned depth the first layers do most of the work",
            ours=f"an accuracy of {SPIRAL:.0%}",
        ),
        claim(
            "Some inputs need more depth: E[d given x, y] changes steadily from inner to outer turns.",
            [_steadily(rings)],
            f"mean depth {spread(first, 2)} in the innermost sixth of the test points, {spread(last, 2)} in the "
            "outermost",
            ours="a rank correlation beyond 0.8 or -0.8",
        ),
    ]


def _steadily(rings: list[float]) -> Finding:
    """Whether the rank correlation is strong, in the direction of its mean."""
    rises = statistics.fmean(rings) > 0
    name = "Spearman with the radius"
    return finding(name, over_seeds(rings), above=0.8) if rises else finding(name, over_seeds(rings), below=-0.8)


def _late_over_early(measured: list[dict[str, Any]], seeds: list[dict[str, Any]], source: str) -> list[float]:
    """The mean size of the updates after the depth that ``seeds`` chose over that before it, where both exist."""
    found = []
    for one, seed in zip(measured, seeds, strict=True):
        chosen, updates = seed[source]["argmax"], one["updates"]
        if 0 < chosen < len(updates):
            found.append(statistics.fmean(updates[chosen:]) / statistics.fmean(updates[:chosen]))
    return found


def _sizes_told(name: str, ours: list[float], theirs: list[float]) -> str:
    """In words."""
    if not ours:
        return f"{name}: no block after it"
    difference = interval_in_words(paired(ours, theirs), 2)
    return f"{name} {spread(ours, 2)}, fixed depth {spread(theirs, 2)}, difference {difference}"


def _first_spiral(seed: dict[str, Any]) -> float:
    """The first depth that predicts the spirals; one more than the deepest if none does."""
    reached = (depth for depth, accuracy in enumerate(seed["accuracy"]) if accuracy >= SPIRAL)
    return float(next(reached, len(seed["accuracy"])))


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Pictures of the plane, boundary lengths, sizes of updates, and the depth that inputs need."""
    sides = {"learned depth": runs["learned"]["seeds"], "fixed depth": runs["fixed"]["seeds"]}
    depths = settings["shown"]
    planes = [
        plane(found, f"{name}, block {depth}", size=110)
        for name, seeds in sides.items()
        for depth, found in zip(depths, seeds[0]["pictures"], strict=True)
    ]
    planes.insert(len(depths), plane(sides["learned depth"][0]["mixture"], "learned depth, mixture", size=110))

    def curves(name: str, start: int, title: str) -> Spec:
        rows = [
            {"x": depth + start, "series": side, **summary([seed[name][depth] for seed in seeds])}
            for side, seeds in sides.items()
            for depth in range(len(seeds[0][name]))
        ]
        return with_spread(rows, "block", title, series="")

    rings = [
        {"x": ring + 1, "series": "learned depth", **summary([seed["rings"][ring] for seed in sides["learned depth"]])}
        for ring in range(RINGS)
    ]
    found = {
        "functions": side_by_side(*planes, columns=len(depths) + 1),
        "input_depths": side_by_side(
            curves("changes", 0, "length of the boundary (grid steps)"),
            curves("updates", 1, "size of the update, |f(a)| / |a|"),
            curves("accuracy", 0, "test accuracy"),
            with_spread(rings, "test points from inside (1) to outside (6)", "mean of E[d given x, y]", series=""),
        ),
    }
    for name, figure in GRIDS.items():
        panels = []
        for value in settings[f"{name}s"]:
            one, title = runs[f"{name} {value}"], TITLES[name].format(value)
            panels += [
                plane(text, f"{title}, block {depth}", size=90)
                for depth, text in zip(depths, one["pictures"], strict=True)
            ]
        found[figure] = side_by_side(*panels, columns=len(depths))
    return found


_SHOWN = {"shown": [0, 1, 2, 3, 5, 8, 12, 20], "rotations": [180, 360, 540, 720, 900, 1080]}
DEPTH_FUNCTIONS = Experiment(
    name="depth_functions",
    document=VARIATIONAL_DEPTH,
    claim="The function learned at every depth, as a picture (figures 3, 7 and 8).",
    presets={
        "quick": {**QUICK, "shown": [0, 1, 3, 5], "rotations": [360], "trains": [50]},
        "cpu": {**SPIRALS, **_SHOWN, "trains": [50, 100, 200, 500, 1000]},
        "paper": {**SPIRALS, **_SHOWN, "epochs": 8000, "trains": [50, 100, 200, 300, 400, 500, 1000, 2000]},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)
