"""What a run found, in a few lines and tables."""

from pathlib import Path

from rich.table import Table

from polyarch.cli.options import console
from polyarch.plugins import method_named
from polyarch.results import Results


def show_summary(results: Results, out: Path) -> None:
    """Prints the comparison, the predictors, what the method adds, and where things are."""
    if results.comparison:
        table = Table("network", f"test {results.task.title}", "runs")
        for contender in results.comparison:
            spread = f" +- {_number(contender.std)}" if len(contender.runs) > 1 else ""
            table.add_row(contender.name, f"{_number(contender.mean)}{spread}", str(len(contender.runs)))
        console.print(table)
    if results.predictors:
        console.print(_predictors(results))
    for line in method_named(results.method).summary(results):
        console.print(line, markup=not isinstance(line, str))
    if results.artifact:
        console.print(f"Parameters of the exported network: {results.artifact['parameters']:,}", markup=False)
        folders = [out / one.folder for one in results.predictors if one.folder]
        console.print(f"Artifacts: {', '.join(map(str, folders))}   Report: {out / 'report.html'}", markup=False)
    console.print(f"Results: {out / 'results.json'}", markup=False)


def _predictors(results: Results) -> Table:
    """Calibrated predictions: their score and likelihood, and what conformal prediction covers."""
    has_sets = any(one.conformal for one in results.predictors)
    sets = ["covered", "set size" if results.task.kind == "classification" else "width"] if has_sets else []
    table = Table("predictions", f"test {results.task.title}", "NLL", "temperature", *sets)
    for one in results.predictors:
        known = [_number(one.conformal.covered), _number(one.conformal.size)] if one.conformal else [""] * len(sets)
        table.add_row(one.name, _number(one.score), _number(one.loss), f"{one.temperature:.2f}", *known)
    return table


def _number(value: float) -> str:
    """Four decimals, or five significant digits of large numbers."""
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.5g}"
