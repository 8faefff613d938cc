"""From settings to a differentiable search: strategy, and what changes and watches along its way."""

from typing import Any

from polyarch.errors import ConfigError
from polyarch.methods.differentiable.recipes import TEMPERATURES, Recipe, bilevel, hypergradient, mixed_supernet
from polyarch.methods.differentiable.settings import DifferentiableSettings
from polyarch.nn import Repeat
from polyarch.nn.block_selection import SearchModule
from polyarch.runs.run import Run
from polyarch.runs.training import Training, sgd
from polyarch.supernets import DepthSupernet, ModuleSupernet, Supernet
from polyarch.training import Callback, TemperatureAnnealing, WeightsFirst

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


def bilevel_training(run: Run) -> Training:
    """The training of a differentiable method, with what changes along the way: temperature, and when q moves."""
    settings, chosen = run.settings, run.settings.section(DifferentiableSettings)
    if isinstance(run.net, DepthSupernet) or _repeats(run.net):
        raise ConfigError(
            f"Expected operations to choose from for {settings.method}. Got a space of depths; "
            "variational-depth learns a depth."
        )
    mixture = mixed_supernet(run.net, chosen.parametrisation, weigh_edges=chosen.weigh_edges, task=run.supernet_task)
    strategy = bilevel(
        mixture,
        sgd(run.net, settings.train),
        hypergradient(chosen.gradient, steps=chosen.steps, repeat=chosen.repeat),
        q_rate=chosen.q_learning_rate,
        q_decay=chosen.q_weight_decay,
    )
    course: list[Callback] = []
    if chosen.parametrisation in TEMPERATURES:
        course.append(TemperatureAnnealing(strategy, *TEMPERATURES[chosen.parametrisation]))
    if chosen.warmup_epochs:
        course.append(WeightsFirst(strategy, chosen.warmup_epochs))
    return Training(strategy, strategy.optimizer, course)


def _repeats(net: Supernet) -> bool:
    return isinstance(net, ModuleSupernet) and all(
        isinstance(module, Repeat)
        for module in net.model.modules()
        if isinstance(module, SearchModule) and module.sources
    )
