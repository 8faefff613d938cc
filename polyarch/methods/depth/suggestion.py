"""What is chosen for a user who asks for a depth: a network, a schedule and a rule, each with its reason in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from polyarch.data import Dataset
from polyarch.estimators import MACs
from polyarch.methods.depth.choice import require_depths
from polyarch.runs.own_module import Builder
from polyarch.runs.parts import Parts
from polyarch.runs.settings import RunSettings
from polyarch.runs.suggestion import SMALLEST_EXAMPLE, merged, parts_with

WORK = 1e12
"""Forward multiply-accumulates of the one training: five to ten minutes on a core, small convolutions being slow."""

FULL_BATCH = 512
"""Training sets up to this size are one batch, as in the document; the bound is then known exactly."""
FULL_BATCH_EPOCHS, FULL_BATCH_PATIENCE = 3000, 500

FEWEST_EPOCHS = 8
"""A network with which fewer fit into the work is too wide."""
MOST_EPOCHS = 60

SMALL_DATA = 2000
"""Training sets up to this size take the most probable depth; larger ones, where q stays broad, the 95 % rule."""

SHARE_OF_WORK = 0.5
"""What networks of fixed depths cost on average, of a network of full depth."""


def suggest_depth(
    settings: RunSettings, data: Dataset, builder: Builder | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Settings by section for this data, and the reasons; a space that was named is kept."""
    found: dict[str, Any] = {"data": {"validation": round(min(0.2, 5000 / len(data.train)), 3)}}
    if settings.space.kind == "auto":
        found["space"], reason, parts = _space(settings, data, found)
    else:
        parts = parts_with(settings, data, found, builder)
        require_depths(parts)
        reason = "your own network" if settings.space.kind == "module" else "as asked for"
    schedule = _schedule(parts)
    asked = settings.model_dump(mode="json", exclude_unset=True)
    taken = merged(schedule, asked)
    examples = len(parts.train)
    if settings.method == "variational-depth":
        section, batch = taken["train"], taken["train"]["batch_size"]
        chosen = f"rule {taken['depth']['rule']} chooses the depth"
    else:
        section, batch = taken["retrain"], taken["retrain"]["batch_size"]
        chosen = "validation loss chooses the depth"
    how = "full batches" if batch >= examples else f"batches of {batch}"
    reasons = [
        f"space {parts.settings.space.kind}: {reason}",
        f"schedule: up to {section['epochs']} epochs of {examples:,} training examples in {how}; {chosen}",
    ]
    return {**found, **schedule}, reasons


def _space(settings: RunSettings, data: Dataset, found: Mapping[str, Any]) -> tuple[dict[str, Any], str, Parts]:
    """The widest of the candidates with which enough epochs fit into the work."""
    tried = (
        (space, reason, parts_with(settings, data, {**found, "space": space})) for space, reason in _candidates(data)
    )
    for candidate in tried:
        if WORK / _epoch_work(candidate[2]) >= FEWEST_EPOCHS:
            break
    return candidate


def _candidates(data: Dataset) -> Iterator[tuple[dict[str, Any], str]]:
    """From wide to narrow."""
    if not data.is_image or min(data.input_shape[1:]) < 6:
        width = 20 if data.input_shape == (2,) else 64
        yield {"kind": "depth_fc", "width": width}, f"a fully connected residual network of width {width}"
        return
    for channels in (64, 32, 16):
        yield (
            {"kind": "depth_cnn", "channels": channels, "inner_channels": channels // 2},
            f"a convolutional residual network of {channels} channels",
        )


def _epoch_work(parts: Parts) -> float:
    """Multiply-accumulates of an epoch at full depth."""
    example = MACs(parts.network_shape).score(parts.net, parts.net.space.members[-1])
    return max(example, SMALLEST_EXAMPLE) * len(parts.train)


def _schedule(parts: Parts) -> dict[str, Any]:
    """The protocol of the document, in as many epochs as the work allows."""
    examples = len(parts.train)
    protocol = {"momentum": 0.5, "weight_decay": 0.0, "learning_rate": 0.1}
    if examples <= FULL_BATCH:
        schedule = {"epochs": FULL_BATCH_EPOCHS, "batch_size": examples, "final_learning_rate": 0.1, **protocol}
        patience = FULL_BATCH_PATIENCE
    else:
        epochs = min(max(round(WORK / _epoch_work(parts)), 2), MOST_EPOCHS)
        schedule = {"epochs": epochs, "batch_size": 128 if examples > 4000 else 64, **protocol}
        patience = max(epochs // 3, 3)
    if parts.settings.method == "variational-depth":
        rule = "argmax" if examples <= SMALL_DATA else "95%"
        return {"train": {"strategy": "variational", "patience": patience, **schedule}, "depth": {"rule": rule}}
    schedule["epochs"] = min(schedule["epochs"], 1000)
    return {"retrain": {"seeds": 1, **schedule}}
