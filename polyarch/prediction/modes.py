"""Which predictor of a run is meant."""

from __future__ import annotations

import json
from pathlib import Path

from polyarch.errors import CorruptFile, InvalidInput, UnknownName
from polyarch.prediction.predictor import Predictor
from polyarch.runs.workspace import Workspace

MODES = ("single", "ensemble", "marginal", "early-exit")
"""The best network, several together, the mixture over a learned distribution, and that mixture until it is sure."""


def load_predictor(folder: Path, mode: str | None = None, exit_above: float | None = None) -> Predictor:
    """From the folder of a run or of one artifact.

    Args:
        mode: one of `MODES`; without one a run is what its method leads to, and an artifact itself.
        exit_above: the confidence of ``early-exit``; by default the artifact's own.
    """
    if mode is not None and mode not in MODES:
        raise UnknownName("mode", mode, MODES)
    if exit_above is not None and mode != "early-exit":
        raise InvalidInput(f"Expected mode early-exit with a confidence to leave at. Got {mode or 'no mode'}.")
    is_run = Workspace(folder).results.exists()
    if not is_run and mode not in (None, "early-exit"):
        raise InvalidInput(f"Expected the folder of a run for mode {mode}. Found no results.json in {folder}.")
    confidence = True if exit_above is None else exit_above
    chosen = _folder(folder, mode or _usual(folder)) if is_run else folder
    return Predictor.load(chosen, early_exit=confidence if mode == "early-exit" else False)


def posterior_folder(run: Path) -> Path:
    """Where a run has its mixture over a learned distribution."""
    folder = Workspace(run).posterior
    if not folder.exists():
        raise InvalidInput(f"Expected a run that learned a distribution over architectures. Found no {folder}.")
    return folder


def _folder(run: Path, mode: str) -> Path:
    if mode == "single":
        return Workspace(run).artifact
    if mode != "ensemble":
        return posterior_folder(run)
    folder = Workspace(run).ensemble
    if not folder.exists():
        raise InvalidInput(f"Expected a run with several networks for mode ensemble. Found no {folder}.")
    return folder


def _usual(run: Path) -> str:
    """One network, but where many were trained together to predict together."""
    path = Workspace(run).results
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CorruptFile(f"Expected {path} to be a results file. Found: {error}.") from None
    return "ensemble" if isinstance(content, dict) and content.get("stochastic") else "single"
