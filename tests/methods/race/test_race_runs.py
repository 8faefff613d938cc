"""Races from data to an artifact: who takes part, what is delivered, and that nothing is lost by a kill."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from stopping import race_stops_at

import polyarch
from polyarch.data import Dataset, TensorData
from polyarch.errors import ConfigError
from polyarch.methods.race.record import RaceRecord
from polyarch.randomness import generator_at
from polyarch.reports import write_report
from polyarch.results import Results, Role

SHORT: dict[str, Any] = {
    "programs": [],
    "data.limit": 200,
    "race.candidates": 8,
    "race.finalists": 2,
    "race.first_seconds": 0.07,
    "race.seconds": 0.6,
    "space.kind": "pooled",
    "space.widths": [8, 12, 16],
    "race.warmup": 10,
    "checkpoint_seconds": 1e6,
}


def images(shape: tuple[int, ...] = (1, 8, 8)) -> Dataset:
    """Whether the upper half is brighter."""
    inputs = torch.rand(400, *shape, generator=generator_at(0, "images"))
    labels = torch.arange(400) % 2
    inputs[labels == 1, :, :4] += 0.5
    data = TensorData(inputs, labels, 2)
    return Dataset("halves", data.subset(range(300)), data.subset(range(300, 400)), ("dark", "bright"))


def search(data: Any, out: Path, **others: Any) -> Results:
    settings = {**SHORT, **others.pop("settings", {})}
    if not data.is_image:
        settings = {key: value for key, value in settings.items() if not key.startswith("space.")}
    given = {"method": "race", "quiet": True, "report": False, **others}
    return polyarch.search(data, out=out, settings=settings, **given).results


def record_of(results: Results) -> RaceRecord:
    found = results.found(RaceRecord)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("race") / "run"


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    return search(images(), folder)


class TestRun:
    def test_the_plain_network_takes_part(self, results: Results) -> None:
        reference = record_of(results).reference
        assert reference is not None
        assert reference.architecture["family"] == "plain" and reference.architecture["plain.width"] == "16"
        assert reference.parent is None

    def test_half_goes_on_at_every_rung(self, results: Results) -> None:
        record = record_of(results)
        legs = [len(one.legs) for one in record.candidates]
        assert sum(one.is_finalist for one in record.candidates) == 2
        assert legs[:2] == [4, 4] and sorted(legs[2:]) == [1] * 6 + [2] * 2
        assert [leg.seconds for leg in record.candidates[0].legs] == sorted(
            leg.seconds for leg in record.candidates[0].legs
        )

    def test_children_go_on_from_their_parents(self, results: Results) -> None:
        candidates = record_of(results).candidates
        children = [one for one in candidates if one.parent is not None]
        assert len(children) == 2
        for child in children:
            assert child.parent is not None
            parent = candidates[child.parent]
            assert (child.architecture == parent.architecture) != (child.augmentation == parent.augmentation)
            assert child.legs[0] == parent.legs[0] and child.legs[1].steps > parent.legs[0].steps

    def test_the_best_finalist_by_validation_is_delivered(self, results: Results, folder: Path) -> None:
        record = record_of(results)
        scores = [one.legs[-1].valid_score for one in record.candidates if one.is_finalist]
        assert record.candidates[record.best].legs[-1].valid_score == max(scores)
        assert results.artifact is not None
        assert results.artifact["architecture"] == record.candidates[record.best].architecture
        best = results.contender(Role.BEST)
        assert best is not None and best.mean == results.predictors[0].uncalibrated["accuracy"]
        assert (folder / "artifact").is_dir()

    def test_shares_are_those_of_the_ensemble(self, results: Results) -> None:
        shares = [one.share for one in record_of(results).candidates]
        assert sum(shares) == pytest.approx(1.0)
        if results.default == "ensemble":
            ensemble = next(one for one in results.predictors if one.folder == "ensemble")
            assert ensemble.weights == [share for share in shares if share > 0]

    def test_the_report_says_what_was_gained_and_against_what(self, results: Results, tmp_path: Path) -> None:
        pytest.importorskip("altair", reason="needs the extra 'report'")
        from polyarch.methods.race.report import section

        write_report(results, tmp_path / "report.html")
        assert "Sizes after the first rung" in (tmp_path / "report.html").read_text()
        record = record_of(results)
        found = section(results)
        assert found.sentences is not None
        assert found.sentences[0].startswith("On halves, ")
        assert any("plain network" in one or "plain residual network" in one for one in found.sentences[:3])
        others = [one.model_copy(update={"is_reference": False}) for one in record.candidates]
        unfinished = results.model_copy(update={"record": record.model_copy(update={"candidates": others})})
        sentences = section(unfinished).sentences
        assert any("before the plain network had begun to train" in one for one in sentences or [])

    def test_it_learns(self, results: Results) -> None:
        assert results.predictors[0].score > 0.9


def test_a_race_that_was_stopped_ends_with_the_same_bits(results: Results, tmp_path: Path) -> None:
    """Stopped in the first rung, right after the children got their weights, and in the final."""
    with race_stops_at(4, 11, 16):
        for resume in (False, True, True):
            with pytest.raises(KeyboardInterrupt):
                search(images(), tmp_path / "run", resume=resume)
    again = search(images(), tmp_path / "run", resume=True)
    assert again.model_dump(exclude={"seconds"}) == results.model_dump(exclude={"seconds"})


@pytest.mark.parametrize("at", [2, pytest.param(10, marks=pytest.mark.slow), 15])
def test_a_race_that_was_stopped_can_finish_now(at: int, tmp_path: Path) -> None:
    with race_stops_at(at), pytest.raises(KeyboardInterrupt):
        search(images(), tmp_path / "run")
    found = search(images(), tmp_path / "run", resume=True, finish_now=True)
    candidates = record_of(found).candidates
    assert 1 <= len(candidates) <= 10
    assert found.predictors[0].score > 0.4 and (tmp_path / "run" / "artifact").is_dir()
    longest = max(leg.steps for one in candidates for leg in one.legs)
    assert candidates[record_of(found).best].legs[-1].steps <= longest


def test_nothing_to_finish_is_said(tmp_path: Path) -> None:
    with race_stops_at(1), pytest.raises(KeyboardInterrupt):
        search(images(), tmp_path / "run")
    with pytest.raises(ConfigError, match="a race in which a network has begun to train"):
        search(images(), tmp_path / "run", resume=True, finish_now=True)


@pytest.mark.slow
def test_evidence_is_trained_on_request(tmp_path: Path) -> None:
    few = {"race.candidates": 4, "race.seconds": 0.3}
    found = search(images(), tmp_path / "run", settings=few, evidence=True)
    sides = {one.role: one for one in found.comparison or []}
    assert len(sides[Role.BEST].runs) == 3 and len(sides[Role.RANDOM].runs) == 3
    assert len({run.seed for run in sides[Role.BEST].runs}) == 3
    assert sides[Role.BASELINE].name == "plain network"
    plain = record_of(found).reference
    assert plain is not None and (plain.is_finalist or len(sides[Role.BASELINE].runs[0].history) > 0)
    tau = record_of(found).speed_agreement
    assert tau is not None and -1 <= tau <= 1
    pytest.importorskip("altair", reason="needs the extra 'report'")
    from polyarch.methods.race.report import section

    assert any("3 random networks of the same space" in one for one in section(found).sentences or [])


@pytest.mark.slow
def test_workers_do_not_change_the_bits(results: Results, tmp_path: Path) -> None:
    again = search(images(), tmp_path / "run", workers=2)
    assert again.record == results.record


@pytest.mark.slow
def test_limits_hold_for_everyone(tmp_path: Path) -> None:
    found = search(images(), tmp_path / "run", max_params=9000)
    assert max(one.parameters for one in record_of(found).candidates) <= 9000


@pytest.mark.slow
def test_minutes_are_kept(tmp_path: Path) -> None:
    free = {"race.first_seconds": None, "race.seconds": None}
    with pytest.raises(ConfigError, match=r"a limit of 0\.2 minutes or more for a race\. Got 0\.01"):
        search(images(), tmp_path / "none", max_minutes=0.01, settings=free)
    started = time.monotonic()
    found = search(images(), tmp_path / "run", max_minutes=0.25, settings={"race.candidates": 4})
    assert found.settings["race"]["clock"] == "real"
    assert 9 < time.monotonic() - started < 18


@pytest.mark.parametrize("kind", ["numbers", pytest.param("classes", marks=pytest.mark.slow)])
def test_tables_race_too(kind: str, tmp_path: Path) -> None:
    inputs = torch.randn(300, 4, generator=generator_at(0, "table"))
    numbers = inputs[:, 0] * inputs[:, 1]
    targets = numbers[:, None] if kind == "numbers" else (numbers > 0).long()
    names: tuple[str, ...] = () if kind == "numbers" else ("low", "high")
    whole = TensorData(inputs, targets, len(names))
    given = Dataset(
        "made", whole.subset(range(240)), whole.subset(range(240, 300)), names, target_names=("y",) if not names else ()
    )
    found = search(given, tmp_path / "run")
    assert record_of(found).candidates[0].augmentation == "none"
    assert found.predictors[0].metrics["loss"] == found.predictors[0].loss
