"""Runs of one network with many architectures that never ran: wirings, and cells that learn without labels, too."""

from __future__ import annotations

import math
import random
from typing import Any

from record_examples import contender, draw, history, made, predictor

from polyarch.methods.stochastic.record import EnsemblePoint, NormModesRecord, StochasticMember, StochasticRecord
from polyarch.randomness import generator_at
from polyarch.results import Results, Role, TrainingRecord
from polyarch.spaces import Architecture, erdos_renyi, wired_space, wiring_string

SPACE = wired_space(3, 4)
WIRED = {choice.name: list(choice.options) for choice in SPACE.choices}


def wirings(count: int = 5) -> list[Architecture]:
    return erdos_renyi(SPACE, count, 0.3, generator=generator_at(0, "wirings", 0))


def record(architectures: list[dict[str, str]], notations: list[str | None], **changes: Any) -> StochasticRecord:
    """Later members are a little worse, and what they add becomes less."""
    count = len(architectures)
    content: dict[str, Any] = {
        "draws": "example",
        "own_weights": True,
        "weighting": "uniform",
        "drawn": count,
        "evaluated": count,
        "members": [
            StochasticMember(
                architecture=architecture,
                notation=notation,
                valid_score=0.97 - 0.004 * place,
                valid_loss=0.1 + 0.01 * place,
                score=0.965 - 0.003 * place,
                loss=0.12 + 0.01 * place,
                weight=1 / count,
            )
            for place, (architecture, notation) in enumerate(zip(architectures, notations, strict=True))
        ],
        "curve": [
            EnsemblePoint(
                members=members,
                score=0.965 + 0.01 * (1 - 1 / members),
                loss=0.12 - 0.03 * (1 - 1 / members),
                calibration_error=0.02 * math.exp(-members / 4),
                calibration_floor=0.004,
                calibration_low=0.01 * math.exp(-members / 4),
                calibration_high=0.03 * math.exp(-members / 4),
            )
            for members in range(1, count + 1)
        ],
        "statistics": NormModesRecord(
            batch=[0.97 - 0.002 * place for place in range(count)],
            running=[0.96 - 0.003 * place for place in range(count)],
            spearman=1.0,
        ),
        "corrupted": {
            kind: {
                "entropy": {"auroc": 0.71, "aupr": 0.7, "fpr95": 0.61},
                "mutual_information": {"auroc": auroc, "aupr": 0.8, "fpr95": 0.4321},
            }
            for kind, auroc in (("gaussian_noise", 0.8765), ("gaussian_blur", 0.4))
        },
        "member_macs": 1_926_656.0,
        "ensemble_macs": 9_597_056.0,
        "parameters": 222_224,
    }
    return StochasticRecord(**{**content, **changes})


def stochastic_results(**changes: Any) -> Results:
    """Five wirings with weights of their own; together they are better than the best of them, and than one alone."""
    found = wirings()
    names = [one.to_dict() for one in found]
    return results(WIRED, "wired", record(names, [wiring_string(one) for one in found]), "wiring", **changes)


def cells_results(**changes: Any) -> Results:
    """Six cells, one of which is left out, that also learned from examples without labels."""
    choices = {f"{source}->{target}": ["none", "skip_connect"] for target in (1, 2, 3) for source in range(target)}
    generator = random.Random(0)
    architectures = [draw(choices, generator) for _ in range(6)]
    found = record(
        architectures, [None] * 6, draws="batch", own_weights=False, weighting="stacked", drawn=20, statistics=None,
        corrupted={}, unlabelled=1234, max_macs=5e6,
    )  # fmt: skip
    for member, weight in zip(found.members, (0.4, 0.3, 0.2, 0.05, 0.05, 0.0), strict=True):
        member.weight = weight
    return results(choices, "nb201", found, "architecture", **changes)


def results(choices: dict[str, list[str]], kind: str, found: StochasticRecord, noun: str, **changes: Any) -> Results:
    """A finished run with this record."""
    kept = [member.architecture for member in found.members if member.weight]
    name = f"ensemble of {len(kept)} {noun}s"
    baseline = "residual network, trained alone" if kind == "wired" else "best architecture, trained alone"
    shared = contender(f"best {noun}, shared weights", Role.BEST, kept[:1], found.members[0].score, 0.0)
    together = contender(name, Role.MIXTURE, kept[:1], found.curve[len(kept) - 1].score, 0.0)
    for one in (shared, together):
        one.runs[0].history = []
    every = contender(f"mean of {len(kept)} {noun}s, shared weights", Role.OTHER, kept, 0.961, 0.004)
    for run in every.runs:
        run.history = []
    content: dict[str, Any] = {
        "polyarch": "0.5.0",
        "torch": "2.13.0",
        "method": "stochastic",
        "settings": {"method": "stochastic", "seed": 0, "space": {"kind": kind}},
        "data": {
            "name": "digits",
            "classes": [str(digit) for digit in range(10)],
            "input_shape": [1, 8, 8],
            "dtype": "float32",
            "train": 1151,
            "valid": 287,
            "test": 359,
        },
        "space": {"name": kind, "kind": kind, "size": 262_144, "choices": choices, "supernet_parameters": 225_000},
        "training": TrainingRecord(strategy="stochastic", history=history(27)),
        "comparison": [together, shared, every, contender(baseline, Role.BASELINE, kept[:1], 0.968, 0.0)],
        "artifact": {"architecture": kept[0], "score": found.members[0].score, "parameters": 218_520},
        "predictors": [
            predictor(name, "ensemble", kept, together.mean, 0.84),
            predictor(f"best {noun}", "artifact", kept[:1], found.members[0].score, 1.01),
            predictor(baseline, None, kept[:1], 0.968, 1.08),
        ],
        "default": "ensemble",
        "record": found,
        "decisions": ["space wired: images of 8 pixels go to three stages of modules whose wiring is drawn"],
        "seconds": {"train": 43.1, "choose": 2.0, "retrain": 46.0},
    }
    return made({**content, **changes})
