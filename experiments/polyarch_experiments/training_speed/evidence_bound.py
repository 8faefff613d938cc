"""Bayesian linear regression: is minus SoTL below the log evidence, and how far (section 3.1)?"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from polyarch.randomness import generator_at
from polyarch.ranking import Interval
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Row, Spec, lines, side_by_side, summary
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import DIFFERENTIABLE_SEARCH
from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed.bayesian_linear import BayesianLinear, multi_sample_bound, sotl_bound
from polyarch_experiments.training_speed.fourier import fourier
from polyarch_experiments.verdict import claim, finding, over_seeds

CLOSE = 0.1
"""A bound counts as close when it lies below the log evidence by no more than this share of it."""
ERRORS = 4
"""Standard errors between a mean over samples and its closed form that count as chance."""


def items(settings: Settings) -> dict[str, int]:
    """Every seed: points, noise and samples are its own."""
    return {f"seed {seed}": seed for seed in range(settings["seeds"])}


def run(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Evidence and bounds of a model of every degree, on the same points."""
    degrees: list[int] = settings["degrees"]
    data = fourier(
        settings["points"], seed=seed, degree=settings["degree"], max_degree=max(degrees), noise=settings["noise"]
    )
    model = BayesianLinear(noise=settings["noise"], prior=settings["prior"])
    found = {}
    for degree in degrees:
        features = data.features[:, : degree + 1]
        samples = model.sampled_log_likelihoods(
            features,
            data.targets,
            samples=settings["samples"],
            steps=settings["steps"],
            generator=generator_at(seed, "posterior", degree),
        )
        losses = sotl_bound(samples)
        found[str(degree)] = {
            "evidence": model.log_evidence(features, data.targets),
            "bound": model.expected_log_likelihoods(features, data.targets).sum().item(),
            "sampled": losses.mean().item(),
            "standard_error": losses.std().item() / math.sqrt(len(losses)),
            "multi_sample": {
                str(k): torch.stack([multi_sample_bound(group) for group in samples.split(k)]).mean().item()
                for k in settings["groups"]
            },
        }
    return {"degrees": found}


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """The bound in closed form and by samples, its distance, and what it chooses; intervals are over seeds."""
    by_seed = [list(run["degrees"].values()) for run in runs.values()]
    gaps = {
        degree: [_share(run["degrees"][str(degree)], "bound") for run in runs.values()] for degree in _shown(settings)
    }
    most = str(settings["groups"][-1])
    chosen = {kind: [_best(run, kind) for run in runs.values()] for kind in ("bound", "evidence")}

    def largest(value: Callable[[dict[str, Any]], float]) -> Interval:
        """Over the degrees of a seed."""
        return over_seeds([max(map(value, rows)) for rows in by_seed])

    return [
        claim(
            "Minus SoTL is below the log evidence at every degree.",
            [finding("largest excess, nats", largest(lambda row: row["bound"] - row["evidence"]), below=0)],
            number=15,
            document="SoTL is a lower bound of the log evidence, exactly so for Bayesian linear regression",
        ),
        claim(
            "Samples by sample-then-optimise agree with the closed form.",
            [
                finding(
                    "largest distance, standard errors",
                    largest(lambda row: abs(row["sampled"] - row["bound"]) / row["standard_error"]),
                    below=ERRORS,
                )
            ],
            number=15,
            document="sample-then-optimise draws from the posterior",
            ours=f"up to {ERRORS} standard errors count as chance",
        ),
        claim(
            "The bound is close to the log evidence at every degree.",
            [finding("largest share", largest(lambda row: _share(row, "bound")), below=CLOSE)],
            "share of the log evidence: "
            + "; ".join(
                f"degree {degree}: {spread([100 * gap for gap in found], 1)} %" for degree, found in gaps.items()
            ),
            ours=f"{CLOSE:.0%} of the log evidence count as close",
        ),
        claim(
            f"With {most} samples per example the bound is within 1% of the log evidence at every degree.",
            [finding("largest share", largest(lambda row: _share(row, most)), below=0.01)],
            ours="1 %",
        ),
        claim(
            "The degree of the highest bound is that of the highest evidence.",
            [
                finding(
                    "degrees apart",
                    over_seeds([abs(one - other) for one, other in zip(*chosen.values(), strict=True)]),
                    below=0.5,
                )
            ],
            "; ".join(f"{kind}: degree {', '.join(map(str, found))}" for kind, found in chosen.items())
            + f" (true: {settings['degree']})",
            document="lower SoTL means a higher bound, so the model of lowest SoTL is chosen",
            ours="less than half a degree apart on average",
        ),
    ]


def _shown(settings: Settings) -> list[int]:
    degrees: list[int] = settings["degrees"]
    return sorted({degrees[0], settings["degree"], degrees[-1]})


def _share(row: dict[str, Any], bound: str) -> float:
    """How far a bound is below the log evidence, as a share of it; by name or by the number of samples."""
    value = row[bound] if bound in row else row["multi_sample"][bound]
    return float((row["evidence"] - value) / abs(row["evidence"]))


def _best(run: dict[str, Any], kind: str) -> int:
    return int(max(run["degrees"], key=lambda degree: run["degrees"][degree][kind]))


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Evidence and bound over the degree, and the distance by the number of samples."""
    models = [(degree, [run["degrees"][str(degree)] for run in runs.values()]) for degree in settings["degrees"]]
    values: list[Row] = [
        {"x": degree, "series": name, **summary([row[kind] for row in rows])}
        for name, kind in (("log evidence", "evidence"), ("minus SoTL", "bound"))
        for degree, rows in models
        if degree >= settings["degree"] - 1  # those that are far too low would hide the rest
    ]
    gaps: list[Row] = [
        {"x": degree, "series": f"{k} sample{'s' * (k > 1)}", **summary([100 * _share(row, str(k)) for row in rows])}
        for k in settings["groups"]
        for degree, rows in models
    ]
    return {
        "evidence_bound": side_by_side(
            lines(values, "degree of the model", "nats", title="Log evidence and its bound"),
            lines(gaps, "degree of the model", "% of the log evidence", title="Distance by samples per example"),
        )
    }


_CPU: Settings = {
    "points": 500, "degree": 3, "degrees": list(range(22)), "noise": 1.0, "prior": 1.0, "samples": 200, "steps": 50,
    "groups": [1, 10, 100], "seeds": 5,
}  # fmt: skip

EVIDENCE_BOUND = Experiment(
    name="evidence_bound",
    document=DIFFERENTIABLE_SEARCH,
    claim="The sum of training losses bounds the log evidence of Bayesian linear regression on Fourier features.",
    presets={
        "quick": {**_CPU, "points": 60, "degrees": [0, 3, 8], "seeds": 2},
        "cpu": _CPU,
        "paper": {**_CPU, "points": 10_000},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)
