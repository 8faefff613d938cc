"""Further kinds of inter-choice weights: more previous choices, shared biases, attention, and several splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec
from polyarch_experiments.interchoice import interchoice_figures
from polyarch_experiments.interchoice.interchoice_claims import MINUS_BASE, gain_of, increases
from polyarch_experiments.interchoice.training_costs import extra_seconds
from polyarch_experiments.interchoice.weighted_supernets import PAPER_CELLS, items, run, runs_with, short_recipe
from polyarch_experiments.papers import INTERCHOICE_WEIGHTS
from polyarch_experiments.results import Claim
from polyarch_experiments.verdict import claim, finding

ATTENTION = ("attention", "deep attention")
MINUS_BIAS = "normalised improvement of the top 10 minus that with a bias"


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """What appendix D says of shared biases and attention."""
    return list(_claims(settings, runs))


def _claims(settings: Settings, runs: Mapping[str, Any]) -> Iterator[Claim]:
    def gain(space: str, kind: str, than: str) -> Any:
        return gain_of(*(runs_with(settings, runs, space, one) for one in (kind, than)))

    spaces = settings["spaces"]
    yield claim(
        "A shared bias selects worse networks than one for every combination of choices.",
        [finding(f"in {space}", gain(space, "shared bias", "bias"), below=0) for space in spaces],
        MINUS_BIAS,
        document="slightly worse and less robust (appendix D)",
    )
    yield claim(
        "Attention selects worse networks than a bias.",
        [finding(f"{kind} in {space}", gain(space, kind, "bias"), below=0) for space in spaces for kind in ATTENTION],
        MINUS_BIAS,
        document="generally worse than biases (appendix D)",
    )
    yield claim(
        "In only conv, attention selects better networks than no extra weights.",
        [finding(kind, gain("only conv", kind, "base"), above=0) for kind in ATTENTION],
        MINUS_BASE,
        document="both kinds can beat the only-convolutions baseline (appendix D)",
    )
    costs = {space: runs[f"{space}, cost"] for space in spaces}
    yield claim(
        "A shared bias and attention take more time than a bias.",
        [
            finding(f"{kind} in {space}, per cent", extra_seconds(found, kind, "bias"), above=0)
            for space, found in costs.items()
            for kind in ("shared bias", *ATTENTION)
        ],
        "; ".join(f"{space}: {increases(found['seconds'])}" for space, found in costs.items())
        + " of the time of a step without extra weights",
        document="a shared bias +38 to 128 % on NAS-Bench-201, attention much slower (appendix D)",
    )


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
