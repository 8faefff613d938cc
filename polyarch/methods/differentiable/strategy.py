"""From settings to a differentiable search: strategy, and what changes and watches along its way."""

from __future__ import annotations

from typing import Any

from polyarch.errors import ConfigError
from polyarch.methods.differentiable.recipes import TEMPERATURES, Recipe, bilevel, hypergradient, mixed_supernet
from polyarch.nn import Repeat
from polyarch.runs.optimisers import sgd, smoothed_loss
from polyarch.runs.settings import RunSettings
from polyarch.strategies import Bilevel
from polyarch.supernets import DepthSupernet, ModuleSupernet, Supernet
from polyarch.training import Annealing, Callback, WeightsFirst

STAGES = {
    "darts": [
        {"depth": 5, "options": 5, "skip_dropout": 0.0},
        {"depth": 11, "options": 3, "skip_dropout": 0.4},
        {"depth": 17, "options": 1, "skip_dropout": 0.7},
    ],
    "nb201": [
        {"depth": 1, "options": 4, "skip_dropout": 0.0},
        {"depth": 2, "options": 3, "skip_dropout": 0.4},
        {"depth": 3, "options": 1, "skip_dropout": 0.7},
    ],
}
"""Of P-DARTS, by the kind of space: cells, options that are left, and dropout on skips."""
OTHER_STAGES = [{"options": 3, "skip_dropout": 0.0}, {"options": 1, "skip_dropout": 0.4}]

DEPTHS = {"darts": "layers", "nb201": "cells"}
"""The setting of a space that makes its supernet deeper."""

MOST_SKIPS = 2


def recipe_settings(recipe: Recipe, kind: str) -> dict[str, Any]:
    """What a method asks for in a space of this kind, by section."""
    found: dict[str, Any] = {"gradient": recipe.gradient, "parametrisation": recipe.parametrisation}
    space: dict[str, Any] = {}
    if recipe.progressive:
        found |= {"stages": STAGES.get(kind, OTHER_STAGES), "max_skips": MOST_SKIPS}
    if recipe.partial > 1:
        if kind not in DEPTHS:
            raise ConfigError(f"Expected a space of {', '.join(DEPTHS)} for partial channels. Got {kind!r}.")
        space["partial"] = recipe.partial
        found["weigh_edges"] = kind == "darts"
    if recipe.depth is not None:
        if kind != "darts":
            raise ConfigError(f"Expected space darts for a method of {recipe.depth} layers. Got {kind!r}.")
        space["layers"] = recipe.depth
    return {"differentiable": found, **({"space": space} if space else {})}


def bilevel_strategy(net: Supernet, settings: RunSettings) -> Bilevel:
    """The strategy of a differentiable method, for a supernet with its weights."""
    chosen = settings.differentiable
    if isinstance(net, DepthSupernet) or _repeats(net):
        raise ConfigError(
            f"Expected operations to choose from for {settings.method}. Got a space of depths; "
            "variational-depth learns a depth."
        )
    mixture = mixed_supernet(
        net, chosen.parametrisation, weigh_edges=chosen.weigh_edges, loss=smoothed_loss(settings.train)
    )
    return bilevel(
        mixture,
        sgd(net, settings.train),
        hypergradient(chosen.gradient, steps=chosen.steps, repeat=chosen.repeat),
        q_rate=chosen.q_learning_rate,
        q_decay=chosen.q_weight_decay,
    )


def course(strategy: Bilevel, settings: RunSettings) -> list[Callback]:
    """What changes along the way: the temperature of draws, and from when on q moves."""
    chosen = settings.differentiable
    found: list[Callback] = []
    if chosen.parametrisation in TEMPERATURES:
        found.append(Annealing(strategy, *TEMPERATURES[chosen.parametrisation]))
    if chosen.warmup_epochs:
        found.append(WeightsFirst(strategy, chosen.warmup_epochs))
    return found


def _repeats(net: Supernet) -> bool:
    return isinstance(net, ModuleSupernet) and all(
        isinstance(module, Repeat) for module in net.model.modules() if hasattr(module, "choice")
    )
