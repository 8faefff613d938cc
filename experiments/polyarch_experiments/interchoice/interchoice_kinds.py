"""Further kinds of inter-choice weights: more previous choices, shared biases, attention, and several splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec
from polyarch_experiments.interchoice import interchoice_figures
from polyarch_experiments.interchoice.interchoice_claims import MINUS_BASE, gain_of
from polyarch_experiments.interchoice.weighted_supernets import (
    PAPER_CELLS,
    all_kinds,
    items,
    run,
    runs_with,
    short_recipe,
)
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


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Those of `interchoice_ranking`, under names of their own."""
    return {f"kinds_{name}": spec for name, spec in interchoice_figures.figures(settings, runs).items()}


INTERCHOICE_KINDS = Experiment(
    name="interchoice_kinds",
    document=INTERCHOICE_WEIGHTS,
    claim="More previous choices, shared biases, attention and splits at several times (section 4.1 and appendix D).",
    presets={
        "quick": {
            "spaces": {"only conv": 2}, "architectures": 6, "valid_examples": 100, "weights": all_kinds(1),
            "run": short_recipe(size=8, cells=1, epochs=2, limit=200, adapting=2),
        },
        "cpu": {
            "spaces": {"only conv": 2}, "architectures": 64, "valid_examples": 2000, "weights": all_kinds(5, 7, 8),
            "run": short_recipe(size=16, cells=1, epochs=10),
        },
        "paper": {
            "spaces": {"all": 3, "no zero": 3, "only conv": 3}, "architectures": 1000, "valid_examples": 5000,
            "weights": all_kinds(125, 175, 200), "run": PAPER_CELLS,
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=interchoice_figures.tables,
)  # fmt: skip
