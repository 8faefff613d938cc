"""What is chosen for a user who asks for a posterior over channels: a network, its width, a prior and a schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from polyarch.data import Dataset
from polyarch.methods.posterior_guided.strategy import gated
from polyarch.methods.stochastic.suggestion import FEWEST_EPOCHS, MOST_EPOCHS, SMALLEST_IMAGE, WIDTHS, WORK
from polyarch.runs.gated_spaces import MultiBranchSettings
from polyarch.runs.own_module import Builder
from polyarch.runs.parts import Parts
from polyarch.runs.settings import OptimiserSettings, RunSettings
from polyarch.runs.suggestion import SMALLEST_EXAMPLE, Candidate, merged, parts_with
from polyarch.supernets import GatedSupernet

IMAGE_PRIOR, TABLE_PRIOR = 1 / 300, 1 / 1000
"""d^2 / N, the weight decay of kernels that are kept for sure. That of images is the document's, d^2 = 150 for 45,000
of them; convolutions before a normalisation bear more of it than linear layers."""

LEARNING_RATE = 0.05
"""Draws per example are noisy; 0.1, the usual one, is too high for them."""


def suggest_guided(
    settings: RunSettings, data: Dataset, builder: Builder | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Settings by section for this data, and the reasons; a space that was named is kept, and gets its gates."""
    found: dict[str, Any] = {"data": {"validation": round(min(0.2, 5000 / len(data.train)), 3)}}
    kind = settings.space.kind
    if kind == "auto":
        found["space"], reason = _first(settings, data)
    else:
        if kind in ("module", "depth_fc", "depth_cnn"):
            found["space"] = {"kind": kind, "gated": True}
        reason = "your own network" if kind == "module" else "as asked for"
    parts = parts_with(settings, data, found, builder)
    net = gated(parts.net, parts.settings)
    asked = settings.model_dump(mode="json", exclude_unset=True)
    share = IMAGE_PRIOR if data.is_image else TABLE_PRIOR
    found["guided"] = {"length_scale": round(math.sqrt(share * len(parts.train)), 2)}
    found |= _schedule(parts, net, asked)
    taken = merged(found, asked)
    return found, [
        f"space {parts.settings.space.kind}: {reason}; {len(net.slice_space.choices):,} channels of {len(net.gates)} "
        "layers are kept or dropped",
        f"prior: length scale {taken['guided']['length_scale']:g} for {len(parts.train):,} training examples; a larger "
        "one makes smaller networks",
        f"schedule: {taken['train']['epochs']} epochs; the whole network, trained alone for "
        f"{taken['retrain']['epochs']} epochs, is there to compare with",
    ]


def _first(settings: RunSettings, data: Dataset) -> Candidate:
    """The widest network with which enough epochs fit into the work."""
    examples = min(len(data.train), settings.data.limit or len(data.train))
    candidates = list(_candidates(data))
    for candidate in candidates[:-1]:
        net = MultiBranchSettings(**candidate[0]).build(data.input_shape, data.classes)
        assert isinstance(net, GatedSupernet)
        if WORK / (net.cost(net.whole()).macs * examples) >= FEWEST_EPOCHS:
            return candidate
    return candidates[-1]


def _candidates(data: Dataset) -> Iterator[Candidate]:
    """From wide to narrow."""
    if not data.is_image or min(data.input_shape[1:]) < SMALLEST_IMAGE:
        what = f"{len(data.columns)} columns" if data.is_table else f"examples of shape {data.input_shape}"
        yield {"kind": "residual_mlp"}, f"{what} go to a fully connected residual network"
        return
    side = min(data.input_shape[1:])
    for width in WIDTHS:
        yield (
            {"kind": "multi_branch", "width": width},
            f"images of {side} pixels go to a multi-branch residual network with kernels of two sizes, the first stage "
            f"of {width} channels",
        )


def _schedule(parts: Parts, net: GatedSupernet, asked: Mapping[str, Any]) -> dict[str, Any]:
    """As many epochs as the work allows; the network that is trained alone to compare with has the same."""
    examples = len(parts.train)
    work = max(net.cost(net.whole()).macs, SMALLEST_EXAMPLE) * examples
    batch_size = min(128 if examples > 20_000 else 64 if examples > 8000 else 32, max(examples // 16, 8))
    train: dict[str, Any] = {
        "epochs": min(max(round(WORK / work), 2), MOST_EPOCHS),
        "batch_size": batch_size,
        "learning_rate": LEARNING_RATE,
    }
    same = merged(train, asked.get("train", {}))
    alone = {key: value for key, value in same.items() if key in OptimiserSettings.model_fields}
    return {"train": train, "retrain": {**alone, "seeds": 1, "members": 1, "random_architectures": 0}}
