"""What is chosen for a user who asks for a differentiable search: a space, a schedule and what the method asks for."""

from __future__ import annotations

from typing import Any

from polyarch.data import Dataset
from polyarch.errors import ConfigError
from polyarch.jobs.bilevel_parts import recipe_settings
from polyarch.jobs.choosing import merged, parts_with, suggest
from polyarch.jobs.own_module import Builder
from polyarch.jobs.settings import RunSettings
from polyarch.methods.differentiable import RECIPES, SOTL_STEPS

MIXED = 3
"""How much more work a mixed pass is than one of an architecture, with all that surrounds it: about three times."""

PASSES = {"second_order": 4, "second_order_difference": 5, "sotl": 2, "sovl": 3, "sotl_exact": 4}
"""Passes over the training examples of an epoch, in units of one; 2 with the gradient of a held-out batch."""

MOVES = 150
"""Steps of q that should fit into the search, where a step of q takes many batches."""

Q_STEPS_REACH = 1.5
"""How far Adam can move a logit in the course of the search: enough to decide, not enough to decide early."""


def suggest_differentiable(
    settings: RunSettings, data: Dataset, builder: Builder | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Settings by section for this data, and the reasons; a space that was named is kept."""
    found, reasons = suggest(settings, data, builder)
    recipe = RECIPES[settings.method]  # type: ignore[index]
    kind = str(found["space"]["kind"]) if settings.space.kind == "auto" else settings.space.kind
    asked = settings.model_dump(mode="json", exclude_unset=True)
    for section, values in recipe_settings(recipe, kind).items():
        found[section] = {**found.get(section, {}), **values}
    parts = parts_with(settings, data, {name: found[name] for name in ("data", "space") if name in found}, builder)
    taken = merged(found, asked)
    gradient, size = taken["differentiable"]["gradient"], taken["train"]["batch_size"]
    passes = found["train"]["epochs"] * (len(parts.net.space.choices[0]) if found["train"]["strategy"] == "fair" else 1)
    stages = len(taken["differentiable"].get("stages", ())) or 1
    epochs = max(round(passes / (MIXED * PASSES.get(gradient, 2))), 4) * stages
    found["train"] = {
        "epochs": epochs,
        "batch_size": size,
        "learning_rate": 0.025,
        "final_learning_rate": 0.001,
        "weight_decay": 3e-4,
    }
    epochs = merged(found, asked)["train"]["epochs"]
    batches = len(parts.batches(parts.train, size, stream="train"))
    if not batches:
        raise ConfigError(f"Expected {size} or more training examples for a batch. Got {len(parts.train)}.")
    steps = 1
    if gradient in ("sotl", "sovl", "sotl_exact"):
        steps = min(max(batches * epochs // stages // MOVES, 2), SOTL_STEPS, batches)
        found["differentiable"]["steps"] = steps
    steps = merged(found, asked)["differentiable"].get("steps", steps)
    moves = max(epochs // stages * (batches // steps), 1)
    found["differentiable"] |= {
        "q_learning_rate": round(min(max(Q_STEPS_REACH / moves, 3e-4), 0.05), 5),
        "warmup_epochs": epochs // stages // 8,
        "eigenvalue_every": max(epochs // stages // 10, 1),
    }
    del found["search"], found["rank"]
    rate = merged(found, asked)["differentiable"]["q_learning_rate"]
    reasons[1] = (
        f"schedule: {epochs} epochs of {settings.method}"
        f"{f' in {stages} stages' if stages > 1 else ''}, in which q takes about {moves * stages:,} steps at a rate of "
        f"{rate:g}, and {merged(found, asked)['retrain']['epochs']} for each network trained alone"
    )
    return found, reasons
