"""What the numbers and files of a run that chooses a depth say about each other."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from polyarch.distributions import Categorical
from polyarch.facade import SearchResult
from polyarch.methods.depth.record import DepthPredictor, DepthRecord
from polyarch.methods.depth.search import RULES, choose_depth, prune
from polyarch.prediction.predictor import Predictor
from polyarch.results import Results, Role
from polyarch.spaces import Choice, Space

WAYS = ["mixture of all depths", "pruned mixture", "pruned network alone", "full depth alone"]
SMALL: dict[str, Any] = {"method": "variational-depth", "train.epochs": 20, "programs": []}
SPIRALS: dict[str, Any] = {**SMALL, "space.kind": "depth_fc", "space.max_depth": 3, "space.width": 8}

# A file with networks of one's own.
OWN = """
from torch import nn
from polyarch import OneOf, Repeat

def block():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU())

def body():
    return Repeat("layers", [block() for _ in range(3)])

def build(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[0], 8), body(), nn.BatchNorm1d(8), nn.Linear(8, classes))

def two_choices(input_shape, classes):
    stem = OneOf("stem", small=nn.Linear(input_shape[0], 8), same=nn.LazyLinear(8))
    return nn.Sequential(nn.Flatten(), stem, body(), nn.Linear(8, classes))

def no_depth(input_shape, classes):
    return nn.Sequential(nn.Flatten(), OneOf("stem", a=nn.Linear(2, 8), b=nn.Linear(2, 8)), nn.Linear(8, classes))
"""


def succeed(finished: subprocess.CompletedProcess[str]) -> str:
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def options(settings: dict[str, Any]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def raw(data: Any) -> tuple[Tensor, Tensor]:
    (inputs,) = data.test.stream([torch.arange(len(data.test))])
    return inputs, data.test.targets


def measured(predictor: Predictor, data: Any) -> dict[str, float]:
    """On the test examples, as a user would find."""
    inputs, targets = raw(data)
    probabilities = predictor(inputs).probabilities.double()
    true = probabilities.gather(1, targets[:, None])
    return {"accuracy": float((probabilities.argmax(1) == targets).double().mean()), "loss": float(-true.log().mean())}


def depth_of(results: Results) -> DepthRecord:
    found = results.found(DepthRecord)
    assert found is not None
    return found


def ways(record: DepthRecord) -> dict[str, DepthPredictor]:
    assert [way.name for way in record.predictors] == WAYS
    return {way.name: way for way in record.predictors}


def check_numbers(results: Results, *, limited: bool = False) -> None:
    """What the numbers of a run say about each other."""
    record = depth_of(results)
    depths = [measure.depth for measure in record.depths]
    assert depths == list(range(depths[0], depths[0] + len(depths)))
    assert results.training.q is not None
    (learned,) = results.training.q.values()
    assert sum(learned) == pytest.approx(1, abs=1e-5)
    assert [measure.learned for measure in record.depths] == pytest.approx(learned, abs=1e-6)
    exact = [measure.exact or 0.0 for measure in record.depths]
    assert sum(exact) == pytest.approx(1, abs=1e-9)
    q = [measure.q or 0.0 for measure in record.depths]
    assert q == pytest.approx(exact if record.posterior == "exact" else learned, abs=1e-6)
    assert sum(measure.prior or 0.0 for measure in record.depths) == pytest.approx(1, abs=1e-5)

    space = Space("depths", (Choice("depth", tuple(map(str, depths))),))
    posterior, other = (
        Categorical(space, torch.tensor(one).clamp_min(1e-30).log(), learnable=False)
        for one in (q, learned if record.posterior == "exact" else exact)
    )
    assert record.choices == {rule: depths[0] + choose_depth(posterior, rule) for rule in RULES}
    assert record.other_choices == {rule: depths[0] + choose_depth(other, rule) for rule in RULES}
    assert record.divergence is not None and record.divergence >= 0
    assert record.expected == pytest.approx(sum(depth * p for depth, p in zip(depths, q, strict=True)), abs=1e-4)
    if not limited:
        assert record.chosen == record.choices[record.rule]

    position = depths.index(record.chosen)
    parameters = [measure.parameters for measure in record.depths]
    assert parameters == sorted(set(parameters))
    found = ways(record)
    mixed = check_mixtures(record)
    places = {"pruned network alone": position, "pruned mixture": len(mixed) - 1}
    for way in found.values():
        where = places.get(way.name, -1)
        assert (way.blocks, way.parameters) == (depths[where], parameters[where])
        assert way.mean_probability is not None and 0 <= way.mean_probability <= 1
        assert way.mean_probability >= np.exp(-way.loss) - 1e-9  # Jensen
    for name, where in (("pruned network alone", position), ("full depth alone", -1)):
        for key in ("score", "loss", "valid_score", "valid_loss"):
            assert getattr(found[name], key) == pytest.approx(getattr(record.depths[where], key), abs=1e-12)

    assert results.artifact is not None and results.comparison is not None
    assert results.artifact["parameters"] == parameters[position]
    assert list(results.artifact["architecture"].values()) == [str(record.chosen)]
    assert results.artifact["score"] == found["pruned network alone"].score
    assert [side.name for side in results.comparison] == sorted(WAYS, key=lambda name: name != "pruned network alone")
    assert [side.mean for side in results.comparison] == [found[side.name].score for side in results.comparison]
    assert results.contender(Role.BEST) == results.comparison[0]

    alone, mixture = results.predictors
    assert (alone.folder, mixture.folder, results.default) == ("artifact", "posterior", "posterior")
    assert [list(member.values()) for member in alone.members] == [[str(record.chosen)]]
    assert [list(member.values()) for member in mixture.members] == [[str(depth)] for depth in depths[: len(mixed)]]
    assert mixture.weights == pytest.approx(mixed, abs=1e-9)
    if not limited and record.weighting == record.posterior:
        assert mixed == pytest.approx(prune(posterior, position).probabilities.tolist(), abs=1e-6)
    for predictor, name in ((alone, "pruned network alone"), (mixture, "pruned mixture")):
        assert predictor.uncalibrated["loss"] == pytest.approx(found[name].loss, rel=1e-6)
        error = found[name].metrics["calibration_error"]
        assert predictor.uncalibrated["calibration_error"] == pytest.approx(error, abs=1e-6)
        noise, before = found[name].calibration, predictor.calibration_before
        assert noise is not None and before is not None and noise.error == pytest.approx(error, abs=1e-9)
        assert noise.floor == pytest.approx(before.floor, abs=1e-3) and noise.low <= noise.high
    assert all(run.calibration is not None for side in results.comparison for run in side.runs)
    check_exits(record)
    assert {"train", "choose", "forward_full", "forward_pruned", "forward_mixture"} <= set(results.seconds)


def check_mixtures(record: DepthRecord) -> list[float]:
    """Weights are convex, validation data chose among them unless the settings did; returns those that predict."""
    assert [one.weighting for one in record.mixtures] == ["learned", "exact", "stacked"]
    for one in record.mixtures:
        assert sum(one.weights) == pytest.approx(1, abs=1e-9) and min(one.weights) > 0
    (taken,) = (one for one in record.mixtures if one.weighting == record.weighting)
    assert (taken.score, taken.loss) == (ways(record)["pruned mixture"].score, ways(record)["pruned mixture"].loss)
    return taken.weights


def check_exits(record: DepthRecord) -> None:
    """The curve goes from the first exit to the whole mixture."""
    confidences = [point.confidence for point in record.exits]
    assert confidences == sorted(confidences) and confidences[0] == 0.5 and confidences[-1] == 1.0
    used = [point.mean_depth for point in record.exits]
    assert used == sorted(used)
    assert record.depths[0].depth <= used[0] and used[-1] <= ways(record)["pruned mixture"].blocks
    if record.exit_confidence is not None:
        (kept,) = (point for point in record.exits if point.confidence == record.exit_confidence)
        assert kept.valid_accuracy >= ways(record)["pruned mixture"].valid_score


def check_artifacts(found: SearchResult, data: Any) -> None:
    """What is loaded back predicts on the test set what the results say."""
    for predictor, record in zip(map(found.predictor, ("single", "marginal")), found.results.predictors, strict=True):
        seen = measured(predictor, data)
        assert seen["accuracy"] == pytest.approx(record.score, abs=0.005)  # float32 against float64
        assert seen["loss"] == pytest.approx(record.loss, abs=1e-4)
