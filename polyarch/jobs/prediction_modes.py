"""Which predictor of a run is meant."""

from __future__ import annotations

from pathlib import Path

from polyarch.errors import InvalidInput, UnknownName
from polyarch.jobs.prediction import Predictor
from polyarch.jobs.workspace import Workspace

MODES = ("single", "marginal", "early-exit")
"""The best network alone, the mixture over the learned distribution, and that mixture until it is sure."""


def load_predictor(folder: Path, mode: str | None = None, exit_above: float | None = None) -> Predictor:
    """From the folder of a run or of one artifact.

    Args:
        mode: one of `MODES`; without one a run is its best network and an artifact itself.
        exit_above: the confidence of ``early-exit``; by default the artifact's own.
    """
    if mode is not None and mode not in MODES:
        raise UnknownName("mode", mode, MODES)
    if exit_above is not None and mode != "early-exit":
        raise InvalidInput(f"Expected mode early-exit with a confidence to leave at. Got {mode or 'no mode'}.")
    is_run = Workspace(folder).results.exists()
    if not is_run and mode in ("single", "marginal"):
        raise InvalidInput(f"Expected the folder of a run for mode {mode}. Found no results.json in {folder}.")
    if not is_run:
        chosen = folder
    elif mode in (None, "single"):
        chosen = Workspace(folder).artifact
    else:
        chosen = posterior_folder(folder)
    confidence = True if exit_above is None else exit_above
    return Predictor.load(chosen, early_exit=confidence if mode == "early-exit" else False)


def posterior_folder(run: Path) -> Path:
    """Where a run has its mixture over a learned distribution."""
    folder = Workspace(run).posterior
    if not folder.exists():
        raise InvalidInput(f"Expected a run that learned a distribution over architectures. Found no {folder}.")
    return folder
