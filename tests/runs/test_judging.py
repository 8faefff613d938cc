"""Judgements of predictors against the same numbers taken by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from polyarch.data import Dataset, TensorData
from polyarch.errors import ConfigError
from polyarch.export import Program
from polyarch.nn import StackedNetworks
from polyarch.prediction.loading import load_artifact
from polyarch.predictive import detect
from polyarch.randomness import generator_at
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.judging import CURVE_POINTS, Ensemble, judge, ood_batches
from polyarch.runs.retraining import evaluate
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.spaces import Architecture


def made(ood: str | None = None, classes: int = 3) -> Run:
    inputs = torch.rand(240, 1, 8, 8, generator=generator_at(0, "judged"))
    targets = torch.arange(240) % classes
    inputs[torch.arange(240), 0, 0, targets] += 0.4  # the brightest of the first pixels tells the class, mostly
    part = TensorData(inputs, targets, classes)
    data = Dataset("noise", part, part.subset(torch.arange(0, 240, 2)), tuple(map(str, range(classes))))
    content = {"space": {"kind": "nb201", "channels": 2}, "data": {"name": "noise", "ood": ood}}
    return Run.build(RunSettings.parse({**content, "workers": 1}, "the test"), Workspace(Path()), data=data)


def test_losses_are_finite_where_probabilities_are_not_told_from_zero() -> None:
    """A network of which most was never trained together may be wrong with logits in the thousands."""
    run = made()
    last = nn.Linear(64, 3)
    network = nn.Sequential(nn.Flatten(), last)
    with torch.no_grad():
        last.weight.mul_(1e5)
        inputs, targets = next(iter(run.feed.in_order(run.feed.valid).epoch(0)))
        expected = F.cross_entropy(network(inputs).double(), targets).item()
    found = evaluate(run.task, network, run.feed.in_order(run.feed.valid))["loss"]
    assert len(targets) == len(run.feed.valid) and found == pytest.approx(expected) and found > 1000


def test_a_mixture_of_two() -> None:
    run = made("digits")
    architectures = [run.net.space.sample(generator_at(0, "members", index)) for index in range(2)]
    members = [(architecture, run.net.extract(architecture).eval()) for architecture in architectures]
    foreign_batches = ood_batches(run)
    assert foreign_batches is not None
    record, calibration = judge(Ensemble.of("two", members, [0.3, 0.7]), run, foreign_batches)

    def logits(inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.stack([network(run.feed.preprocessing(inputs)) for _, network in members]).double()

    (inputs,) = run.feed.data.test.stream([torch.arange(len(run.feed.data.test))])
    targets = run.feed.data.test.targets
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)

    def mix(values: torch.Tensor, temperature: float) -> torch.Tensor:
        return torch.einsum("k,knc->nc", weights, torch.softmax(values / temperature, -1))

    mixture = mix(logits(inputs), record.temperature)
    assert record.temperature == calibration.temperature and record.threshold == calibration.threshold
    assert record.score == pytest.approx(float((mixture.argmax(1) == targets).double().mean()))
    assert record.score == record.metrics["accuracy"]
    assert record.loss == pytest.approx(float(F.nll_loss(mixture.log(), targets)), rel=1e-5)
    plain = mix(logits(inputs), 1.0)
    assert record.uncalibrated["loss"] == pytest.approx(float(F.nll_loss(plain.log(), targets)), rel=1e-5)
    entropy = torch.special.entr(mixture).sum(1)
    assert record.flagged == pytest.approx(float((entropy > record.threshold).double().mean()), abs=0.01)
    assert sum(part.count for part in record.reliability) == len(targets)
    assert record.coverage[-1] == 1 and record.risk[-1] == pytest.approx(1 - record.score)
    assert len(record.coverage) <= CURVE_POINTS
    (foreign,) = (torch.cat([batch.inputs for batch in foreign_batches.epoch(0)]),)
    with torch.no_grad():
        far = torch.stack([network(foreign) for _, network in members]).double()
    away = torch.special.entr(mix(far, record.temperature)).sum(1)
    assert record.detection["entropy"]["auroc"] == pytest.approx(detect(entropy, away).auroc, abs=1e-3)
    assert set(record.detection) == {"entropy", "max_probability", "mutual_information"}
    doubt = [1 - mix(values, record.temperature).amax(1) for values in (logits(inputs), far)]
    assert record.detection["max_probability"]["auroc"] == pytest.approx(detect(*doubt).auroc, abs=1e-3)


def test_the_temperature_is_that_of_the_validation_data() -> None:
    """No temperature nearby has a lower loss there."""
    run = made()
    architecture = run.net.space.sample(generator_at(0, "members", 0))
    linear = nn.Linear(64, 3)
    with torch.no_grad():
        linear.weight.copy_(3 * torch.eye(3, 64))  # the brightest of the first three pixels, too surely
    network = nn.Sequential(nn.Flatten(), linear)
    record, _ = judge(Ensemble.of("one", [(architecture, network)]), run, None)
    assert record.detection == {}
    (inputs,) = run.feed.valid.stream([torch.arange(len(run.feed.valid))])
    with torch.no_grad():
        logits = network(run.feed.preprocessing(inputs)).double()

    def loss(temperature: float) -> float:
        return float(F.cross_entropy(logits / temperature, run.feed.valid.targets))

    assert 1.2 < record.temperature < 10
    best = loss(record.temperature)
    assert best <= min(loss(record.temperature * factor) for factor in (0.9, 1.1)) + 1e-9


def depths_of(run: Run) -> list[Architecture]:
    return list(run.net.space.enumerate())


def deep() -> Run:
    """Data and a network whose depth is the choice, with statistics that are not those of its creation."""
    data = made().feed.data
    content = {"space": {"kind": "depth_fc", "max_depth": 3, "width": 6}, "data": {"name": "noise"}, "programs": []}
    run = Run.build(RunSettings.parse({**content, "workers": 1}, "the test"), Workspace(Path()), data=data)
    (inputs,) = run.feed.train.stream([torch.arange(len(run.feed.train))])
    with torch.no_grad():
        run.net.train().forward_many(run.feed.preprocessing(inputs), depths_of(run))
    run.net.eval()
    return run


SHARES = [0.1, 0.2, 0.3, 0.4]


def test_one_network_for_all_members_is_judged_like_separate_ones() -> None:
    run = deep()
    depths = depths_of(run)
    apart = Ensemble.of("depths", [(depth, run.net.extract(depth).eval()) for depth in depths], SHARES)
    network = run.net.extract_many(depths).eval()
    calls: list[int] = []
    network.register_forward_pre_hook(lambda _, inputs: calls.append(len(inputs[0])))
    together = Ensemble("depths", depths, network, SHARES)
    batches = run.feed.in_order(run.feed.valid)
    for found, expected in zip(together.outputs(batches), apart.outputs(batches), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert sum(calls) == len(run.feed.valid)
    one, other = (judge(ensemble, run, None)[0].model_dump() for ensemble in (together, apart))
    assert one["members"] == other["members"] and one["weights"] == SHARES
    for name in ("temperature", "score", "loss", "metrics", "uncalibrated", "threshold", "risk"):
        assert one[name] == pytest.approx(other[name], rel=1e-4, abs=1e-5)


def test_artifacts_of_one_network_and_of_separate_ones(tmp_path: Path) -> None:
    """What cannot stop early has no confidence."""
    run = deep()
    depths = depths_of(run)
    networks = {
        "shared": run.net.extract_many(depths).eval(),
        "apart": StackedNetworks([run.net.extract(depth).eval() for depth in depths]),
    }
    sides = [(Ensemble(name, depths, network, SHARES, 0.8), tmp_path / name) for name, network in networks.items()]
    records = write_predictors(replace(run, workspace=Workspace(tmp_path)), sides)
    assert [(record.name, record.folder) for record in records] == [("shared", "shared"), ("apart", "apart")]
    shared, apart = (load_artifact(folder) for _, folder in sides)
    assert shared.shared and shared.exit_confidence == 0.8
    assert not apart.shared and apart.exit_confidence is None
    inputs = run.feed.raw_examples(20)
    with torch.no_grad():
        for found, expected in zip(Program.of(shared)(inputs), Program.of(apart)(inputs), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert shared.calibration.temperature == pytest.approx(records[0].temperature)
    assert shared.metrics["accuracy"] == records[0].score


def test_ood_data_must_be_images() -> None:
    with pytest.raises(ConfigError, match="images on both sides"):
        ood_batches(made("spirals"))
    assert ood_batches(made()) is None
