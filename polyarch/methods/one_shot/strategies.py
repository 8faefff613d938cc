"""Published ways to train a supernet by sampled paths: a path sampler, an inner loop and an outer update each.

==========================  ==================  =============================  ======================
method                      paths of a step     what a path asks for           outer update
==========================  ==================  =============================  ======================
`spos`                      1 uniform           its gradient                   ``optimizer``
`fairnas`                   every option once   its gradient                   ``optimizer``
`multi_path`                k uniform           its gradient                   ``optimizer``
`reptile`                   1 uniform           w - w_T after T inner steps    w <- w + r (w_T - w)
`meta_prox`                 1 uniform           the same, held at w            the same
`multi_path_meta_prox`      k uniform           the same, held at w            w <- w + r mean(w_T - w)
==========================  ==================  =============================  ======================

``optimizer`` holds the weights of the supernet, and a schedule sets its rate. Where there are inner steps, it takes
those; the outer rate r stays as it is.

SPOS: Guo et al. (2020), arXiv:1904.00420. FairNAS: Chu et al. (2021), arXiv:1907.01845. Reptile: Nichol et al. (2018),
arXiv:1803.02999. MultiPath and MetaProx: "Improving weight-sharing Neural Architecture Search with a marginal
likelihood estimator", a thesis.
"""

from typing import Any

import torch

from polyarch.distributions import ArchDistribution, Uniform
from polyarch.runs.sections import TrainSettings
from polyarch.strategies import FairPaths, InnerSteps, OneShot, RandomPaths
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import Supernet
from polyarch.tasks import Task

DEFAULTS = TrainSettings()
"""lambda of MetaProx is `CODE_PROXIMAL`; the thesis says `THESIS_PROXIMAL`. With plain SGD of rate eta every inner step
first shrinks what the steps before have moved by the factor 1 - eta lambda: at a rate of 0.1, a lambda of 10 leaves
nothing of it."""


def spos(net: Supernet, optimizer: torch.optim.Optimizer, **options: Any) -> OneShot:
    """Single-path one-shot: `multi_path` with one path per batch."""
    return multi_path(net, optimizer, count=1, **options)


def fairnas(net: Supernet, optimizer: torch.optim.Optimizer, *, task: Task = CLASSES) -> OneShot:
    """FairNAS: |O| paths per batch that use every option of every choice once, then one step."""
    return OneShot(net, optimizer, paths=FairPaths(net.space), task=task)


def multi_path(
    net: Supernet,
    optimizer: torch.optim.Optimizer,
    *,
    count: int = DEFAULTS.paths,
    q: ArchDistribution | None = None,
    task: Task = CLASSES,
) -> OneShot:
    """MultiPath: the mean gradient of k random paths per batch."""
    return OneShot(net, optimizer, paths=_random(net, q, count), task=task)


def reptile(net: Supernet, optimizer: torch.optim.Optimizer, **options: Any) -> OneShot:
    """Reptile: T steps of ``optimizer`` on one path and one batch, then w <- w + outer_rate (w_T - w).

    The options are those of `multi_path_meta_prox`.
    """
    return multi_path_meta_prox(net, optimizer, count=1, proximal=0.0, **options)


def meta_prox(net: Supernet, optimizer: torch.optim.Optimizer, **options: Any) -> OneShot:
    """MetaProx: Reptile whose inner steps minimise loss + proximal / 2 ||w_t - w||^2; see `multi_path_meta_prox`."""
    return multi_path_meta_prox(net, optimizer, count=1, **options)


def multi_path_meta_prox(
    net: Supernet,
    optimizer: torch.optim.Optimizer,
    *,
    count: int = DEFAULTS.paths,
    steps: int = DEFAULTS.inner_steps,
    proximal: float = DEFAULTS.proximal,
    outer_rate: float = DEFAULTS.outer_rate,
    same_batch: bool = DEFAULTS.same_batch,
    q: ArchDistribution | None = None,
    task: Task = CLASSES,
) -> OneShot:
    """MetaProx on k paths that start from the same w and see the same batches: w <- w + outer_rate mean(w_T - w).

    Args:
        count: k.
        steps: T.
        proximal: lambda, e.g. `THESIS_PROXIMAL` or `CODE_PROXIMAL`.
        same_batch: whether the T steps are on one batch; else each is on a batch of its own.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    return OneShot(
        net,
        torch.optim.SGD(weights, lr=outer_rate, foreach=True),
        paths=_random(net, q, count),
        inner=InnerSteps(optimizer, steps=steps, proximal=proximal, same_batch=same_batch),
        task=task,
    )


def _random(net: Supernet, q: ArchDistribution | None, count: int) -> RandomPaths:
    return RandomPaths(q or Uniform(net.space), count)
