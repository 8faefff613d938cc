"""Races on tables: who takes part, when they end, what is delivered, and that nothing is lost by a kill."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from stopping import race_stops_at

import polyarch
from polyarch.data import Dataset, resident
from polyarch.data.table_dataset import TableSource, table_dataset
from polyarch.export import read_records
from polyarch.files import Journal
from polyarch.methods.race.candidates import Candidate, Recipe
from polyarch.methods.race.evidence import evidence_training
from polyarch.methods.race.record import RaceRecord
from polyarch.methods.race.rungs import Lane
from polyarch.methods.race.table_ensemble import TableEnsembles, complete_settings, table_training
from polyarch.methods.race.table_suggestion import number_scaling, table_proposal
from polyarch.prediction.predictor import Predictor
from polyarch.predictive.greedy_selection import bagged_weights
from polyarch.randomness import generator_at
from polyarch.results import Results, Role
from polyarch.runs import retraining
from polyarch.runs.folds import FOLDS, WHOLE
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.supernets import PackedMLPSupernet
from polyarch.training.laps import LAP

SHORT: dict[str, Any] = {
    "programs": [],
    "race.candidates": 4,
    "race.finalists": 2,
    "race.first_seconds": 0.08,
    "race.seconds": 5.0,
    "space.kind": "packed",
    "space.members": 2,
    "space.width": 8,
    "data.numbers": "quantile",
    "checkpoint_seconds": 1e6,
}


def frame(rows: int = 300) -> pd.DataFrame:
    """There is little to learn, so that trainings end early."""
    random = np.random.default_rng(0)
    numbers = random.standard_normal((rows, 2))
    kind = random.choice(["a", "b"], rows)
    label = random.choice(["high", "low"], rows)
    return pd.DataFrame({"x": np.exp(2 * numbers[:, 0]), "z": numbers[:, 1], "kind": kind, "label": label})


def table(target: str = "label") -> Dataset:
    task = "classification" if target == "label" else "regression"
    return table_dataset("made", TableSource(frame(), "made"), target=target, task=task)  # type: ignore[arg-type]


def search(out: Path, data: Dataset | None = None, **others: Any) -> Results:
    settings = {**SHORT, **others.pop("settings", {})}
    given = {"method": "race", "quiet": True, "report": False, **others}
    return polyarch.search(data or table(), out=out, settings=settings, **given).results


def record_of(results: Results) -> RaceRecord:
    found = results.found(RaceRecord)
    assert found is not None
    return found


@pytest.fixture(scope="module", autouse=True)
def little_patience() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("polyarch.methods.race.training.PATIENCE", 2)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("table race") / "run"


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    return search(folder)


def best_candidate(run: Run, results: Results) -> Candidate:
    best = record_of(results).candidates[record_of(results).best]
    rate, decay = (float(part.split()[1]) for part in best.recipe.split(", "))
    assert results.artifact is not None
    return Candidate(
        run.net.space.architecture(best.architecture), seed=results.artifact["seed"], recipe=Recipe(rate, decay)
    )


def test_a_race_keeps_its_time(folder: Path, results: Results) -> None:
    journals = (folder / "checkpoints").glob("race *.jsonl")
    records = [record for path in journals for record in Journal(path).records if "key" in record]
    seconds: dict[str, float] = {}
    for record in records:
        seconds[record["key"]] = max(seconds.get(record["key"], 0.0), record["value"]["seconds"])
    assert 0.5 * 5.0 < sum(seconds.values()) / 2 <= 5.0 + 0.1


def test_known_good_settings_come_first_and_relatives_follow(results: Results) -> None:
    candidates = record_of(results).candidates
    assert sum(one.is_reference for one in candidates) == 1
    reference = record_of(results).reference
    assert reference is not None and reference.architecture == {"embedding": "none", "depth": "2", "dropout": "0.1"}
    assert len(candidates) > 4  # the time went to further networks
    assert all(one.recipe.startswith("rate ") for one in candidates)
    assert sum(not one.is_finalist for one in candidates) == 2


def test_shares_are_those_of_the_ensemble(results: Results) -> None:
    shares = [one.share for one in record_of(results).candidates]
    assert sum(shares) == pytest.approx(1.0)
    ensemble = next(one for one in results.predictors if one.folder == results.default)
    assert ensemble.weights == pytest.approx([share / FOLDS for share in shares if share > 0 for _ in range(FOLDS)])


def test_examples_are_predicted_by_networks_that_were_trained_without_them(folder: Path, results: Results) -> None:
    """What calibrates the ensemble, computed again from the weights on disk."""
    run = Run.build(RunSettings.parse(results.settings, "the results"), Workspace(folder), data=table())
    training = table_training(run)
    candidate = best_candidate(run, results)
    lanes = [Lane(replace(candidate, fold=fold)) for fold in range(FOLDS)]
    ensemble = TableEnsembles(run, training).ensemble(complete_settings(lanes), [1.0])
    known = ensemble.known
    assert known is not None and known.valid.shape[:2] == (FOLDS, len(run.feed.data.train))
    whole, place = resident(run.feed.data.train), 0
    for lane, rows in zip(lanes, training.folds, strict=True):
        unseen = whole.inputs[rows]
        with torch.no_grad():
            expected = training.network(lane.candidate)(run.feed.preprocessing(unseen)).double()
        for member in known.valid:
            torch.testing.assert_close(member[place : place + len(rows)], expected, rtol=1e-5, atol=1e-6)
        assert torch.equal(known.valid_targets[place : place + len(rows)], whole.targets[rows])
        place += len(rows)


def test_the_network_alone_was_trained_on_all_rows(folder: Path, results: Results) -> None:
    """For as many passes as its folds on average, and it is calibrated by what they say."""
    whole = Journal(folder / "checkpoints" / "race whole.jsonl").records
    assert len(whole) == 1 and whole[0]["key"].endswith("fold -1")
    setting = whole[0]["key"].removesuffix(" fold -1")
    found: dict[str, int] = {}
    for path in (folder / "checkpoints").glob("race *.jsonl"):
        for record in Journal(path).records:
            if record.get("key", "").startswith(setting) and "whole" not in path.name:
                found[record["key"]] = max(found.get(record["key"], 0), record["value"]["best_steps"])
    assert len(found) == FOLDS
    run = Run.build(RunSettings.parse(results.settings, "the results"), Workspace(folder), data=table())
    expected = statistics.median(found.values()) * len(run.feed.data.train) / len(run.feed.train)
    assert expected <= whole[0]["value"]["steps"] < expected + LAP + 1  # to the end of a lap
    candidate = best_candidate(run, results)
    assert candidate.key == setting
    network = table_training(run).network(replace(candidate, fold=WHOLE))
    judged = retraining.tested(run, network)
    assert judged["score"] == results.predictors[0].uncalibrated["accuracy"]


def test_settings_without_all_folds_are_left_out() -> None:
    architecture = PackedMLPSupernet(features=2, classes=2, members=2, width=4).space.sample(generator_at(0, "test"))
    first, second = (Candidate(architecture, seed=seed) for seed in (0, 1))
    whole = [Lane(replace(first, fold=fold)) for fold in (1, 0)]
    assert complete_settings([*whole, Lane(second)]) == [(whole[1], whole[0])]
    assert complete_settings([Lane(first), Lane(second)]) == [(Lane(first),), (Lane(second),)]
    assert complete_settings([Lane(first), Lane(replace(second, fold=1)), Lane(second)]) == [
        (Lane(second), Lane(replace(second, fold=1)))
    ]


def test_a_race_that_was_stopped_ends_with_the_same_bits(results: Results, tmp_path: Path) -> None:
    """Stopped in the first rung, in the second and in a wave."""
    with race_stops_at(3, 6, 9):
        for resume in (False, True, True):
            with pytest.raises(KeyboardInterrupt):
                search(tmp_path / "run", resume=resume)
    again = search(tmp_path / "run", resume=True)
    assert again.model_dump(exclude={"seconds"}) == results.model_dump(exclude={"seconds"})


def test_a_race_that_was_stopped_can_finish_now(tmp_path: Path) -> None:
    with race_stops_at(3), pytest.raises(KeyboardInterrupt):
        search(tmp_path / "run")
    found = search(tmp_path / "run", resume=True, finish_now=True)
    assert len(record_of(found).candidates) == 2


@pytest.mark.slow
def test_a_race_ends_before_its_time_when_nothing_is_gained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("polyarch.methods.race.table_race.LEAST_GAIN", 10.0)
    found = search(tmp_path / "run", settings={"race.seconds": 60.0}, quiet=False)
    said = " ".join(capsys.readouterr().out.split())
    assert "The race ends before its time: 22 networks were trained" in said  # 4, and 2 * 4 more folds, and 2 * 5
    assert len(record_of(found).candidates) == 4 + 2


@pytest.mark.slow
@pytest.mark.parametrize("target", ["label", "z"])
def test_programs_and_loaded_networks_predict_what_was_judged(target: str, tmp_path: Path) -> None:
    data = table(target)
    found = search(tmp_path / "run", data, settings={"programs": ["pt2", "onnx"]})
    answer = tmp_path / "run" / str(found.default)
    exports = read_records(answer)[1].exports  # programs that disagree with the networks are an error
    assert {"model.pt2", "model.onnx"} == exports.keys()
    judged = next(one for one in found.predictors if one.folder == found.default)
    test = resident(data.test)
    predictions = Predictor.load(answer)(test.inputs)
    if target == "label":
        score = (predictions.probabilities.argmax(1) == test.targets).double().mean()
    else:
        score = (predictions.mean - test.targets).square().mean().sqrt()
    assert float(score) == pytest.approx(judged.score, rel=1e-5)


def test_what_is_suggested_suits_the_columns() -> None:
    assert table_proposal(table(), 360).settings == {"kind": "packed", "members": 8, "numbers": 2}
    categories = table_dataset(
        "made", TableSource(frame()[["kind", "label"]], "made"), target="label", task="classification"
    )
    assert table_proposal(categories, 360).settings["embeddings"] == ["none"]
    assert number_scaling(table()) == "standard"  # few rows
    many = table_dataset("made", TableSource(frame(2000), "made"), target="label", task="classification")
    assert number_scaling(many) == "quantile"


def test_networks_of_numbers_hold_fewer_members_where_there_is_little_time() -> None:
    """240 rows, batches of 30: 640 steps of 3.3 ms and 0.13 ms per member are to fit into a tenth of the time."""
    members = [table_proposal(table("z"), seconds).settings["members"] for seconds in (1, 25, 360)]
    assert members == [1, 4, 8]
    assert table_proposal(table(), 1).settings["members"] == 8  # classes are learned sooner


def bagged(likelihoods: Sequence[Sequence[float]]) -> list[float]:
    log_likelihoods = torch.tensor(likelihoods, dtype=torch.float64).log()
    return bagged_weights(log_likelihoods, generator=generator_at(0, "bags")).tolist()


def test_bags_take_what_is_good_together() -> None:
    shares = bagged([[0.9] * 5 + [0.1] * 5, [0.1] * 5 + [0.9] * 5, [0.05] * 10, [0.05] * 10])
    assert sum(shares) == pytest.approx(1.0) and min(shares[:2]) > 0.2 > max(shares[2:])
    assert bagged([[0.5, 0.5]]) == [1.0]
    assert all(np.isfinite(bagged([[1.0, 1e-300], [1e-300, 1.0]])))


@pytest.mark.slow
def test_evidence_is_trained_on_all_rows_as_the_winner_is(tmp_path: Path) -> None:
    found = search(tmp_path / "run", evidence=True, settings={"race.seconds": 3.0})
    run = Run.build(RunSettings.parse(found.settings, "the results"), Workspace(tmp_path / "run"), data=table())
    task, recipe = evidence_training(run), best_candidate(run, found).recipe
    random = next(one for one in found.comparison or [] if one.role == Role.RANDOM)
    for one in random.runs:
        candidate = Candidate(run.net.space.architecture(one.architecture), seed=one.seed, recipe=recipe)
        whole = task.network(replace(candidate, fold=WHOLE))
        assert one.score == retraining.tested(run, whole)["score"]
        before = retraining.evaluate(run.task, task.network(candidate), run.feed.in_order(run.feed.valid))
        assert one.valid_score == pytest.approx(before["accuracy"])  # on rows that it had not seen
