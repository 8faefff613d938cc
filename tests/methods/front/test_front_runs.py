"""Fronts from data to artifacts: what is measured, what is extracted, and that nothing is lost by a kill."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import polyarch
from polyarch import SearchResult, load_run
from polyarch.data import Dataset, TensorData
from polyarch.errors import ConfigError, InvalidInput
from polyarch.methods.front.record import FrontRecord
from polyarch.methods.front.training import ElasticTraining
from polyarch.prediction.loading import load_network
from polyarch.randomness import generator_at
from polyarch.results import Results
from polyarch.runs.display import Quiet
from polyarch.runs.run import Run
from polyarch.runs.start import Beginning
from polyarch.training import Callback, FitState, StopRequest

SHORT: dict[str, Any] = {
    "programs": [],
    "data.limit": 120,
    "front.seconds": 0.35,
    "front.warmup": 5,
    "front.crop": 0.75,
    "space.kind": "resnet",
    "space.widths": [4, 8],
    "space.max_depth": 2,
    "space.kernels": [3],
    "checkpoint_seconds": 0,
}


def images() -> Dataset:
    """Whether the upper half is brighter, with noise."""
    inputs = torch.rand(260, 1, 8, 8, generator=generator_at(0, "images"))
    labels = torch.arange(260) % 2
    inputs[labels == 1, :, :4] += 0.2
    data = TensorData(inputs, labels, 2)
    return Dataset("halves", data.subset(range(200)), data.subset(range(200, 260)), ("dark", "bright"))


def search(data: Dataset, out: Path, **others: Any) -> SearchResult:
    settings = {**SHORT, **others.pop("settings", {})}
    if not data.is_image:
        settings = {key: value for key, value in settings.items() if not key.startswith("space.")}
    return polyarch.search(data, out=out, front=True, quiet=True, settings=settings, **{"report": False, **others})


def reopened(folder: Path, data: Dataset) -> Run:
    return Beginning(folder, Quiet(), StopRequest(), data=data).reopen(None, {}, "the test")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    return search(images(), tmp_path_factory.mktemp("front") / "run")


class TestRun:
    def test_sizes_go_from_small_to_large(self, found: SearchResult) -> None:
        assert [(one.architecture["stage1.width"], one.architecture["stage2.depth"]) for one in found.front] == [
            ("4", "1"), ("4", "2"), ("8", "1"), ("8", "2"),
        ]  # fmt: skip
        macs = [one.macs for one in found.front]
        assert macs == sorted(macs)
        assert all(one.latency > 0 and math.isfinite(one.loss) for one in found.front)

    def test_the_best_on_validation_data_is_delivered(self, found: SearchResult) -> None:
        record = found.results.found(FrontRecord)
        assert record is not None and found.results.artifact is not None
        assert record.sizes[record.best].valid_score == max(one.valid_score for one in record.sizes)
        assert record.sizes[record.best].is_on_front
        assert found.results.artifact["architecture"] == record.sizes[record.best].architecture
        assert found.results.predictors[0].uncalibrated["accuracy"] == record.sizes[record.best].score
        assert found.results.default == "artifact" and (found.folder / "artifact").is_dir()

    def test_it_learns(self, found: SearchResult) -> None:
        assert max(one.score for one in found.front) > 0.7

    def test_an_extracted_size_predicts_like_the_elastic_network(self, found: SearchResult) -> None:
        extracted = found.extract(at=1)
        run = reopened(found.folder, images())
        training = ElasticTraining(run)
        training.load()
        architecture = run.net.space.architecture(found.front[1].architecture)
        network = training.network(architecture)
        batch = next(iter(run.feed.in_order(run.feed.data.test).epoch(0)))
        with torch.no_grad():
            expected, stored = network(batch.inputs), load_network(extracted.folder)(batch.inputs)
        assert torch.allclose(stored, expected, atol=1e-6)
        assert extracted.record.uncalibrated["accuracy"] == found.front[1].score
        assert extracted.folder == found.folder / "sizes" / "1"
        predictions = extracted.predictor()(batch.inputs[:5])
        assert predictions.probabilities.shape == (5, 2)

    def test_limits_choose_the_best_that_fits(self, found: SearchResult, tmp_path: Path) -> None:
        most = found.front[1].parameters
        extracted = found.extract(max_params=most, out=tmp_path / "small")
        assert found.front[extracted.index].parameters <= most
        fitting = [one.valid_score for one in found.front if one.parameters <= most]
        assert found.front[extracted.index].valid_score == max(fitting)
        assert found.extract(max_macs=found.front[0].macs).index == 0

    def test_what_cannot_be_is_said(self, found: SearchResult, tmp_path: Path) -> None:
        smallest = found.front[0].parameters
        with pytest.raises(InvalidInput, match=rf"at most 10 parameters.*smallest size has {smallest:,} parameters"):
            found.extract(max_params=10)
        with pytest.raises(InvalidInput, match=r"index of a size, 0\.\.3\. Got 4"):
            found.extract(at=4)
        for limits in ({}, {"at": 0, "max_params": 100}):
            with pytest.raises(InvalidInput, match="index of a size, or limits"):
                found.extract(**limits)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="more than 0 minutes"):
            found.extract(at=0, tune_minutes=0)
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(InvalidInput, match="Found neither"):
            found.extract(at=0, out=tmp_path)
        with pytest.raises(ConfigError, match="Expected a run in"):
            load_run(tmp_path)

    def test_tuning_is_never_worse_on_validation_data(self, found: SearchResult, tmp_path: Path) -> None:
        tuned = found.extract(at=0, tune_minutes=0.01, out=tmp_path / "tuned")
        assert 0 <= tuned.record.score <= 1
        assert (tmp_path / "tuned" / "architecture.json").exists()

    def test_the_report_says_how_to_extract_every_size(self, found: SearchResult) -> None:
        pytest.importorskip("altair", reason="needs the extra 'report'")
        from polyarch.methods.front.report import section
        from polyarch.reports.page import render

        page = render(found.results)
        for index in range(len(found.front)):
            assert f"polyarch extract RUN --at {index}\n" in page and f'id="size-{index}"' in page
        unfinished = found.results.model_copy(update={"record": None})
        assert section(unfinished).template is None


class Stop(Callback):
    """Stops the run after so many steps."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_step_end(self, state: FitState, metrics: Any) -> None:
        if state.step == self.after:
            raise KeyboardInterrupt


def comparable(results: Results) -> dict[str, Any]:
    """Everything but what is measured by a clock."""
    content: dict[str, Any] = json.loads(results.model_dump_json(exclude={"seconds"}))
    for one in content["record"]["sizes"]:
        del one["latency"]
    return content


@pytest.mark.parametrize("step", [20, 40])
def test_a_front_that_was_stopped_ends_with_the_same_bits(found: SearchResult, step: int, tmp_path: Path) -> None:
    """Stopped before and while the learning rate falls."""
    steps = found.results.found(FrontRecord)
    assert steps is not None and steps.steps > 41
    with pytest.raises(KeyboardInterrupt):
        search(images(), tmp_path / "run", callbacks=[Stop(step)])
    again = search(images(), tmp_path / "run", resume=True, callbacks=[Stop(0)])
    assert comparable(again.results) == comparable(found.results)


def test_a_front_that_was_stopped_can_finish_now(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(images(), tmp_path / "run", callbacks=[Stop(20)])
    again = search(images(), tmp_path / "run", resume=True, finish_now=True, callbacks=[Stop(0)])
    record = again.results.found(FrontRecord)
    assert record is not None and record.steps <= 20 and len(record.sizes) == 4


def test_nothing_to_finish_is_said(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(images(), tmp_path / "run", callbacks=[Stop(1)], settings={"checkpoint_seconds": 1e6})
    with pytest.raises(ConfigError, match="a training that has begun"):
        search(images(), tmp_path / "run", resume=True, finish_now=True, callbacks=[Stop(0)])
    with pytest.raises(ConfigError, match="Expected a run in"):
        load_run(tmp_path / "run")


def test_spaces_without_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"share weights and differ in size, such as resnet.*Got 'nb201'"):
        polyarch.search(
            images(), out=tmp_path / "run", front=True, quiet=True, settings={"space.kind": "nb201", "data.limit": 100}
        )
    with pytest.raises(ConfigError, match="differ in size within the limits"):
        search(images(), tmp_path / "run", max_params=10)
    with pytest.raises(ConfigError, match="front without another method"):
        polyarch.search(images(), out=tmp_path / "run", front=True, method="race")


def table(kind: str) -> Dataset:
    inputs = torch.randn(200, 4, generator=generator_at(0, "table"))
    numbers = (inputs[:, 0] * inputs[:, 1])[:, None]
    targets = numbers if kind == "numbers" else torch.cat([numbers > 0, inputs[:, 2:3] > 0], 1)
    whole = TensorData(inputs, targets)
    names = ("y",) if kind == "numbers" else ("first", "second")
    return Dataset("made", whole.subset(range(160)), whole.subset(range(160, 200)), (), target_names=names)


@pytest.mark.parametrize("kind", ["numbers", pytest.param("labels", marks=pytest.mark.slow)])
def test_tables_have_fronts_too(kind: str, tmp_path: Path) -> None:
    found = search(table(kind), tmp_path / "run")
    assert len(found.front) == 12  # four widths and three depths
    extracted = found.extract(at=0, tune_minutes=0.005)
    assert math.isfinite(extracted.record.loss)


@pytest.mark.slow
def test_mobile_networks_have_fronts(tmp_path: Path) -> None:
    space = {"space.kind": "mobile", "space.max_depth": 2, "space.widths": [8, 12], "space.head_channels": 16}
    found = search(images(), tmp_path / "run", settings={**space, "front.seconds": 0.2})
    assert len(found.front) >= 4
