"""How far the ranking of a run may be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from polyarch.runs.parts import Parts
from polyarch.runs.pipeline import run

from polyarch.methods.one_shot.ranking import judges, trust_record
from polyarch.methods.one_shot.second_supernet import reseeded, second_supernet
from polyarch.results import Results, ScoredArchitecture, ScoreRecord
from polyarch.runs.display import Quiet
from polyarch.runs.run import Context
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.testing.bits import same_bits, state_of
from polyarch.training import StopRequest


def settings(**sections: Any) -> RunSettings:
    content = {
        "workers": 1, "checkpoint_seconds": 0, "programs": [],
        "data": {"name": "digits", "limit": 96},
        "space": {"kind": "nb201", "channels": 2},
        "train": {"epochs": 2, "batch_size": 32},
        "scores": {"steps": 3, "policy_batches": 2},
        "rank": {"architectures": 6, "estimators": ["sotl", "val_acc", "params"]},
    }  # fmt: skip
    return RunSettings.parse({**content, **sections}, "test")


def context(folder: Path, described: RunSettings) -> Context:
    workspace = Workspace.resume(folder)[0] if folder.exists() else Workspace.start(folder, described)
    return Context(Parts.build(described), workspace, Quiet())


def scored(key: str, **scores: float) -> ScoredArchitecture:
    records = [ScoreRecord(estimator=name, value=value, policy=None) for name, value in scores.items()]
    return ScoredArchitecture(architecture={"edge": key}, scores=records, parameters=1)


def test_what_is_compared() -> None:
    rows = [
        scored(name, sotl=value, val_acc=-value, params=1) for name, value in zip("abcd", (1, 2, 3, 4), strict=True)
    ]
    found = trust_record(rows, ["sotl", "val_acc"], {"a": 1.5, "b": 2, "c": 7, "d": 9}, seed=0)
    assert found is not None and found.seed_agreement is not None
    assert (found.n, found.estimators) == (4, ("sotl", "val_acc"))
    assert found.estimator_agreement.value == pytest.approx(-1)
    assert found.seed_agreement.value == pytest.approx(1)
    assert found.top_architecture == {"edge": "d"}
    assert found.top_rank_interval.value == 1  # the other estimator puts all others before it


def test_nothing_to_compare() -> None:
    rows = [scored(name, sotl=1.0, params=1) for name in "abcd"]
    assert trust_record(rows, ["sotl"], {}, seed=0) is None
    assert trust_record(rows[:3], ["sotl", "params"], {}, seed=0) is None
    without = trust_record(rows, ["sotl", "params"], {"a": 1.0}, seed=0)
    assert without is not None and without.seed_agreement is None
    parts = Parts.build(settings())
    assert judges(parts.estimators(("params", "sotl", "macs", "val_acc"))) == ["sotl", "val_acc"]


@pytest.mark.slow
def test_a_ranking_says_how_far_to_trust_it(tmp_path: Path) -> None:
    results = run(context(tmp_path / "two", settings()), "rank")
    assert results.ranking is not None and results.ranking.trust is not None
    found = results.ranking.trust
    assert found.n == 6 and found.seed_agreement is not None and found.seed_agreement.value is not None
    alone = run(context(tmp_path / "one", settings(rank={"architectures": 6, "supernets": 1})), "rank")
    assert alone.ranking is not None and alone.ranking.trust is not None
    assert alone.ranking.trust.seed_agreement is None
    assert not (tmp_path / "one" / "checkpoints" / "train-second").exists()


def test_the_second_supernet_differs_in_its_seed_alone() -> None:
    parts = Parts.build(settings())
    other = reseeded(parts)
    assert other.train is parts.train and other.settings.train == parts.settings.train
    assert other.net.space == parts.net.space
    assert not same_bits(state_of(parts.net), state_of(other.net))
    assert same_bits(state_of(other.net), state_of(reseeded(parts).net))


def test_resumes_with_the_same_bits_whatever_the_workers(tmp_path: Path) -> None:
    described = settings()
    with second_supernet(context(tmp_path / "whole", described)) as second:
        assert second is not None
        whole = state_of(second())
    stopped = context(tmp_path / "stopped", described)
    stopped.stop = _After(3)
    with pytest.raises(KeyboardInterrupt), second_supernet(stopped) as second:
        assert second is not None
        second()
    two = settings().model_copy(update={"workers": 2})
    with second_supernet(context(tmp_path / "stopped", two)) as second:  # now in a process of its own
        assert second is not None
        assert same_bits(state_of(second()), whole)


class _After(StopRequest):
    """Stops after some steps, like Ctrl-C."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._left = steps

    def check(self) -> None:
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt


def test_results_with_trust_survive_the_file(tmp_path: Path) -> None:
    results = run(context(tmp_path / "run", settings()), "rank")
    read = Results.model_validate_json((tmp_path / "run" / "results.json").read_text())
    assert read.ranking == results.ranking
