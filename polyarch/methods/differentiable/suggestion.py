"""What is chosen for a user who asks for a differentiable search: a space, a schedule and what the method asks for."""

import math
from collections.abc import Mapping
from typing import Any

from polyarch.data import Dataset
from polyarch.methods.differentiable.recipes import Q_RATE, RECIPES, SOTL_STEPS
from polyarch.methods.differentiable.strategy import recipe_settings
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.settings import RunSettings
from polyarch.runs.suggestion import Suggestion, merged, suggest, trial

MIXED = 3
"""How much more work a mixed pass is than one of an architecture, with all that surrounds it: about three times."""

PASSES = {"second_order": 4, "second_order_difference": 5, "sotl": 2, "sovl": 3, "sotl_exact": 4}
"""Passes over the training examples of an epoch, in units of one; 2 with the gradient of a held-out batch."""

FEW_EPOCHS = 4
"""With fewer, sums of losses do without the repetition of their steps, which is half of the cost."""

MOVES = 150
"""Steps of q that should fit into the search, where a step of q takes many batches."""

REACH = 6.0
"""How far Adam can move a logit in the course of the search, if all its steps agree; DARTS' own schedule has this."""


PROTOCOL = {"learning_rate": 0.025, "final_learning_rate": 0.001, "weight_decay": 3e-4}
"""Of the weights, as in DARTS."""

SUMS = ("sotl", "sovl", "sotl_exact")
"""Gradients for which a step of q takes T batches."""


def suggest_differentiable(asked: RunSettings, data: Dataset, builder: Builder | None = None) -> Suggestion:
    """The space and the schedule of any search, changed to what the method asks for; a space that was named is kept."""
    usual = suggest(asked, data, builder)
    found, reasons = {name: dict(values) for name, values in usual.settings.items()}, usual.reasons
    given = asked.model_dump(mode="json", exclude_unset=True)
    kind = str(found["space"]["kind"]) if asked.space.kind == "auto" else asked.space.kind
    for section, values in recipe_settings(RECIPES[asked.method], kind).items():  # type: ignore[index]
        found[section] = {**found.get(section, {}), **values}
    channels = merged(found, given).get("space", {}).get("channels")
    if "partial" in found.get("space", {}) and channels:
        found["space"]["partial"] = next(share for share in (4, 2, 1) if channels % share == 0)
    run = trial(asked, data, {name: found[name] for name in ("data", "space") if name in found}, builder)
    paths = len(run.net.space.choices[0]) if found["train"].pop("strategy") == "fair" else 1
    passes = found["train"]["epochs"] * paths
    if _epochs(passes, merged(found, given)["differentiable"]) < FEW_EPOCHS:
        found["differentiable"]["repeat"] = False
    found["train"] |= {**PROTOCOL, "epochs": _epochs(passes, merged(found, given)["differentiable"])}
    batches = len(run.feed.training_batches(merged(found, given)["train"]["batch_size"]))
    moves, choices = _choices(merged(found, given), batches)
    found["differentiable"] |= choices
    del found["search"], found["rank"]
    taken = merged(found, given)
    stages, rate = len(taken["differentiable"].get("stages", ())) or 1, taken["differentiable"]["q_learning_rate"]
    reasons[1] = (
        f"schedule: {several(taken['train']['epochs'], 'epoch')} of {asked.method}"
        f"{f' in {stages} stages' if stages > 1 else ''}, in which q takes about {moves * stages:,} steps at a rate of "
        f"{rate:g}, and {taken['retrain']['epochs']} for each network trained alone"
    )
    return Suggestion(found, reasons, run)


def passes_of(differentiable: Mapping[str, Any]) -> int:
    """How many passes over a batch a step of the weights costs, with what q needs; by the settings of the section."""
    gradient = differentiable["gradient"]
    repeated = differentiable.get("repeat", True) or gradient not in ("sotl", "sovl")
    return PASSES.get(gradient, 2) - (0 if repeated else 1)


def _epochs(passes: float, differentiable: Mapping[str, Any]) -> int:
    """In the time that sampled paths would take for so many passes; every stage has one or more."""
    stages = len(differentiable.get("stages", ())) or 1
    return max(round(passes / (MIXED * passes_of(differentiable) * stages)), 1) * stages


def _choices(taken: Mapping[str, Any], batches: int) -> tuple[int, dict[str, Any]]:
    """The steps that q takes in a stage, and what follows from them.

    Args:
        batches: of an epoch.
    """
    epochs = taken["train"]["epochs"] // (len(taken["differentiable"].get("stages", ())) or 1)
    found: dict[str, Any] = {"warmup_epochs": epochs // 8, "eigenvalue_every": max(epochs // 10, 1)}
    steps = 1
    if taken["differentiable"]["gradient"] in SUMS:
        found["steps"] = min(max(batches * epochs // MOVES, 2), SOTL_STEPS, max(batches, 1))
        steps = taken["differentiable"].get("steps", found["steps"])
    moves = max(epochs * math.ceil(batches / steps), 1)
    return moves, {**found, "q_learning_rate": round(min(max(REACH / moves, Q_RATE), 0.1), 5)}
