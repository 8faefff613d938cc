"""Published differentiable searches: a gradient of q, a way to weigh options, and what surrounds them.

A method is a `Recipe`, one line in `RECIPES`. Any gradient goes with any parametrisation. DARTS: Liu et al. (2019),
arXiv:1806.09055. DrNAS: Chen et al. (2021), arXiv:2006.10355. GDAS: Dong and Yang (2019), arXiv:1910.04465. SNAS: Xie
et al. (2019), arXiv:1812.09926. PC-DARTS: Xu et al. (2020), arXiv:1907.05737. P-DARTS: Chen et al. (2019),
arXiv:1904.12760. Sums of training losses: the thesis behind `polyarch.methods.one_shot.strategies`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from polyarch.distributions import ArchDistribution, FactorisedCategorical, FactorisedDirichlet
from polyarch.strategies import (
    Bilevel,
    HeldOutLoss,
    Hypergradient,
    LossSum,
    MixedSupernet,
    UnrolledLoss,
    UnrolledLossSum,
    Weighing,
)
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import Supernet, relaxation_of
from polyarch.tasks import Task

GradientName = Literal["first_order", "second_order", "second_order_difference", "sotl", "sotl_exact", "sovl"]
Parametrisation = Literal["softmax", "dirichlet", "gumbel", "gumbel_hard"]

SOTL_STEPS = 100
Q_RATE = 3e-4
Q_DECAY = 1e-3
TEMPERATURES: dict[Parametrisation, tuple[float, float]] = {"gumbel": (1.0, 0.03), "gumbel_hard": (10.0, 0.1)}
"""Of relaxed draws, at the start and at the end: those of SNAS and GDAS."""
DIRICHLET_PENALTY = 1e-3

WEIGHINGS: dict[Parametrisation, Weighing] = {
    "softmax": "mean",
    "dirichlet": "soft",
    "gumbel": "soft",
    "gumbel_hard": "chosen",
}


@dataclass(frozen=True)
class ProgressiveStage:
    """One stage of a progressive search.

    Args:
        depth: cells of the supernet in this stage: the layers of DARTS, the cells per stage of NAS-Bench-201. ``None``
            leaves the depth as it is.
        options: how many options a choice has left at its end, at most.
        skip_dropout: the probability with which the outputs of skip connections are dropped at its start; it fades.
    """

    depth: int | None
    options: int
    skip_dropout: float


@dataclass(frozen=True)
class Recipe:
    """What makes a method.

    Args:
        partial: an operation sees one of this many parts of the channels, and edges have weights of their own where
            they are selected (PC-DARTS).
        progressive: stages in which the network gets deeper and options fewer, and a limit on skips (P-DARTS).
        depth: layers of the supernet, if the method asks for a number of them.
    """

    gradient: GradientName = "first_order"
    parametrisation: Parametrisation = "softmax"
    partial: int = 1
    progressive: bool = False
    depth: int | None = None


DifferentiableMethod = Literal[
    "darts", "darts-second-order", "darts-20", "sotl-darts", "sotl-darts-20", "sovl-darts", "drnas", "sotl-drnas",
    "gdas", "snas", "pc-darts", "pdarts", "sotl-pdarts",
]  # fmt: skip

RECIPES: dict[DifferentiableMethod, Recipe] = {
    "darts": Recipe(),
    "darts-second-order": Recipe("second_order"),
    "darts-20": Recipe(depth=20),
    "sotl-darts": Recipe("sotl"),
    "sotl-darts-20": Recipe("sotl", depth=20),
    "sovl-darts": Recipe("sovl"),
    "drnas": Recipe(parametrisation="dirichlet"),
    "sotl-drnas": Recipe("sotl", "dirichlet"),
    "gdas": Recipe(parametrisation="gumbel_hard"),
    "snas": Recipe(parametrisation="gumbel"),
    "pc-darts": Recipe(partial=4),
    "pdarts": Recipe(progressive=True),
    "sotl-pdarts": Recipe("sotl", progressive=True),
}


def hypergradient(name: GradientName, *, steps: int = SOTL_STEPS, repeat: bool = True) -> Hypergradient:
    """A gradient of q by name.

    Args:
        steps: T of the sums of losses.
        repeat: whether their T steps are repeated with the new architecture.
    """
    match name:
        case "first_order":
            return HeldOutLoss()
        case "second_order":
            return UnrolledLoss()
        case "second_order_difference":
            return UnrolledLoss(form="difference")
        case "sotl":
            return LossSum(steps, repeat=repeat)
        case "sovl":
            return LossSum(steps, on="held_out", repeat=repeat)
        case "sotl_exact":
            return UnrolledLossSum(steps)


def mixed_supernet(
    net: Supernet, parametrisation: Parametrisation, *, weigh_edges: bool = False, task: Task = CLASSES
) -> MixedSupernet:
    """The supernet with a new q, uniform at the start."""
    relaxation = relaxation_of(net, weigh_edges=weigh_edges)
    q: ArchDistribution = (
        FactorisedDirichlet(relaxation.space)
        if parametrisation == "dirichlet"
        else FactorisedCategorical(relaxation.space)
    )
    device = next(net.parameters()).device
    temperature, _ = TEMPERATURES.get(parametrisation, (1.0, 1.0))
    return MixedSupernet(relaxation, q.to(device), WEIGHINGS[parametrisation], temperature, task)


def bilevel(
    mixed: MixedSupernet,
    optimizer: torch.optim.SGD,
    gradient: Hypergradient,
    *,
    q_rate: float = Q_RATE,
    q_decay: float = Q_DECAY,
) -> Bilevel:
    """The strategy: Adam for q as in DARTS; a Dirichlet is drawn to the uniform one instead of having its decay."""
    regulariser: Callable[[], Tensor] | None = None
    if isinstance(mixed.q, FactorisedDirichlet):
        regulariser, q_decay = partial(_penalty, mixed.q), 0.0
    q_optimizer = torch.optim.Adam(mixed.q.parameters(), lr=q_rate, betas=(0.5, 0.999), weight_decay=q_decay)
    return Bilevel(mixed, optimizer, q_optimizer, gradient=gradient, regulariser=regulariser)


def differentiable_search(
    name: DifferentiableMethod,
    net: Supernet,
    optimizer: torch.optim.SGD,
    *,
    steps: int = SOTL_STEPS,
    task: Task = CLASSES,
    q_rate: float = Q_RATE,
) -> Bilevel:
    """A method by its name, for a supernet and the optimiser of its weights.

    Progressive methods are several of these one after the other; `polyarch search` runs them.
    """
    recipe = RECIPES[name]
    mixed = mixed_supernet(net, recipe.parametrisation, weigh_edges=recipe.partial > 1, task=task)
    return bilevel(mixed, optimizer, hypergradient(recipe.gradient, steps=steps), q_rate=q_rate)


def _penalty(q: FactorisedDirichlet) -> Tensor:
    return DIRICHLET_PENALTY * q.penalty()
