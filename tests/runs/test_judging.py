"""Judgements of predictors against the same numbers taken by hand."""

from __future__ import annotations

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
from polyarch.predictive import auroc
from polyarch.randomness import generator_at
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.display import Quiet
from polyarch.runs.judging import CURVE_POINTS, Ensemble, judge, outside_batches
from polyarch.runs.parts import Parts
from polyarch.runs.retraining import evaluate
from polyarch.runs.run import Context
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.spaces import Architecture


def made(outside: str | None = None, classes: int = 3) -> Parts:
    inputs = torch.rand(240, 1, 8, 8, generator=generator_at(0, "judged"))
    targets = torch.arange(240) % classes
    inputs[torch.arange(240), 0, 0, targets] += 0.4  # the brightest of the first pixels tells the class, mostly
    part = TensorData(inputs, targets, classes)
    data = Dataset("noise", part, part.subset(torch.arange(0, 240, 2)), tuple(map(str, range(classes))))
    content = {"space": {"kind": "nb201", "channels": 2}, "data": {"name": "noise", "outside": outside}}
    return Parts.build(RunSettings.parse({**content, "workers": 1}, "the test"), data=data)


def test_losses_are_finite_where_probabilities_are_not_told_from_zero() -> None:
    """A network of which most was never trained together may be wrong with logits in the thousands."""
    parts = made()
    last = nn.Linear(64, 3)
    network = nn.Sequential(nn.Flatten(), last)
    with torch.no_grad():
        last.weight.mul_(1e5)
        inputs, targets = next(iter(parts.evaluation_batches(parts.valid).epoch(0)))
        expected = F.cross_entropy(network(inputs).double(), targets).item()
    found = evaluate(network, parts.evaluation_batches(parts.valid))["loss"]
    assert len(targets) == len(parts.valid) and found == pytest.approx(expected) and found > 1000


def test_a_mixture_of_two() -> None:
    parts = made("digits")
    architectures = [parts.net.space.sample(generator_at(0, "members", index)) for index in range(2)]
    members = [(architecture, parts.net.extract(architecture).eval()) for architecture in architectures]
    outside = outside_batches(parts)
    assert outside is not None
    record = judge(Ensemble.of("two", members, [0.3, 0.7]), parts, outside)

    def logits(inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.stack([network(parts.preprocessing(inputs)) for _, network in members]).double()

    (inputs,) = parts.data.test.stream([torch.arange(len(parts.data.test))])
    targets = parts.data.test.targets
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)

    def mix(values: torch.Tensor, temperature: float) -> torch.Tensor:
        return torch.einsum("k,knc->nc", weights, torch.softmax(values / temperature, -1))

    mixture = mix(logits(inputs), record.temperature)
    assert record.accuracy == pytest.approx(float((mixture.argmax(1) == targets).double().mean()))
    assert record.loss == pytest.approx(float(F.nll_loss(mixture.log(), targets)), rel=1e-5)
    plain = mix(logits(inputs), 1.0)
    assert record.uncalibrated_loss == pytest.approx(float(F.nll_loss(plain.log(), targets)), rel=1e-5)
    entropy = torch.special.entr(mixture).sum(1)
    assert record.flagged == pytest.approx(float((entropy > record.threshold).double().mean()), abs=0.01)
    assert sum(part.count for part in record.reliability) == len(targets)
    assert record.coverage[-1] == 1 and record.risk[-1] == pytest.approx(1 - record.accuracy)
    assert len(record.coverage) <= CURVE_POINTS
    (foreign,) = (torch.cat([batch.inputs for batch in outside.epoch(0)]),)
    with torch.no_grad():
        far = torch.stack([network(foreign) for _, network in members]).double()
    away = torch.special.entr(mix(far, record.temperature)).sum(1)
    assert record.detection["entropy"]["auroc"] == pytest.approx(auroc(entropy, away), abs=1e-3)
    assert set(record.detection) == {"entropy", "max_probability", "mutual_information"}
    doubt = [1 - mix(values, record.temperature).amax(1) for values in (logits(inputs), far)]
    assert record.detection["max_probability"]["auroc"] == pytest.approx(auroc(*doubt), abs=1e-3)


def test_the_temperature_is_that_of_the_validation_data() -> None:
    """No temperature nearby has a lower loss there."""
    parts = made()
    architecture = parts.net.space.sample(generator_at(0, "members", 0))
    linear = nn.Linear(64, 3)
    with torch.no_grad():
        linear.weight.copy_(3 * torch.eye(3, 64))  # the brightest of the first three pixels, too surely
    network = nn.Sequential(nn.Flatten(), linear)
    record = judge(Ensemble.of("one", [(architecture, network)]), parts, None)
    assert record.detection == {}
    (inputs,) = parts.valid.stream([torch.arange(len(parts.valid))])
    with torch.no_grad():
        logits = network(parts.preprocessing(inputs)).double()

    def loss(temperature: float) -> float:
        return float(F.cross_entropy(logits / temperature, parts.valid.targets))

    assert 1.2 < record.temperature < 10
    best = loss(record.temperature)
    assert best <= min(loss(record.temperature * factor) for factor in (0.9, 1.1)) + 1e-9


def depths_of(parts: Parts) -> list[Architecture]:
    return list(parts.net.space.enumerate())


def deep() -> Parts:
    """Data and a network whose depth is the choice, with statistics that are not those of its creation."""
    data = made().data
    content = {"space": {"kind": "depth_fc", "max_depth": 3, "width": 6}, "data": {"name": "noise"}, "programs": []}
    parts = Parts.build(RunSettings.parse({**content, "workers": 1}, "the test"), data=data)
    (inputs,) = parts.train.stream([torch.arange(len(parts.train))])
    with torch.no_grad():
        parts.net.train().forward_many(parts.preprocessing(inputs), depths_of(parts))
    parts.net.eval()
    return parts


SHARES = [0.1, 0.2, 0.3, 0.4]


def test_one_network_for_all_members_is_judged_like_separate_ones() -> None:
    parts = deep()
    depths = depths_of(parts)
    apart = Ensemble.of("depths", [(depth, parts.net.extract(depth).eval()) for depth in depths], SHARES)
    network = parts.net.extract_many(depths).eval()
    calls: list[int] = []
    network.register_forward_pre_hook(lambda _, inputs: calls.append(len(inputs[0])))
    together = Ensemble("depths", depths, network, SHARES)
    batches = parts.evaluation_batches(parts.valid)
    for found, expected in zip(together.logits(batches), apart.logits(batches), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert sum(calls) == len(parts.valid)
    one, other = (judge(ensemble, parts, None).model_dump() for ensemble in (together, apart))
    assert one["members"] == other["members"] and one["weights"] == SHARES
    for name in ("temperature", "accuracy", "loss", "brier", "calibration_error", "threshold", "risk"):
        assert one[name] == pytest.approx(other[name], rel=1e-4, abs=1e-5)


def test_artifacts_of_one_network_and_of_separate_ones(tmp_path: Path) -> None:
    """What cannot stop early has no confidence."""
    parts = deep()
    depths = depths_of(parts)
    networks = {
        "shared": parts.net.extract_many(depths).eval(),
        "apart": StackedNetworks([parts.net.extract(depth).eval() for depth in depths]),
    }
    sides = [(Ensemble(name, depths, network, SHARES, 0.8), tmp_path / name) for name, network in networks.items()]
    records = write_predictors(Context(parts, Workspace(tmp_path), Quiet()), sides)
    assert [record.name for record in records] == ["shared", "apart"]
    shared, apart = (load_artifact(folder) for _, folder in sides)
    assert shared.shared and shared.exit_confidence == 0.8
    assert not apart.shared and apart.exit_confidence is None
    inputs = parts.raw_examples(20)
    with torch.no_grad():
        for found, expected in zip(Program.of(shared)(inputs), Program.of(apart)(inputs), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert shared.temperature == pytest.approx(records[0].temperature)
    assert shared.metrics["accuracy"] == records[0].accuracy


def test_outside_data_must_be_images() -> None:
    with pytest.raises(ConfigError, match="images on both sides"):
        outside_batches(made("spirals"))
    assert outside_batches(made()) is None
