"""Further kinds of inter-choice weights: more previous choices, shared biases, attention, and several splits."""

from __future__ import annotations

import statistics
from typing import Any

from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec
from polyarch_experiments.interchoice import interchoice_figures
from polyarch_experiments.interchoice.training_costs import increase
from polyarch_experiments.interchoice.weighted_supernets import (
    PAPER_CELLS,
    gains,
    items,
    run,
    runs_with,
    short_recipe,
    weights_of,
)
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import INTERCHOICE_WEIGHTS
from polyarch_experiments.results import Claim

ATTENTION = ("attention", "deep attention")


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """What appendix D says of shared biases and attention, by means over seeds and spaces."""
    kinds, spaces = weights_of(settings), settings["spaces"]
    gained = {kind: [gain for s in spaces for gain in gains(runs_with(settings, runs, s, kind))] for kind in kinds}
    means = {kind: statistics.fmean(values) for kind, values in gained.items()}
    least = statistics.fmean(gains(runs_with(settings, runs, "only conv", "base")))
    most = max(statistics.fmean(gains(runs_with(settings, runs, "only conv", kind))) for kind in ATTENTION)
    numbers = "improvement of the top 10: " + ", ".join(f"{kind} {spread(gained[kind], 2)}" for kind in kinds)
    seconds = {space: runs[f"{space}, cost"]["seconds"] for space in spaces}
    return [
        Claim(
            text="A shared bias selects worse networks than one for every combination of choices.",
            supported=means["shared bias"] < means["bias"],
            numbers=numbers,
            document="slightly worse and less robust (appendix D)",
        ),
        Claim(
            text="Attention selects worse networks than biases do, and in only conv better ones than no extra weights.",
            supported=max(means[kind] for kind in ATTENTION) < means["bias"] and most > least,
            numbers=f"{numbers}; in only conv {most:.2f} with and {least:.2f} without",
            document="generally worse than biases, yet both can beat the only-convolutions baseline (appendix D)",
        ),
        Claim(
            text="Shared biases and attention take more time than a bias.",
            supported=all(found[kind] > found["bias"] for found in seconds.values() for kind in _slower(found)),
            numbers="; ".join(
                f"{space}: " + ", ".join(f"{kind} {increase(found, kind)}" for kind in found if kind != "base")
                for space, found in seconds.items()
            )
            + " of the time of a step",
            document="a shared bias +38 to 128 % on NAS-Bench-201, attention much slower (appendix D)",
        ),
    ]


def _slower(kinds: Any) -> list[str]:
    return [kind for kind in kinds if kind.startswith("shared bias") or kind in ATTENTION]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Those of `interchoice_ranking`, under names of their own."""
    return {f"kinds_{name}": spec for name, spec in interchoice_figures.figures(settings, runs).items()}


def _kinds(*splits: int) -> dict[str, dict[str, Any]]:
    """All kinds of weights of the paper: biases and their alternatives, and weights split after so many epochs."""
    return {
        "base": {},
        "bias": {"kind": "bias"},
        "bias D=2": {"kind": "bias", "previous": 2},
        "bias D=3": {"kind": "bias", "previous": 3},
        "shared bias": {"kind": "shared_bias"},
        "attention": {"kind": "attention"},
        "deep attention": {"kind": "deep_attention"},
        **{f"split at {epoch}": {"kind": "split", "split_epoch": epoch} for epoch in splits},
    }


INTERCHOICE_KINDS = Experiment(
    name="interchoice_kinds",
    document=INTERCHOICE_WEIGHTS,
    claim="More previous choices, shared biases, attention and splits at several times (section 4.1 and appendix D).",
    presets={
        "quick": {
            "spaces": {"only conv": 2}, "architectures": 6, "valid_examples": 100, "weights": _kinds(1),
            "run": short_recipe(size=8, cells=1, epochs=2, limit=200, adapting=2),
        },
        "cpu": {
            "spaces": {"only conv": 2}, "architectures": 64, "valid_examples": 2000, "weights": _kinds(5, 7, 8),
            "run": short_recipe(size=16, cells=1, epochs=10),
        },
        "paper": {
            "spaces": {"all": 3, "no zero": 3, "only conv": 3}, "architectures": 1000, "valid_examples": 5000,
            "weights": _kinds(125, 175, 200), "run": PAPER_CELLS,
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=interchoice_figures.tables,
)  # fmt: skip
