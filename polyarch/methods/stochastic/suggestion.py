"""What is chosen for a user who asks for one network with many architectures: a space, its wirings, a schedule."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from polyarch.data import Dataset
from polyarch.estimators import MACs
from polyarch.methods.stochastic.strategy import drawn_wirings
from polyarch.runs.draws import distinct_draws
from polyarch.runs.own_module import Builder
from polyarch.runs.parts import Parts
from polyarch.runs.settings import OptimiserSettings, RunSettings
from polyarch.runs.spaces import WiredSettings
from polyarch.runs.suggestion import (
    SMALLEST_EXAMPLE,
    Candidate,
    fully_connected,
    merged,
    parts_with,
    widest,
    with_suggestions,
)
from polyarch.spaces import Architecture, residual_wiring, wiring_string
from polyarch.supernets import WiredSupernet

WORK = 1e12
"""Forward multiply-accumulates of the one training: five to ten minutes on a core, small convolutions being slow."""

FEWEST_EPOCHS = 8
"""A network with which fewer fit into the work is too wide."""
MOST_EPOCHS = 60

SMALLEST_IMAGE = 8
"""Smaller images have nothing left after two halvings."""

WIDTHS = (16, 12, 8, 6, 4)

SHARED = 20
"""Architectures that are drawn where none has weights of its own, which keeps them apart; 5 where they have."""

PASSES_UNLABELLED = 3
"""Passes per step with examples without labels: one over those with labels, two over the others."""


def suggest_stochastic(
    settings: RunSettings, data: Dataset, builder: Builder | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Settings by section for this data, and the reasons; a space that was named is kept."""
    # They take long to read, and nothing here looks at them.
    alone = settings.model_copy(update={"data": settings.data.model_copy(update={"unlabelled": None})})
    found: dict[str, Any] = {"data": {"validation": round(min(0.2, 5000 / len(data.train)), 3)}}
    if settings.space.kind == "auto":
        found["space"], reason, parts = widest(alone, data, found, _candidates(settings, data))
    else:
        parts = parts_with(alone, data, found, builder)
        reason = "your own network" if settings.space.kind == "module" else "as asked for"
    reasons = [f"space {parts.settings.space.kind}: {reason}"]
    asked = settings.model_dump(mode="json", exclude_unset=True)
    found["stochastic"] = _set(parts, asked)
    space = parts.settings.space
    if isinstance(space, WiredSettings) and not space.wirings and merged(found, asked)["stochastic"]["own_weights"]:
        wirings = drawn_wirings(parts.net.space, with_suggestions(alone, found))
        found["space"] = {**found.get("space", {}), "wirings": [wiring_string(wiring) for wiring in wirings]}
    found |= _schedule(parts, asked, unlabelled=settings.data.unlabelled is not None)
    return found, [*reasons, _in_words(merged(found, asked), parts)]


def _candidates(settings: RunSettings, data: Dataset) -> Iterator[Candidate]:
    """From wide to narrow; of wired networks those with which enough epochs fit into the work."""
    if not data.is_image or min(data.input_shape[1:]) < SMALLEST_IMAGE:
        yield from fully_connected(data)
        return
    examples = min(len(data.train), settings.data.limit or len(data.train))
    side = min(data.input_shape[1:])
    for width in WIDTHS:
        net = WiredSettings(width=width).build(data.input_shape, data.classes)
        work = MACs(data.input_shape).score(net, residual_wiring(net.space)) * examples
        if WORK / work >= FEWEST_EPOCHS or width == WIDTHS[-1]:
            yield (
                {"kind": "wired", "width": width},
                f"images of {side} pixels go to three stages of modules whose wiring is drawn, the first of {width} "
                "channels",
            )


def _set(parts: Parts, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Which architectures: wirings with weights of their own, or more that share all of them."""
    wirings = getattr(parts.settings.space, "wirings", ())
    own = asked.get("stochastic", {}).get("own_weights", parts.settings.space.kind == "wired")
    return {"own_weights": own, "architectures": len(wirings) or (5 if own else SHARED)}


def _schedule(parts: Parts, asked: Mapping[str, Any], *, unlabelled: bool) -> dict[str, Any]:
    """As many epochs as the work allows; the network that is trained alone to compare with has the same."""
    examples, costs = len(parts.train), MACs(parts.network_shape)
    example = statistics.fmean(costs.score(parts.net, architecture) for architecture in _some(parts))
    work = max(example, SMALLEST_EXAMPLE) * examples * (PASSES_UNLABELLED if unlabelled else 1)
    batch_size = min(128 if examples > 4000 else 64, max(examples // 16, 8))
    train = {"epochs": min(max(round(WORK / work), 2), MOST_EPOCHS), "batch_size": batch_size}
    same = merged(train, asked.get("train", {}))
    alone = {key: value for key, value in same.items() if key in OptimiserSettings.model_fields}
    return {"train": train, "retrain": {**alone, "seeds": 1, "members": 1, "random_architectures": 0}}


def _some(parts: Parts) -> list[Architecture]:
    """Architectures that may be trained; wirings all cost the same."""
    if isinstance(parts.net, WiredSupernet):
        return [parts.net.wirings[0] if parts.net.wirings else residual_wiring(parts.net.space)]
    return distinct_draws(parts.limits(measured=False), 8, seed=parts.settings.seed, stream="work")


def _in_words(taken: Mapping[str, Any], parts: Parts) -> str:
    chosen, kind = taken["stochastic"], parts.settings.space.kind
    what = "wirings" if kind == "wired" else "architectures"
    own = ", each with some weights of its own" if chosen["own_weights"] else ""
    per = chosen.get("draws", "example")
    return (
        f"schedule: {taken['train']['epochs']} epochs of {len(parts.train):,} training examples under "
        f"{chosen['architectures']} {what}{own}, one drawn for every {per}; a network trained alone for "
        f"{taken['retrain']['epochs']} epochs is there to compare with"
    )
