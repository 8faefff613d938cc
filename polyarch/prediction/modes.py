"""Selects the predictor of a run by mode."""

from pathlib import Path

from polyarch.errors import InvalidInput, UnknownName
from polyarch.prediction.predictor import Predictor
from polyarch.results import read_content
from polyarch.runs.own_module import Builder
from polyarch.runs.workspace import Workspace

FOLDERS = {"single": "artifact", "ensemble": "ensemble", "marginal": "posterior", "early-exit": "posterior"}
"""Mode -> folder of a run: the best network, an ensemble, the mixture over a learned distribution, and the same mixture
with early exit."""


def load_predictor(
    folder: Path,
    mode: str | None = None,
    exit_above: float | None = None,
    *,
    module: Builder | None = None,
    verify: bool = True,
) -> Predictor:
    """Loads a predictor from the folder of a run or of one artifact.

    Args:
        mode: one of `FOLDERS`; by default the default predictor of the run, or the artifact itself.
        exit_above: the confidence of ``early-exit``; by default that of the artifact.
        module: makes the user's own network.
        verify: whether files must have the checksums of the metadata, where it has some.
    """
    if mode is not None and mode not in FOLDERS:
        raise UnknownName("mode", mode, FOLDERS)
    if exit_above is not None and mode != "early-exit":
        raise InvalidInput(f"Expected mode early-exit with a confidence to exit at. Got {mode or 'no mode'}.")
    is_run = Workspace(folder).results.exists()
    if not is_run and mode not in (None, "early-exit"):
        raise InvalidInput(f"Expected the folder of a run for mode {mode}. Found no results.json in {folder}.")
    confidence = True if exit_above is None else exit_above
    early_exit = confidence if mode == "early-exit" else False
    chosen = _folder(folder, mode) if is_run else folder
    return Predictor.load(chosen, module=module, early_exit=early_exit, verify=verify)


def _folder(run: Path, mode: str | None) -> Path:
    folder = run / (default_folder(run) if mode is None else FOLDERS[mode])
    if not folder.exists():
        purpose = f" for mode {mode}" if mode else ""
        raise InvalidInput(f"Expected a run that exports a predictor{purpose}. Found no {folder}.")
    return folder


def default_folder(run: Path) -> str:
    """The folder of the run's default predictor; polyarch 0.7 did not name it, but put it first."""
    match read_content(Workspace(run).results):
        case {"default": str(folder)} if folder in FOLDERS.values():
            return folder
        case {"version": 2, "predictors": [{"members": [_, _, *_]}, *_]}:
            return "ensemble"
    return "artifact"
