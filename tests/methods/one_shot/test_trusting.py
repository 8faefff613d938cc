"""How far the ranking of a run may be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polyarch.methods.one_shot.further_supernets import further_supernets, reseeded
from polyarch.methods.one_shot.ranking import judges, trust_record, unit_of
from polyarch.methods.one_shot.record import OneShotRecord, RankingRecord, ScoredArchitecture, ScoreRecord
from polyarch.results import Results
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import perform
from polyarch.runs.workspace import Workspace
from polyarch.tasks import Regression
from polyarch.testing.tools import same_bits, state_of
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


def run_in(folder: Path, described: RunSettings, **fields: Any) -> Run:
    """Up to the ranking."""
    workspace = Workspace.resume(folder)[0] if folder.exists() else Workspace.start(folder, described)
    return Run.build(described, workspace, until="rank", **fields)


def ranking_of(results: Results) -> RankingRecord:
    found = results.found(OneShotRecord)
    assert found is not None and found.ranking is not None
    return found.ranking


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """The folder and the results of a ranking with two supernets; tests read them only."""
    folder = tmp_path_factory.mktemp("ranked") / "run"
    return folder, perform(run_in(folder, settings()))


def scored(key: str, **scores: float) -> ScoredArchitecture:
    records = [ScoreRecord(estimator=name, value=value, policy=None) for name, value in scores.items()]
    return ScoredArchitecture(architecture={"edge": key}, scores=records, parameters=1)


def test_what_is_compared() -> None:
    rows = [
        scored(name, sotl=value, val_acc=-value, params=1) for name, value in zip("abcd", (1, 2, 3, 4), strict=True)
    ]
    found = trust_record(rows, ["sotl", "val_acc"], [{"a": 1.5, "b": 2, "c": 7, "d": 9}], seed=0)
    assert found is not None and found.seed_agreement is not None
    assert (found.n, found.estimators) == (4, ("sotl", "val_acc"))
    assert found.estimator_agreement.value == pytest.approx(-1)
    assert found.seed_agreement.value == pytest.approx(1)
    assert found.top_architecture == {"edge": "d"}
    assert found.top_rank_interval.value == 1  # the other estimator puts all others before it


def test_scores_in_points_of_accuracy() -> None:
    """Sums of losses have none, nor have other metrics of the task than the accuracy."""
    run = Run.build(settings(), Workspace(Path("nowhere")))
    names = ("sotl", "val_acc", "val_acc_mini", "val_acc_after", "params")
    units = {estimator.name: unit_of(estimator, run.task) for estimator in run.estimators(names)}
    assert units == {
        "sotl": None, "val_acc": "fraction", "val_acc_mini": "fraction", "val_acc_after": "fraction", "params": None
    }  # fmt: skip
    assert {unit_of(estimator, Regression()) for estimator in run.estimators(names)} == {None}


def test_sparse_kendall_only_where_the_reference_is_an_accuracy(ranked: tuple[Path, Results]) -> None:
    """The reference of this ranking is SoTL, in nats."""
    quality = ranking_of(ranked[1]).quality["val_acc"]
    assert quality["sparse_kendall"]["value"] is None and quality["kendall"]["value"] is not None


def test_nothing_to_compare() -> None:
    rows = [scored(name, sotl=1.0, params=1) for name in "abcd"]
    assert trust_record(rows, ["sotl"], [], seed=0) is None
    assert trust_record(rows[:3], ["sotl", "params"], [], seed=0) is None
    without = trust_record(rows, ["sotl", "params"], [{"a": 1.0}], seed=0)
    assert without is not None and without.seed_agreement is None
    run = Run.build(settings(), Workspace(Path("nowhere")))
    assert judges(run.estimators(("params", "sotl", "macs", "val_acc"))) == ["sotl", "val_acc"]


def test_a_ranking_says_how_far_to_trust_it(ranked: tuple[Path, Results]) -> None:
    found = ranking_of(ranked[1]).trust
    assert found is not None
    assert found.n == 6 and found.seed_agreement is not None and found.seed_agreement.value is not None
    assert (ranked[0] / "checkpoints" / "train-second").exists()


@pytest.mark.slow
def test_one_supernet_says_nothing_about_seeds(tmp_path: Path) -> None:
    trust = ranking_of(perform(run_in(tmp_path / "one", settings(rank={"architectures": 6, "supernets": 1})))).trust
    assert trust is not None and trust.seed_agreement is None
    assert not (tmp_path / "one" / "checkpoints" / "train-second").exists()


def test_the_second_supernet_differs_in_its_seed_alone() -> None:
    run = Run.build(settings(), Workspace(Path("nowhere")))
    other = reseeded(run)
    assert other.feed.train is run.feed.train and other.settings.train == run.settings.train
    assert other.feed.seed == other.settings.seed != run.feed.seed  # the order of batches differs, too
    assert other.net.space == run.net.space
    assert not same_bits(state_of(run.net), state_of(other.net))
    assert same_bits(state_of(other.net), state_of(reseeded(run).net))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])  # 2: in a process of its own
def test_resumes_with_the_same_bits_whatever_the_workers(
    workers: int, ranked: tuple[Path, Results], tmp_path: Path
) -> None:
    described = settings()
    with further_supernets(run_in(ranked[0], described)) as others:  # trained already
        whole = [state_of(other.net) for other in others()]
    assert len(whole) == 1
    stopped = run_in(tmp_path / "stopped", described, stop=_After(3))
    with pytest.raises(KeyboardInterrupt), further_supernets(stopped) as others:
        others()
    again = settings().model_copy(update={"workers": workers})
    with further_supernets(run_in(tmp_path / "stopped", again)) as others:
        assert same_bits([state_of(other.net) for other in others()], whole)


class _After(StopRequest):
    """Stops after some steps, like Ctrl-C."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._left = steps

    def check(self) -> None:
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt


def test_results_with_trust_survive_the_file(ranked: tuple[Path, Results]) -> None:
    assert Results.read(ranked[0] / "results.json").record == ranked[1].record
