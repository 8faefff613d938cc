"""What is chosen for a user who asks for a posterior over channels: a network, its width, a prior and a schedule."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from polyarch.data import Dataset
from polyarch.methods.posterior_guided.search import DEFAULT_LENGTH_SCALE
from polyarch.methods.posterior_guided.strategy import gated
from polyarch.runs.display import several
from polyarch.runs.gated_spaces import MultiBranchSettings
from polyarch.runs.own_module import Builder
from polyarch.runs.settings import RunSettings
from polyarch.runs.space_settings import SpaceSettings
from polyarch.runs.suggestion import (
    FEWEST_EPOCHS,
    SMALLEST_EXAMPLE,
    SMALLEST_IMAGE,
    WIDTHS,
    WORK,
    SpaceProposal,
    Suggestion,
    epochs_within,
    merged,
    trial,
    validation_share,
    with_baseline,
)
from polyarch.runs.task import task_of
from polyarch.supernets import GatedSupernet

SQUARE_SCALES = {"enas": 0.1}
"""d^2 of the paper for the cells of ENAS, by space; 50 elsewhere, that of the multi-branch ResNet of 96 channels."""
WIDE, WIDE_SQUARE_SCALE = 160, 150.0
"""The multi-branch ResNet from which on d^2 is that of the paper's wide one."""

LEARNING_RATE = 0.05
"""Draws per example are noisy; 0.1, the usual one, is too high for them."""


def suggest_guided(asked: RunSettings, data: Dataset, builder: Builder | None = None) -> Suggestion:
    """A network with gates, a prior and a schedule; a space that was named is kept, and gets its gates."""
    found: dict[str, Any] = {"data": {"validation": validation_share(data)}}
    kind = asked.space.kind
    if kind == "auto":
        proposal = _widest(asked, data)
        found["space"], reason = proposal.settings, proposal.reason
    else:
        if kind in ("module", "depth_fc", "depth_cnn"):
            found["space"] = {"kind": kind, "gated": True}
        reason = "your own network" if kind == "module" else "as asked for"
    run = trial(asked, data, found, builder)
    net, examples = gated(run), len(run.feed.train)
    given = asked.model_dump(mode="json", exclude_unset=True)
    found["guided"] = {"length_scale": length_scale(run.settings.space)}
    found |= _schedule(examples, net, given)
    taken = merged(found, given)
    reasons = [
        f"space {run.settings.space.kind}: {reason}; {len(net.slice_space.choices):,} channels of {len(net.gates)} "
        "layers are kept or dropped",
        f"prior: length scale {taken['guided']['length_scale']:g}, the paper's, which is weak; limits on "
        "multiply-accumulates or parameters make networks small",
        f"schedule: {several(taken['train']['epochs'], 'epoch')}; the whole network, trained alone for "
        f"{several(taken['retrain']['epochs'], 'epoch')}, is there to compare with",
    ]
    return Suggestion(found, reasons, run)


def length_scale(space: SpaceSettings) -> float:
    """d of the paper for a family of networks; for those that it has not, that of its plain network."""
    if isinstance(space, MultiBranchSettings) and (space.width or 0) >= WIDE:
        return round(math.sqrt(WIDE_SQUARE_SCALE), 2)
    return round(math.sqrt(SQUARE_SCALES[space.kind]), 4) if space.kind in SQUARE_SCALES else DEFAULT_LENGTH_SCALE


def _widest(asked: RunSettings, data: Dataset) -> SpaceProposal:
    """The widest network with which enough epochs fit into the work."""
    examples = min(len(data.train), asked.data.limit or len(data.train))
    proposals, outputs = list(_proposals(data)), task_of(asked.task, data, data.train).outputs
    for proposal in proposals[:-1]:
        net = MultiBranchSettings(**proposal.settings).build(data.input_shape, outputs)
        assert isinstance(net, GatedSupernet)
        if WORK / (net.cost(net.whole()).macs * examples) >= FEWEST_EPOCHS:
            return proposal
    return proposals[-1]


def _proposals(data: Dataset) -> Iterator[SpaceProposal]:
    """Networks from wide to narrow."""
    if not data.is_image or min(data.input_shape[1:]) < SMALLEST_IMAGE:
        what = f"{len(data.columns)} columns" if data.is_table else f"examples of shape {data.input_shape}"
        yield SpaceProposal({"kind": "residual_mlp"}, f"{what} go to a fully connected residual network")
        return
    side = min(data.input_shape[1:])
    for width in WIDTHS:
        yield SpaceProposal(
            {"kind": "multi_branch", "width": width},
            f"images of {side} pixels go to a multi-branch residual network, the first stage of {width} channels",
        )


def _schedule(examples: int, net: GatedSupernet, given: Mapping[str, Any]) -> dict[str, Any]:
    """As many epochs as the work allows."""
    work = max(net.cost(net.whole()).macs, SMALLEST_EXAMPLE) * examples
    batch_size = min(128 if examples > 20_000 else 64 if examples > 8000 else 32, max(examples // 16, 8))
    train = {"epochs": epochs_within(work), "batch_size": batch_size, "learning_rate": LEARNING_RATE}
    return with_baseline(train, given)
