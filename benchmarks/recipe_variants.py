"""What changes of the recipe are worth on images: one network of a race, trained for the same processor time.

On the photographs of `worth`, drawn by other seeds and judged on validation images: the recipe as it is, other learning
rates, and mixup with uniform weights, whole or up to one half (Zhang et al. 2018, "mixup: Beyond Empirical Risk
Minimization", arXiv:1710.09412). Beside them, the mixture of a trained network with its snapshot from before the
learning rate fell, at the temperature that suits it best.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from worth import photos

from polyarch.data import Batch
from polyarch.files import write_json
from polyarch.methods.race import training
from polyarch.methods.race.candidates import Candidate, Recipe, field
from polyarch.methods.race.rungs import turn_of
from polyarch.methods.race.settings import RaceSettings
from polyarch.methods.race.suggestion import suggest_race
from polyarch.methods.race.training import CandidateTraining, Leg
from polyarch.runs.retraining import outputs
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.suggestion import with_suggestions
from polyarch.runs.workspace import Workspace
from polyarch.strategies import Supervised
from polyarch.strategies.strategy import minimise, to_training

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "worth" / "recipes.json"
FIRST_SEED = 1000
"""Photographs of other seeds than those of `worth`."""
SHARES, TEMPERATURES = (0.1, 0.2, 0.33, 0.5), (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)


@dataclass(eq=False)
class Mixup(Supervised):
    """L = w loss(f(x'), y) + (1 - w) loss(f(x'), y') with x' = w x + (1 - w) x', w uniform in [1 - amount, 1]."""

    amount: float = 1.0

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        (batch,) = train
        to_training(self.network)
        share = 1 - self.amount * float(torch.rand((), generator=generator))
        order = torch.randperm(len(batch.inputs), generator=generator)
        found = self.network(share * batch.inputs + (1 - share) * batch.inputs[order])
        losses = [self.task.loss(found, targets) for targets in (batch.targets, batch.targets[order])]
        return {"loss": minimise(share * losses[0] + (1 - share) * losses[1], self.optimizer)}


VARIANTS: dict[str, tuple[float | None, float | None]] = {
    "as it is": (None, None),
    "mixup, up to half": (0.5, None),
    "mixup": (1.0, None),
    "rate 0.05": (None, 0.05),
    "rate 0.2": (None, 0.2),
}
"""The amount of mixup and the learning rate, if not the usual ones."""


def measured(name: str, seed: int, seconds: float) -> dict[str, Any]:
    """Validation loss and accuracy of a network of the usual size."""
    amount, rate = VARIANTS[name]
    asked = {"method": "race", "max_minutes": seconds / 30, "workers": 2, "seed": seed}
    settings = RunSettings.parse({**asked, "space": {"kind": "auto"}, "race": {"clock": "processor"}}, "the benchmark")
    data = photos(FIRST_SEED + seed)
    settings = with_suggestions(settings, suggest_race(settings, data, None).settings)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.build(settings, Workspace(Path(folder) / "run"), data=data)
        race = run.settings.section(RaceSettings)
        candidate = replace(field(run, 4, seconds)[1], augmentation="flip and cutout")
        if rate is not None:
            candidate = replace(candidate, recipe=Recipe(rate, race.weight_decay))
        train, turn = CandidateTraining(run, Path(folder) / "networks"), turn_of(race, seconds)
        strategy = Supervised if amount is None else partial(Mixup, amount=amount)
        with patch.object(training, "Supervised", strategy):
            train(Leg(candidate, turn))
            early, targets = _validated(run, train, candidate)
            leg = train(Leg(candidate, seconds, turn))
            late, _ = _validated(run, train, candidate)
    return {
        "steps": leg["steps"],
        "valid_loss": leg["valid_loss"],
        "valid_accuracy": leg["valid_score"],
        "at_best_temperature": best_loss(late, early, 0.0, targets),
        "with_snapshot": {str(share): best_loss(late, early, share, targets) for share in SHARES},
    }


def _validated(run: Run, train: CandidateTraining, candidate: Candidate) -> tuple[Tensor, Tensor]:
    return outputs(train.network(candidate), run.feed.in_order(run.feed.valid))


def best_loss(late: Tensor, early: Tensor, share: float, targets: Tensor) -> float:
    """The lowest loss of (1 - share) p_late + share p_early, from logits (N, C), over the temperatures."""
    losses = []
    for temperature in TEMPERATURES:
        mixed = (1 - share) * torch.softmax(late / temperature, -1) + share * torch.softmax(early / temperature, -1)
        losses.append(float(F.nll_loss(mixed.log(), targets)))
    return min(losses)


def main() -> None:
    """Runs what is missing and prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=100.0)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    runs: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else {}
    for seed in range(arguments.seeds):
        for name in VARIANTS:
            known = runs.setdefault(name, {})
            if str(seed) not in known:
                known[str(seed)] = measured(name, seed, arguments.seconds)
                write_json(RESULTS, {"seconds": arguments.seconds, "runs": runs})
            print(name, seed, json.dumps(known[str(seed)]), flush=True)


if __name__ == "__main__":
    main()
