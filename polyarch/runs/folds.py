"""Training examples in parts, each of which validates networks that are trained on all others."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from polyarch.data.splits import TimeSplit
from polyarch.errors import DataError
from polyarch.randomness import derive_seed
from polyarch.runs.feed import Feed
from polyarch.runs.run import Run

FOLDS = 5
WHOLE = -1
"""A fold that holds out nothing: what is trained on it has to know when to stop."""


def fold_rows(run: Run) -> list[Tensor]:
    """The rows of the training examples that each fold holds out; the first holds out the validation examples.

    Empty where examples cannot change sides: validation examples that were brought, that are the latest, or that are
    limited, and classes or groups with too few examples for every part.
    """
    data, asked, seed = run.feed.data, run.settings.data, run.settings.seed
    is_fixed = data.valid is not None or isinstance(data.split, TimeSplit)
    if is_fixed or asked.limit is not None or asked.split != "stratified":
        return []
    rest, way = torch.arange(len(data.train)), data.split
    found = []
    try:
        for place in range(FOLDS - 1):
            share = asked.validation if place == 0 else 1 / (FOLDS - place)
            drawn = seed if place == 0 else derive_seed(seed, "fold", place) >> 1
            kept, part = way.rows(data.train.targets[rest], share, seed=drawn, class_names=data.class_names)
            found.append(rest[part])
            rest, way = rest[kept], way.subset(kept)
    except DataError:
        return []
    return [*found, rest]


def fold_feed(feed: Feed, folds: Sequence[Tensor], fold: int) -> Feed:
    """The same feed with the examples of a fold as validation examples, and all others as training examples."""
    if fold == 0:
        return feed
    if fold == WHOLE:
        return replace(feed, train=feed.data.train)
    rest = torch.cat([rows for place, rows in enumerate(folds) if place != fold]).sort().values
    return replace(feed, train=feed.data.train.subset(rest), valid=feed.data.train.subset(folds[fold]))
