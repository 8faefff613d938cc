"""What a run exports: folders, ways to predict, and what goes in and comes out."""

from collections.abc import Mapping

from polyarch.results import Results

MODES = {"artifact": "single", "ensemble": "ensemble", "posterior": "marginal"}
"""Folder of a run -> the mode that loads it."""


def exports(results: Results) -> dict[str, str]:
    """Folder -> name of the predictor in it, the default one first."""
    found = {one.folder: one.name for one in results.predictors if one.folder is not None}
    default = results.default or "artifact"
    return {default: found.get(default, "best network")} | found


def modes(results: Results, further: Mapping[str, str]) -> dict[str, str]:
    """Values of ``--mode`` -> what predicts.

    Args:
        further: those of the method.
    """
    return {MODES[folder]: name for folder, name in exports(results).items() if folder in MODES} | dict(further)


def classes_text(results: Results, most: int = 20) -> str:
    """The classes in the order of the outputs; of many only the first."""
    names = [str(name) for name in results.data["classes"]]
    more = f", … ({len(names) - most:,} more)" if len(names) > most else ""
    number = "1 class" if len(names) == 1 else f"{len(names):,} classes"
    return f"{number}: {', '.join(names[:most])}{more}"
