"""What is chosen for a user who asks for one network with many architectures: a space, its wirings, a schedule."""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from polyarch.data import Dataset
from polyarch.estimators import MACs
from polyarch.methods.stochastic.strategy import drawn_wirings
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.run import Run, distinct_draws
from polyarch.runs.settings import RunSettings
from polyarch.runs.spaces import WiredSettings
from polyarch.runs.suggestion import (
    FEWEST_EPOCHS,
    SMALLEST_EXAMPLE,
    SMALLEST_IMAGE,
    WIDTHS,
    WORK,
    SpaceProposal,
    Suggestion,
    epochs_within,
    fully_connected,
    merged,
    trial,
    validation_share,
    widest,
    with_baseline,
    with_suggestions,
)
from polyarch.runs.task import task_of
from polyarch.spaces import Architecture, residual_wiring, wiring_string
from polyarch.supernets import WiredSupernet

SHARED = 20
"""Architectures that are drawn where none has weights of its own, which keeps them apart; 5 where they have."""

PASSES_UNLABELLED = 3
"""Passes per step with examples without labels: one over those with labels, two over the others."""


def suggest_stochastic(asked: RunSettings, data: Dataset, builder: Builder | None = None) -> Suggestion:
    """A space, its wirings and a schedule; a space that was named is kept."""
    # Unlabelled examples take long to read, and nothing here looks at them.
    alone = asked.changed({"data": {"unlabelled": None}})
    found: dict[str, Any] = {"data": {"validation": validation_share(data)}}
    if asked.space.kind == "auto":
        proposal, run = widest(alone, data, found, _proposals(asked, data))
        found["space"], reason = proposal.settings, proposal.reason
    else:
        run = trial(alone, data, found, builder)
        reason = "your own network" if asked.space.kind == "module" else "as asked for"
    reasons = [f"space {run.settings.space.kind}: {reason}"]
    given = asked.model_dump(mode="json", exclude_unset=True)
    found["stochastic"] = _set(run, given)
    space = run.settings.space
    if isinstance(space, WiredSettings) and not space.wirings and merged(found, given)["stochastic"]["own_weights"]:
        wirings = drawn_wirings(run.net.space, with_suggestions(alone, found))
        found["space"] = {**found.get("space", {}), "wirings": [wiring_string(wiring) for wiring in wirings]}
    found |= _schedule(run, given, unlabelled=asked.data.unlabelled is not None)
    return Suggestion(found, [*reasons, _in_words(merged(found, given), run)], run)


def _proposals(asked: RunSettings, data: Dataset) -> Iterator[SpaceProposal]:
    """Networks from wide to narrow; of wired ones those with which enough epochs fit into the work."""
    if not data.is_image or min(data.input_shape[1:]) < SMALLEST_IMAGE:
        yield from fully_connected(data)
        return
    examples = min(len(data.train), asked.data.limit or len(data.train))
    side = min(data.input_shape[1:])
    for width in WIDTHS:
        net = WiredSettings(width=width).build(data.input_shape, task_of(asked.task, data, data.train).outputs)
        work = MACs(data.input_shape).score(net, residual_wiring(net.space)) * examples
        if WORK / work >= FEWEST_EPOCHS or width == WIDTHS[-1]:
            yield SpaceProposal(
                {"kind": "wired", "width": width},
                f"images of {side} pixels go to three stages of modules whose wiring is drawn, the first of {width} "
                "channels",
            )


def _set(run: Run, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Which architectures: wirings with weights of their own, or more that share all of them."""
    wirings = getattr(run.settings.space, "wirings", ())
    own = asked.get("stochastic", {}).get("own_weights", run.settings.space.kind == "wired")
    return {"own_weights": own, "architectures": len(wirings) or (5 if own else SHARED)}


def _schedule(run: Run, given: Mapping[str, Any], *, unlabelled: bool) -> dict[str, Any]:
    """As many epochs as the work allows."""
    examples, costs = len(run.feed.train), MACs(run.feed.example.inputs)
    example = statistics.fmean(costs.score(run.net, architecture) for architecture in _some(run))
    work = max(example, SMALLEST_EXAMPLE) * examples * (PASSES_UNLABELLED if unlabelled else 1)
    batch_size = min(128 if examples > 4000 else 64, max(examples // 16, 8))
    return with_baseline({"epochs": epochs_within(work), "batch_size": batch_size}, given)


def _some(run: Run) -> list[Architecture]:
    """Architectures that may be trained; wirings all cost the same."""
    if isinstance(run.net, WiredSupernet):
        return [run.net.wirings[0] if run.net.wirings else residual_wiring(run.net.space)]
    return distinct_draws(run.counted_limits, 8, seed=run.settings.seed, stream="work")


def _in_words(taken: Mapping[str, Any], run: Run) -> str:
    chosen, kind = taken["stochastic"], run.settings.space.kind
    what = "wirings" if kind == "wired" else "architectures"
    own = ", each with some weights of its own" if chosen["own_weights"] else ""
    per = chosen.get("draws", "example")
    return (
        f"schedule: {several(taken['train']['epochs'], 'epoch')} of {len(run.feed.train):,} training examples under "
        f"{chosen['architectures']} {what}{own}, one drawn for every {per}; a network trained alone for "
        f"{several(taken['retrain']['epochs'], 'epoch')} is there to compare with"
    )
