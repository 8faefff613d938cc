"""What predicts unless the user asks for something else: the answer of the method, a mixture where it has one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

import polyarch
from polyarch.export import Program
from polyarch.methods.posterior_guided.draws import _choose_default
from polyarch.predictive import Mixture
from polyarch.randomness import generator_at
from polyarch.runs.judging import Ensemble, MemberOutputs
from polyarch.runs.run import Run
from polyarch.runs.stage import Outcome
from polyarch.runs.workspace import Workspace
from polyarch.tasks import Classification

TINY: dict[str, Any] = {
    "train.epochs": 2, "train.batch_size": 20, "retrain.epochs": 1, "scores.steps": 1, "scores.policy_batches": 1,
}  # fmt: skip
MLP: dict[str, Any] = {
    **TINY, "space.kind": "mlp", "space.width": 6, "space.inner_widths": [4, 6], "space.max_depth": 2,
}  # fmt: skip
DEPTHS: dict[str, Any] = {**TINY, "space.kind": "depth_fc", "space.max_depth": 3, "space.width": 6}
SETTINGS: dict[str, dict[str, Any]] = {
    "one-shot": {**MLP, "search.budget": 3, "search.window": 3, "search.population": 2, "search.tournament": 2},
    "darts": MLP,
    "stochastic": MLP,
    "posterior-guided": {
        **TINY, "space.kind": "residual_mlp", "space.width": 6, "guided.candidates": 3, "guided.random_candidates": 1,
        "guided.tune_epochs": 0,
    },
    "variational-depth": {**DEPTHS, "train.epochs": 20, "depth.prior": [1.0, 1.0, 1.0, 9.0]},  # chooses 3
    "deterministic-depth": {**DEPTHS, "depth.depths": [1, 3]},
}  # fmt: skip


def points() -> tuple[Tensor, Tensor]:
    """Easy ones: where nothing is learned, calibration leaves nothing to disagree about."""
    inputs = torch.randn(100, 2, generator=generator_at(0, "points"))
    return inputs, (inputs[:, 0] > 0).long()


@pytest.mark.parametrize(
    ("method", "folder", "members"),
    [
        ("one-shot", "ensemble", 2),
        ("darts", "ensemble", 2),
        ("stochastic", "ensemble", 2),
        ("variational-depth", "posterior", 4),  # the depths 0 to 3
        ("deterministic-depth", "artifact", 1),
    ],
)
def test_the_classifier_predicts_with_the_answer_of_its_method(method: str, folder: str, members: int) -> None:
    inputs, targets = points()
    model = polyarch.PolyarchClassifier(method=method, members=2, settings=SETTINGS[method])
    model.fit(inputs.numpy(), targets.numpy())
    (answer,) = (record for record in model.results_.predictors if record.folder == folder)
    assert model.results_.default == folder and len(answer.members) == members
    program = model.predictor_.forward
    assert isinstance(program, Program) and isinstance(program.mixture, Mixture)
    assert program.mixture.weights.tolist() == pytest.approx(answer.weights, abs=1e-6)
    assert float(program.mixture.temperature) == pytest.approx(answer.temperature, rel=1e-6)
    assert model.predictor_.threshold == pytest.approx(answer.threshold, rel=1e-6)
    disagreement = model.predict_uncertain(inputs.numpy()).mutual_information
    assert disagreement.shape == (100,)
    assert bool((disagreement > 1e-6).any()) == (members > 1)  # one network agrees with itself
    assert model.predict(inputs.numpy()).shape == (100,)


def test_after_a_posterior_guided_search_validation_examples_choose() -> None:
    inputs, targets = points()
    method = "posterior-guided"
    model = polyarch.PolyarchClassifier(method=method, members=2, settings=SETTINGS[method])
    results = model.fit(inputs.numpy(), targets.numpy()).results_
    single, mixture = (record for record in results.predictors if record.folder)
    assert (single.folder, len(single.members)) == ("artifact", 1)
    assert (mixture.folder, len(mixture.members)) == ("posterior", 2)
    assert results.default in ("artifact", "posterior")
    assert results.decisions[-1].startswith("default predictor: the ") and "validation loss" in results.decisions[-1]
    answer = single if results.default == "artifact" else mixture
    assert f"default predictor: the {answer.name}, with" in results.decisions[-1]
    assert model.predictor_.threshold == pytest.approx(answer.threshold, rel=1e-6)


@pytest.mark.parametrize(("sure", "folder"), [(9.0, "artifact"), (0.5, "posterior")])
def test_the_lower_validation_loss_is_the_answer(sure: float, folder: str, tmp_path: Path) -> None:
    """One network that is right and sure beats a mixture that is right and less so, and the other way round."""
    run = SimpleNamespace(workspace=Workspace(tmp_path))
    targets = torch.tensor([0, 1])
    right = torch.eye(2, dtype=torch.float64)

    def ensemble(name: str, scale: float, members: int) -> Ensemble:
        logits = (scale * right).expand(members, 2, 2)
        known = MemberOutputs(Classification(), logits, targets, logits, targets)
        return Ensemble(name, [], torch.nn.Identity(), [1 / members] * members, known=known)

    outcome = Outcome()
    _choose_default(cast(Run, run), outcome, ensemble("best draw", sure, 1), ensemble("mixture of 3 draws", 2.0, 3))
    assert outcome.default == folder and len(outcome.decisions) == 1
