"""Folds: every example validates once, the first fold is the run's own, and what may not change sides does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from polyarch.data import Dataset, resident
from polyarch.data.split_keys import SplitKeys
from polyarch.data.table_dataset import TableSource, table_dataset
from polyarch.runs.folds import FOLDS, fold_feed, fold_rows
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace


def table(rows: int = 60, **others: Any) -> Dataset:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": np.arange(rows, dtype=float),
            "who": np.arange(rows) // 3,
            "when": np.arange(rows, dtype=float),
            "label": random.permutation(["a", "b"] * (rows // 2)),
        }
    )
    return table_dataset("made", TableSource(frame, "made"), target="label", task="classification", **others)


def run_on(data: Dataset, tmp_path: Path, **settings: Any) -> Run:
    content = {"space": {"kind": "mlp", "width": 4}, "data": settings, "seed": 3}
    return Run.build(RunSettings.parse(content, "the test"), Workspace(tmp_path), data=data)


def test_every_example_validates_once_and_the_first_fold_is_that_of_the_run(tmp_path: Path) -> None:
    run = run_on(table(), tmp_path)
    folds = fold_rows(run)
    assert len(folds) == FOLDS
    everyone = torch.cat(folds).sort().values
    assert everyone.tolist() == list(range(len(run.feed.data.train)))
    first = resident(run.feed.data.train.subset(folds[0]))
    assert torch.equal(first.inputs, resident(run.feed.valid).inputs)
    assert fold_feed(run.feed, folds, 0) is run.feed


def test_a_fold_trains_on_all_that_it_does_not_hold_out(tmp_path: Path) -> None:
    run = run_on(table(), tmp_path)
    folds = fold_rows(run)
    whole = resident(run.feed.data.train)
    for place in range(1, FOLDS):
        feed = fold_feed(run.feed, folds, place)
        held_out, rest = resident(feed.valid), resident(feed.train)
        assert torch.equal(held_out.inputs, whole.inputs[folds[place]])
        assert len(held_out) + len(rest) == len(whole)
        assert not set(held_out.inputs[:, 0].tolist()) & set(rest.inputs[:, 0].tolist())
        assert set(held_out.targets.tolist()) == set(rest.targets.tolist()) == {0, 1}  # stratified


def test_groups_stay_together(tmp_path: Path) -> None:
    run = run_on(table(keys=SplitKeys(groups="who")), tmp_path)
    whole = resident(run.feed.data.train)
    groups = [set((whole.inputs[rows, 0] // 3).tolist()) for rows in fold_rows(run)]
    assert len(groups) == FOLDS
    assert sum(len(one) for one in groups) == len(set.union(*groups))


@pytest.mark.parametrize("case", ["time", "limit", "rare class"])
def test_there_are_no_folds_where_examples_may_not_change_sides(case: str, tmp_path: Path) -> None:
    if case == "time":
        run = run_on(table(keys=SplitKeys(times="when")), tmp_path)
    elif case == "limit":
        run = run_on(table(), tmp_path, limit=20)
    else:
        run = run_on(table(rows=10), tmp_path)
    assert fold_rows(run) == []
