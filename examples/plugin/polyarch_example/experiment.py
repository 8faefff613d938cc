"""An experiment: does the norm of the gradient see more in a network than its size?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyarch.data import load
from polyarch.estimators import Parameters
from polyarch.ranking import rank_quality
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch_example.estimator import GradientNorm
from polyarch_experiments import Claim, Experiment

CLAIM = "The norm of the gradient ranks architectures otherwise than their number of parameters does."


def run_seed(settings: dict[str, Any], seed: int, folder: Path) -> dict[str, Any]:
    """The rank correlation of norm and size over random architectures, for one draw of weights."""
    asked = RunSettings.parse({"seed": seed, "space": {"kind": "kernels"}}, "the experiment")
    run = Run.build(asked, Workspace(folder), data=load("digits"))
    architectures = run.draw(settings["architectures"], "experiment")
    norm, size = GradientNorm(run.scores), Parameters()
    scores = [[one.score(run.net, architecture) for architecture in architectures] for one in (norm, size)]
    return {"spearman": rank_quality(scores[0], scores[1], resamples=100, seed=seed).spearman.value}


def judge(settings: dict[str, Any], runs: dict[str, Any]) -> list[Claim]:
    """The claim holds if no seed has a correlation of 0.95 or more."""
    values = [run["spearman"] for run in runs.values()]
    shown = ", ".join(f"{value:.2f}" for value in values)
    return [Claim(text=CLAIM, supported=max(values) < 0.95, numbers=f"Spearman of norm and size by seed: {shown}")]


GRADIENT_SIZE = Experiment(
    name="gradient_size",
    document="example",
    claim=CLAIM,
    presets={name: {"architectures": count, "seeds": 2} for name, count in (("quick", 12), ("cpu", 50), ("paper", 60))},
    items=lambda settings: {f"seed {seed}": seed for seed in range(settings["seeds"])},
    task=run_seed,
    judge=judge,
)
