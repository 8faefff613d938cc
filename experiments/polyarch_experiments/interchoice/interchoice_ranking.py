"""Supernets with inter-choice weights: what they select, what they cost, and whether seeds agree."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from polyarch.randomness import generator_at
from polyarch.ranking import Interval, RankSamples, rank_quality
from polyarch.ranking.bootstrap import Positions, bootstrap
from polyarch.ranking.correlations import as_rows, pair_agreements
from polyarch.spaces import NB201_CONVOLUTIONS, NB201_NO_NONE, NB201_OPERATIONS
from polyarch.tables import load_truth
from polyarch.training.split_weights import split_weights
from polyarch_experiments.consistency import self_consistency
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, lines, side_by_side, summary
from polyarch_experiments.improvement import improvement
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import INTERCHOICE_WEIGHTS
from polyarch_experiments.ranked_supernets import (
    Scored,
    fixed_set,
    recipe,
    score_all,
    train_supernet,
    trial_of,
    with_fewer_valid,
)
from polyarch_experiments.results import Claim
from polyarch_experiments.verdict import claim, finding, over_seeds, several_seeds

SPACES: dict[str, dict[str, Any]] = {
    "all": {"operations": list(NB201_OPERATIONS)},
    "no zero": {"operations": list(NB201_NO_NONE)},
    "only conv": {"operations": list(NB201_CONVOLUTIONS)},
    "macro": {},
}
WEIGHTS: dict[str, dict[str, Any]] = {"base": {}, "bias": {"kind": "bias"}, "split": {"kind": "split"}}
"""What a run says of each kind of weights, where the settings name no others. Weights are split after half of the
epochs unless they say when."""
NEUTRAL = 0.02
"""A normalised improvement that differs by less counts as the same."""
TIMED_STEPS = 24
RESAMPLES = 300
"""Of the intervals of Kendall's tau between seeds, which take longest."""

WeightsAndSeed = tuple[str, str, int]
"""A space, a kind of weights and a seed; or a space, ``cost`` and 0."""


def items(settings: Settings) -> dict[str, WeightsAndSeed]:
    """Every space with every kind and as many seeds as the settings say, and the time of training steps by space."""
    kinds = weights_of(settings)
    runs = {
        f"{space}, {kind}, seed {seed}": (space, kind, seed)
        for seed in range(max(settings["spaces"].values()))
        for space, seeds in settings["spaces"].items()
        for kind in kinds
        if seed < seeds
    }
    return {**runs, **{f"{space}, cost": (space, "cost", 0) for space in settings["spaces"]}}


def run(settings: Settings, item: WeightsAndSeed, folder: Path) -> dict[str, Any]:
    """Trains a supernet by single paths and judges a fixed set by validation accuracy; or times its steps."""
    space, kind, seed = item
    if kind == "cost":
        return {"seconds": _step_seconds(settings, space)}
    store = folder / f"{space} {kind} {seed}".replace(" ", "-")
    trained = train_supernet(settings_of(settings, space, kind), seed, store)
    truth = load_truth("macro" if space == "macro" else "nb201")
    architectures = fixed_set(trained.net.space, settings["architectures"])
    few = with_fewer_valid(trained, settings["valid_examples"])
    scored = Scored(few.net, few.estimators(("val_acc", "params")))
    rows = score_all(scored, architectures, store / "checkpoints" / "scored.jsonl")
    return {
        "truth": [round(truth.accuracy(one), 3) for one in architectures],
        "val_acc": [row["scores"]["val_acc"] for row in rows],
        "params": [row["scores"]["params"] for row in rows],
        "parameters": sum(parameter.numel() for parameter in trained.net.parameters()),
    }


def weights_of(settings: Settings) -> dict[str, dict[str, Any]]:
    """The kinds of weights by name: ``base`` without extra ones, ``bias`` with one previous choice, and others."""
    found: dict[str, dict[str, Any]] = settings.get("weights", WEIGHTS)
    return found


def settings_of(settings: Settings, space: str, kind: str) -> dict[str, Any]:
    """The settings of the run of a space with a kind of weights."""
    run = settings["macro_run"] if space == "macro" else settings["run"]
    described = {**run["space"], **SPACES[space]}
    weights = weights_of(settings)[kind]
    if weights:
        half = {"split_epoch": run["train"]["epochs"] // 2} if weights["kind"] == "split" else {}
        described["interchoice"] = {**half, **weights}
    return {**run, "space": described}


def _step_seconds(settings: Settings, space: str) -> dict[str, float]:
    """Median seconds of a training step by kind, taken in turn; split ones after the split."""
    made = {}
    for kind, weights in weights_of(settings).items():
        trial = trial_of(settings_of(settings, space, kind))
        training = trial.method.training(trial)
        if weights.get("kind") == "split":
            split_weights(trial.net, training.optimizer)
        source = trial.feed.training_batches(trial.settings.train.batch_size)
        made[kind] = training.strategy, list(islice(source.epoch(0), TIMED_STEPS))
    times: dict[str, list[float]] = {kind: [] for kind in made}
    for step in range(TIMED_STEPS):
        for kind, (strategy, batches) in made.items():
            started = time.perf_counter()
            strategy.step([batches[step % len(batches)]], generator=generator_at(0, "cost", step))
            times[kind].append(time.perf_counter() - started)
    return {kind: statistics.median(values[2:]) for kind, values in times.items()}


def _seeds(settings: Settings, runs: Mapping[str, Any], space: str, kind: str) -> list[dict[str, Any]]:
    return [runs[f"{space}, {kind}, seed {seed}"] for seed in range(settings["spaces"][space])]


def _gains(settings: Settings, runs: Mapping[str, Any], space: str, kind: str) -> list[float]:
    """The normalised improvement of the top 10 (0: mean of all, 1: best of all), one value per seed."""
    return [
        float(improvement(run["val_acc"], run["truth"], least=min(10, len(run["truth"]))).normalised[-1])
        for run in _seeds(settings, runs, space, kind)
    ]


def _correlations(settings: Settings, runs: Mapping[str, Any], space: str, kind: str) -> list[float]:
    return [
        rank_quality(run["val_acc"], run["truth"], resamples=1).kendall.value or 0.0
        for run in _seeds(settings, runs, space, kind)
    ]


def _consistency(settings: Settings, runs: Mapping[str, Any], space: str, kind: str) -> float | None:
    found = [run["val_acc"] for run in _seeds(settings, runs, space, kind)]
    return self_consistency(found, resamples=1).kendall.value if len(found) > 1 else None


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Paired differences from supernets without extra weights; the criteria were written before the runs."""
    return [*_selection(settings, runs), *_agreement(settings, runs), _cost(settings, runs)]


HELPS = {
    "only conv": ("help", "better selections with only convolutions", {"above": 0.0}),
    "no zero": ("are neutral", "equal selections without zero", {"above": -NEUTRAL, "below": NEUTRAL}),
    "all": ("can hurt", "partly worse selections with all operations", {"below": 0.0}),
}
"""What extra weights are said to do in a space, what the paper reports, and the bounds of the gain."""


def _extra(settings: Settings) -> list[str]:
    return [kind for kind in weights_of(settings) if kind != "base"]


def gain_of(settings: Settings, runs: Mapping[str, Any], space: str, kind: str) -> Interval:
    """What a kind of weights adds to the normalised improvement of the top 10 (0: mean of all cells, 1: the best)."""
    base, extra = (_seeds(settings, runs, space, one) for one in ("base", kind))
    truth = base[0]["truth"]
    samples = RankSamples(truth)
    k, scale = min(10, len(truth)), max(truth) - statistics.fmean(truth)
    ours, theirs = (samples.top([run["val_acc"] for run in side], k) for side in (extra, base))
    return samples.interval(several_seeds((ours - theirs) / scale, len(base)))


def _selection(settings: Settings, runs: Mapping[str, Any]) -> Iterator[Claim]:
    for space, (does, document, bounds) in HELPS.items():
        known = space in settings["spaces"]
        yield claim(
            f"Inter-choice weights {does} in the space {space!r}.",
            [finding(kind, gain_of(settings, runs, space, kind), **bounds) for kind in _extra(settings) if known],
            "normalised improvement of the top 10 minus that without extra weights",
            number=1,
            document=document,
            ours=f"a change of less than {NEUTRAL} counts as none" if space == "no zero" else None,
        )


def _agreement(settings: Settings, runs: Mapping[str, Any]) -> Iterator[Claim]:
    several = [space for space, seeds in settings["spaces"].items() if seeds > 1]
    document = "Kendall's tau 0.761 base, 0.730 bias, 0.700 split"
    yield claim(
        "Inter-choice weights lower the agreement of seeds (Kendall's tau).",
        [
            finding(f"{kind} in {space}", agreement_change(settings, runs, space, kind), below=0)
            for space in several
            for kind in _extra(settings)
        ],
        "Kendall's tau of two seeds minus that without extra weights",
        number=2,
        document=document,
    )
    changes = {
        kind: [
            one - other
            for space in settings["spaces"]
            for one, other in zip(*(_gains(settings, runs, space, side) for side in (kind, "base")), strict=True)
        ]
        for kind in _extra(settings)
    }
    yield claim(
        "On average over spaces, inter-choice weights select better networks.",
        [finding(kind, over_seeds(values), above=0) for kind, values in changes.items()],
        "improvement of the top 10 minus that without extra weights; the interval is over spaces and seeds",
        number=2,
        document=document,
    )


def agreement_change(settings: Settings, runs: Mapping[str, Any], space: str, kind: str) -> Interval:
    """How much more the seeds of a kind of weights agree than those without, with an interval over cells."""
    sides = [as_rows([run["val_acc"] for run in _seeds(settings, runs, space, one)]) for one in (kind, "base")]

    def change(drawn: Positions) -> float | None:
        ours, theirs = (pair_agreements("kendall", side[:, drawn]) for side in sides)
        known = [value for value in (*ours, *theirs) if value is not None]
        if len(known) < len(ours) + len(theirs):
            return None
        return statistics.fmean(known[: len(ours)]) - statistics.fmean(known[len(ours) :])

    return bootstrap(change, sides[0].shape[1], resamples=RESAMPLES)


def _cost(settings: Settings, runs: Mapping[str, Any]) -> Claim:
    ratios = {}
    for space in settings["spaces"]:
        seconds = runs[f"{space}, cost"]["seconds"]
        ratios[space] = {kind: value / seconds["base"] for kind, value in seconds.items() if kind != "base"}
    cells = [100 * found["bias"] - 100 for space, found in ratios.items() if space != "macro"]
    return claim(
        "A bias costs less than 18 % of a training step on NAS-Bench-201, the least that the paper reports.",
        [finding("per cent, mean over spaces", over_seeds(cells), below=18)] if cells else [],
        "; ".join(
            f"{space}: " + ", ".join(f"{kind} {100 * ratio - 100:+.0f} %" for kind, ratio in found.items())
            for space, found in ratios.items()
        )
        + " of the time of a step; the interval is over spaces",
        number=3,
        document="bias +18 to 38 % on NAS-Bench-201 and +1 % on the chain; split +1 to 21 % and +1 %",
    )


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Every space and kind."""
    rows = []
    for space in settings["spaces"]:
        size = [rank_quality(run["params"], run["truth"], resamples=1).kendall.value or 0.0
                for run in _seeds(settings, runs, space, "base")][:1]  # fmt: skip
        for kind in weights_of(settings):
            agreement = _consistency(settings, runs, space, kind)
            rows.append([
                space, kind, f"{_seeds(settings, runs, space, kind)[0]['parameters']:,}",
                spread(_correlations(settings, runs, space, kind), 2), f"{size[0]:.2f}",
                spread(_gains(settings, runs, space, kind), 2), "-" if agreement is None else f"{agreement:.2f}",
            ])  # fmt: skip
    columns = [
        "space", "weights", "supernet parameters", "Kendall with the truth", "of the parameter count",
        "improvement of the top 10", "agreement of seeds",
    ]  # fmt: skip
    return {"Validation accuracy with inherited weights": Table(columns, rows)}


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Improvement of the top 10 by space, and improvement curves with the correlation beneath."""
    bars = [
        {"x": space, "series": kind} | summary(_gains(settings, runs, space, kind))
        for space in settings["spaces"]
        for kind in weights_of(settings)
    ]
    panels = []
    for measure, title in (("normalised", "improvement (1 = best)"), ("kendall", "Kendall, truly worst removed")):
        for space in settings["spaces"]:
            rows = []
            for kind in weights_of(settings):
                first = _seeds(settings, runs, space, kind)[0]
                curve = improvement(first["val_acc"], first["truth"], least=min(10, len(first["truth"])))
                rows += [
                    {"x": int(kept), "mean": float(value), "series": kind}
                    for kept, value in zip(curve.kept, getattr(curve, measure), strict=True)
                ]
            panels.append(lines(rows, "architectures left", title, series="weights", title=space))
    return {
        "improvement_by_space": grouped_bars(bars, "", "improvement of the top 10", series="weights"),
        "improvement_curves": side_by_side(*panels, columns=len(settings["spaces"])),
    }


def _recipe(*, decay_norms: bool = False, **options: Any) -> dict[str, Any]:
    """The settings that experiments on rankings share; in the paper batch normalisation does not decay."""
    found = recipe(**options)
    return found if decay_norms else {**found, "train": {**found["train"], "decay_norms": False}}


def _macro(channels: int, head_channels: int, **recipe_options: Any) -> dict[str, Any]:
    """The same settings for NAS-Bench-Macro's chain."""
    space = {"kind": "macro", "channels": channels, "head_channels": head_channels}
    return {**_recipe(cells=1, **recipe_options), "space": space}


_CPU: Settings = {
    "spaces": {"all": 1, "no zero": 1, "only conv": 1, "macro": 2}, "architectures": 64, "valid_examples": 2000,
    "run": _recipe(size=16, cells=1, epochs=10, decay_norms=True),
    "macro_run": _macro(16, 256, size=16, epochs=4, limit=6_000, decay_norms=True),
}  # fmt: skip
"""With decay of batch normalisation, as the stored results were measured."""

_TABLE_5: Settings = {
    "data": {"name": "cifar10", "validation": 0.1, "shift": 4, "flip": True},
    "train": {
        "epochs": 250, "batch_size": 256, "learning_rate": 0.025, "final_learning_rate": 1e-5, "momentum": 0.9,
        "weight_decay": 3e-4, "decay_norms": False,
    },
    "scores": {"batch_size": 256, "policy": "adapt", "policy_batches": 20},
}  # fmt: skip
"""How the paper trains and evaluates supernets on CIFAR-10 (appendix B)."""

INTERCHOICE_RANKING = Experiment(
    name="interchoice_ranking",
    document=INTERCHOICE_WEIGHTS,
    claim="Inter-choice weights in the three NAS-Bench-201 spaces and on NAS-Bench-Macro's chain.",
    presets={
        "quick": {
            **_CPU, "spaces": {"all": 1}, "architectures": 5, "valid_examples": 100,
            "run": _recipe(size=8, cells=1, epochs=2, limit=200, adapting=2),
            "macro_run": _macro(8, 16, size=8, epochs=2, limit=100, adapting=2),
        },
        "cpu": _CPU,
        "paper": {
            "spaces": dict.fromkeys(SPACES, 3), "architectures": 1000, "valid_examples": 5000,
            "weights": {
                "base": {},
                "bias": {"kind": "bias"},
                **{f"bias D={previous}": {"kind": "bias", "previous": previous} for previous in (2, 3)},
                **{f"split at {epoch}": {"kind": "split", "split_epoch": epoch} for epoch in (125, 175, 200)},
            },
            "run": {**_TABLE_5, "space": {"kind": "nb201", "channels": 16, "cells": 2, "pool_convolution": True}},
            "macro_run": {**_TABLE_5, "space": {"kind": "macro", "channels": 32, "head_channels": 1280}},
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
