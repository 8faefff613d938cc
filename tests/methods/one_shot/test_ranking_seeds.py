"""Rankings against a truth: several seeds, the top ten, differences of estimators, distinct networks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rendered import read_again, section_of
from report_examples import cell_results
from rich.console import Console
from scipy.stats import spearmanr

import polyarch.methods.one_shot.method
import polyarch.methods.one_shot.ranking
from polyarch.methods.one_shot.further_supernets import further_count, reseeded
from polyarch.methods.one_shot.ranking import judges, scoring_tasks, summary
from polyarch.methods.one_shot.record import OneShotRecord, RankingRecord
from polyarch.results import Results
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import perform
from polyarch.runs.workspace import Workspace
from polyarch.spaces import Architecture, Space, nb201_space

pytest.importorskip("altair", reason="needs the extra 'report'")

NAMES = ["sotl", "val_acc", "params"]


class Convolutions:
    """A truth that counts convolutions, and breaks ties by the key."""

    name = "convolutions"
    space: Space = nb201_space()

    def accuracy(self, architecture: Architecture) -> float:
        return architecture.key.count("conv") + sum(map(ord, architecture.key)) / 1e5

    def __contains__(self, architecture: Architecture) -> bool:
        return True


def settings(**rank: Any) -> RunSettings:
    content = {
        "workers": 1, "checkpoint_seconds": 0, "programs": [],
        "data": {"name": "digits", "limit": 96},
        "space": {"kind": "nb201", "channels": 2},
        "train": {"epochs": 1, "batch_size": 32},
        "scores": {"steps": 2, "policy_batches": 1},
        "rank": {"architectures": 12, "estimators": NAMES, "supernets": 1, "truth": "convolutions", **rank},
    }  # fmt: skip
    return RunSettings.parse(content, "test")


def ranking_of(results: Results) -> RankingRecord:
    found = results.found(OneShotRecord)
    assert found is not None and found.ranking is not None
    return found.ranking


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Results]:
    """Rankings with one seed and with three."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for module in (polyarch.methods.one_shot.method, polyarch.methods.one_shot.ranking):
            patch.setattr(module, "truth_for", lambda name, space: Convolutions())
        for seeds in (1, 3):
            described = settings(seeds=seeds)
            workspace = Workspace.start(tmp_path_factory.mktemp("ranked") / "run", described)
            found[seeds] = perform(Run.build(described, workspace, until="rank"))
    return found


def test_every_estimator_scores_by_every_supernet(ranked: dict[int, Results]) -> None:
    ranking = ranking_of(ranked[3])
    assert ranking.seeds == 3 and len(ranking.architectures) == 12
    for item in ranking.architectures:
        assert [[score.estimator for score in scores] for scores in item.further_seeds] == [NAMES, NAMES]
        assert len(set(item.scores_by_seed("sotl"))) == 3
        assert len(set(item.scores_by_seed("params"))) == 1  # a cost has no seed
    truth = [item.truth for item in ranking.architectures if item.truth is not None]
    rows = np.array([item.scores_by_seed("sotl") for item in ranking.architectures]).T
    expected = np.mean([spearmanr(row, truth).statistic for row in rows])
    assert ranking.quality["sotl"]["spearman"]["value"] == pytest.approx(expected, abs=1e-12)
    assert ranking.trust is not None and ranking.trust.seed_agreement is not None
    pairs = [spearmanr(rows[i], rows[j]).statistic for i, j in ((0, 1), (0, 2), (1, 2))]
    assert ranking.trust.seed_agreement.value == pytest.approx(np.mean(pairs), abs=1e-12)


def test_the_first_seed_is_the_ranking_of_one(ranked: dict[int, Results]) -> None:
    one, three = ranking_of(ranked[1]), ranking_of(ranked[3])
    assert one.seeds == 1 and all(not item.further_seeds for item in one.architectures)
    assert [item.scores for item in one.architectures] == [item.scores for item in three.architectures]
    assert one.quality["params"]["spearman"]["value"] == three.quality["params"]["spearman"]["value"]


def test_the_top_ten_and_differences(ranked: dict[int, Results]) -> None:
    ranking = ranking_of(ranked[1])
    assert list(ranking.top) == NAMES
    largest = sorted(ranking.architectures, key=lambda item: -item.score("params"))[:10]
    truth = [item.truth for item in largest if item.truth is not None]
    assert (top := ranking.top["params"]).k == 10
    assert top.mean.value == pytest.approx(np.mean(truth)) and top.spread == pytest.approx(np.std(truth))
    assert [(one.first, one.second) for one in ranking.differences] == [
        ("sotl", "val_acc"), ("sotl", "params"), ("val_acc", "params")
    ]  # fmt: skip
    rhos = {name: quality["spearman"]["value"] for name, quality in ranking.quality.items()}
    for one in ranking.differences:
        assert one.spearman.value == pytest.approx(rhos[one.first] - rhos[one.second], abs=1e-12)
        means = [ranking.top[name].mean.value for name in (one.first, one.second)]
        assert one.top is not None and None not in means
        assert one.top.value == pytest.approx(means[0] - means[1])  # type: ignore[operator]


def test_every_architecture_is_another_network(ranked: dict[int, Results]) -> None:
    space = nb201_space()
    forms = {space.architecture(item.architecture).canonical() for item in ranking_of(ranked[3]).architectures}
    assert len(forms) == 12


def test_what_the_command_and_the_report_show(ranked: dict[int, Results], tmp_path: Path) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    for part in summary(ranked[3]):
        console.print(part)
    shown = console.export_text()
    top = ranking_of(ranked[3]).top["sotl"]
    for words in ("truth of the top 10", "sotl - params", "Means over 3 supernets", f"{top.mean.value:.4g} ±"):
        assert words in shown, words
    results = cell_results()
    found = results.found(OneShotRecord)
    assert found is not None
    found.ranking = ranking_of(ranked[3]).model_copy(update={"trust": None})
    assert read_again(results, tmp_path) == results
    section = section_of(results, "ranking", "top")
    for words in (
        "Means over 3 supernets of different seeds",
        "top 10",
        f"{top.mean.value:.4g} ±",
        "SoTL) − parameters",
    ):
        assert words in section, words


def test_scores_of_a_seed_have_batches_of_their_own() -> None:
    """With several seeds; the supernet by which a single ranking is checked scores the same batches as the first."""
    run = Run.build(settings(seeds=2), Workspace(Path("nowhere")))
    assert further_count(run.settings) == 1
    tasks = scoring_tasks(run, [reseeded(run)])
    assert list(tasks) == ["rank", "rank-seed-2"]
    first, second = (task.estimators[0].run.train.seed for task in tasks.values())  # type: ignore[attr-defined]
    assert first != second
    single = Run.build(settings(supernets=2), Workspace(Path("nowhere")))
    tasks = scoring_tasks(single, [reseeded(single)])
    assert list(tasks) == ["rank", "rank-second"] and judges(tasks["rank-second"].estimators) == ["sotl"]
    first, second = (task.estimators[0].run.train.seed for task in tasks.values())  # type: ignore[attr-defined]
    assert first == second


def test_seeds_differ_from_each_other() -> None:
    run = Run.build(settings(seeds=4), Workspace(Path("nowhere")))
    seeds = {run.settings.seed, *(reseeded(run, position).settings.seed for position in (1, 2, 3))}
    assert further_count(run.settings) == 3 and len(seeds) == 4
