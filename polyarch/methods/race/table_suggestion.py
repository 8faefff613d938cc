"""What is chosen for a race on a table."""

import math
from typing import Any

import numpy as np

from polyarch.data import Dataset, resident
from polyarch.data.quantile_scaling import has_heavy_tail
from polyarch.data.table_encoding import NumberScaling
from polyarch.runs.display import several
from polyarch.runs.packed_spaces import PackedMLPSettings
from polyarch.runs.suggestion import SpaceProposal
from polyarch.runs.work import MEMBER_MAC_SECONDS, STEP_SECONDS

TABLE_EXPLORING, TABLE_FIRST_SECONDS = 0.2, 1.0
"""The share of all cores' time that goes into the first rung, in which many trainings already end, and its least."""
MEMBERS, MANY_ROWS, MEMBERS_OF_MANY = 8, 5000, 4
"""Networks in one; fewer where rows are many, so that there is time to see them often.

Chosen by validation loss after 8 and 24 seconds on magic (15,216 rows: 4 members better than 8, 8 better than 16) and
optdigits (4,496 rows: 8 better), and after 12 on vowel and splice (no clear order)."""
PASSES_OF_NUMBERS = 80
"""Numbers take longer than classes: where there is no time to see the rows so often, networks hold fewer members.

Chosen on penbased (2,400 rows, one minute of a core), whose last column is predicted with a validation loss of 2.86 by
2 members and 3.13 by 8; on a made-up table both are equal. With classes 8 members are better even in half a minute
(vowel, wdbc), so it does not hold for them."""
TRAINING_SHARE = 0.1
"""About the share of all cores' time that one training gets: that of the best setting on one fold."""
MOST_EMBEDDED = 256
"""Embeddings of more numbers would take most of the time."""
LEAST_ROWS, HEAVY_SHARE = 1000, 0.25
"""Numbers are scaled by quantiles from so many rows on, if this share of the numeric columns has a heavy tail.

Chosen on magic, where it pays, and on penbased, optdigits and wdbc, where it does not."""


def table_proposal(data: Dataset, seconds: float) -> SpaceProposal:
    """Networks that hold several members, with embeddings where there are numbers, not too many of them.

    Args:
        seconds: of the race, on all cores together.
    """
    numbers = math.prod(data.input_shape) if isinstance(data.input_shape, tuple) else 0  # the space refuses others
    members = members_for(data, numbers, seconds)
    settings: dict[str, Any] = {"kind": "packed", "members": members}
    if data.is_table:
        settings["numbers"] = numbers = sum(column.categories is None for column in data.columns)
    if not 0 < numbers <= MOST_EMBEDDED:
        settings["embeddings"] = ["none"]
    return SpaceProposal(settings, f"fully connected networks that hold {several(members, 'member')} each")


def members_for(data: Dataset, features: int, seconds: float) -> int:
    """How many members a network holds; of numbers, as many as leave it time to see its rows often enough."""
    rows = len(data.train)
    members = MEMBERS if rows <= MANY_ROWS else MEMBERS_OF_MANY
    if data.kind != "regression":
        return members
    batch_size = table_recipe(rows)["batch_size"]
    steps = PASSES_OF_NUMBERS * rows / batch_size
    width = PackedMLPSettings.model_fields["width"].default
    member_seconds = batch_size * width * (features + width) * MEMBER_MAC_SECONDS  # of a step, with two blocks
    while members > 1 and steps * (STEP_SECONDS + members * member_seconds) > TRAINING_SHARE * seconds:
        members //= 2
    return members


def number_scaling(data: Dataset) -> NumberScaling:
    """By quantiles where there are enough rows to know them, and where many columns have heavy tails."""
    if not data.is_table or len(data.train) < LEAST_ROWS:
        return "standard"
    rows = resident(data.train).inputs.double().numpy()
    numeric = [place for place, column in enumerate(data.columns) if column.categories is None]
    heavy = sum(has_heavy_tail(rows[~np.isnan(rows[:, place]), place]) for place in numeric)
    return "quantile" if numeric and heavy >= HEAVY_SHARE * len(numeric) else "standard"


def table_recipe(examples: int) -> dict[str, Any]:
    """AdamW on batches that are not too large a part of the examples."""
    return {
        "optimiser": "adamw",
        "learning_rate": 0.002,
        "weight_decay": 0.0003,
        "batch_size": min(256, max(examples // 8, 8)),
        "warmup": 20,
    }
