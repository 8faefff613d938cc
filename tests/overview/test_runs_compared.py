"""Runs side by side."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from overview_examples import finished, stored
from rendered import plain, text_of

from polyarch.errors import InvalidInput
from polyarch.overview import compare

Command = Callable[..., subprocess.CompletedProcess[str]]


class TestGroups:
    def test_runs_that_differ_in_their_seeds_alone_are_one_group(self, tmp_path: Path) -> None:
        folders = [stored(tmp_path / f"fair-{seed}", finished(0.97, seed=seed)) for seed in (1, 0)]
        folders.append(stored(tmp_path / "deep", finished(0.98, space={"kind": "nb201", "depth": 3})))
        fair, deep = compare(folders).groups
        assert (fair.name, fair.seeds, deep.name, deep.seeds) == ("fair", [0, 1], "deep", [0])

    def test_a_seed_twice_is_two_groups(self, tmp_path: Path) -> None:
        folders = [stored(tmp_path / name, finished(0.97)) for name in ("a", "b")]
        assert [group.name for group in compare(folders).groups] == ["a", "b"]

    def test_settings_that_differ(self, tmp_path: Path) -> None:
        one = stored(tmp_path / "one", finished(0.97, seed=0, space={"kind": "nb201", "channels": 4}))
        two = stored(tmp_path / "two", finished(0.97, seed=1, space={"kind": "nb201", "cells": 2}))
        assert compare([one, two]).settings == {"space.channels": [4, None], "space.cells": [None, 2]}

    def test_what_cannot_be_compared(self, tmp_path: Path) -> None:
        one = stored(tmp_path / "one", finished(0.97))
        with pytest.raises(InvalidInput, match=r"two or more runs .* Got 1\."):
            compare([one])
        with pytest.raises(InvalidInput, match=r"a run with results in .*missing\. Found no results\.json"):
            compare([one, tmp_path / "missing"])
        unfinished = finished(0.97)
        unfinished.predictors = []
        with pytest.raises(InvalidInput, match="has not reached its end"):
            compare([one, stored(tmp_path / "two", unfinished)])
        other = finished(0.97)
        other.task.metric = "macro_f1"
        with pytest.raises(InvalidInput, match=r"one metric\. Got accuracy and macro_f1"):
            compare([one, stored(tmp_path / "three", other)])


class TestDifferences:
    def test_are_paired_by_seeds(self, tmp_path: Path) -> None:
        """Seeds differ by 0.04, which side is better by 0.01 with each of them."""
        scores = (0.91, 0.95, 0.93)
        fair = [stored(tmp_path / f"fair-{seed}", finished(one, seed=seed)) for seed, one in enumerate(scores)]
        deep = [
            stored(tmp_path / f"deep-{seed}", finished(one + 0.01, seed=seed, method="deep"))
            for seed, one in enumerate(scores)
        ]
        comparison = compare([*fair, *deep])
        found = comparison.difference(comparison.groups[1])
        assert (found.paired, found.better) == ("seeds and test examples", 3)
        assert found.estimate.value == pytest.approx(0.01) and found.estimate.is_clear

    def test_are_paired_by_examples_where_seeds_differ(self, tmp_path: Path) -> None:
        one = stored(tmp_path / "one", finished(0.97, seed=0))
        two = stored(tmp_path / "two", finished(0.98, seed=1, method="deep"))
        comparison = compare([one, two])
        found = comparison.difference(comparison.groups[1])
        assert (found.paired, found.better) == ("test examples", None) and found.estimate.is_clear

    def test_are_not_paired_on_other_examples(self, tmp_path: Path) -> None:
        """Examples are harder or easier for both sides alike, so that a pair would tell 0.002 apart."""
        one = stored(tmp_path / "one", finished(0.970))
        two = stored(tmp_path / "two", finished(0.972, method="deep", test="others"))
        comparison = compare([one, two])
        found = comparison.difference(comparison.groups[1])
        low, high = found.estimate.interval or (0.0, 0.0)
        assert found.paired == "" and low < -0.005 < 0.008 < high
        same = compare([one, stored(tmp_path / "three", finished(0.972, method="deep"))])
        assert same.difference(same.groups[1]).estimate.is_clear


class TestCommand:
    @pytest.fixture
    def folders(self, tmp_path: Path) -> list[str]:
        return [
            str(stored(tmp_path / "one", finished(0.97))),
            str(stored(tmp_path / "<b>two", finished(0.99, method="deep"))),
        ]

    def test_prints_and_writes(self, tmp_path: Path, folders: list[str], polyarch: Command) -> None:
        outs = [tmp_path / f"found.{ending}" for ending in ("html", "csv", "json")]
        done = polyarch("compare", *folders, *(word for out in outs for word in ("--out", str(out))))
        assert done.returncode == 0, done.stderr
        assert "97.00 %" in plain(done.stdout) and "+2.00" in done.stdout and "method" in done.stdout
        one, two = csv.DictReader(outs[1].read_text().splitlines())
        assert one["name"] == "one" and float(two["against_first.score.value"]) == pytest.approx(0.02)
        record = json.loads(outs[2].read_text())
        assert record["version"] == 1 and record["settings"] == {"method": [None, "deep"]}
        assert [group["minutes"] for group in record["groups"]] == [1.0, 1.0]
        page = outs[0].read_text()
        assert "<b>two" not in page
        said = text_of(page)
        assert re.search(
            r"one reaches 97\.00 % \[9\d\.\d\d, 9\d\.\d\d\] test accuracy\. <b>two is 2\.00 percentage points "
            r"\[\d\.\d\d, \d\.\d\d\] above one on the same seeds and test examples \(better with 1 of 1 seed\), "
            r"more than chance\.",
            said,
        )

    def test_refusals_are_one_sentence(self, folders: list[str], polyarch: Command) -> None:
        for words in ([*folders, "--out", "found.txt"], folders[:1]):
            done = polyarch("compare", *words)
            assert done.returncode == 2 and done.stderr.startswith("error: Expected") and done.stderr.count("\n") == 1
