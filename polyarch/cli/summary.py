"""What a run found, in a few lines and tables."""

from pathlib import Path

from rich.table import Table

from polyarch.cli.options import console
from polyarch.plugins import method_named
from polyarch.reports.headline import entries
from polyarch.reports.score_text import ScoreText
from polyarch.results import Estimate, Results


def show_summary(results: Results, out: Path) -> None:
    """Prints the comparison, the predictors, what the method adds, and where things are."""
    if results.comparison:
        table = Table("network", f"test {results.task.title}", "95 % interval", "runs")
        for entry in entries(results):
            table.add_row(entry.name, _number(entry.mean), _interval(entry.estimate), str(len(entry.runs)))
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
    table = Table("predictions", f"test {results.task.title}", "95 % interval", "NLL", "temperature", *sets)
    text = ScoreText.of(results)
    for one in results.predictors:
        known = [_number(one.conformal.covered), _number(one.conformal.size)] if one.conformal else [""] * len(sets)
        score, interval = _number(one.score), _interval(text.measured(one))
        table.add_row(one.name, score, interval, _number(one.loss), f"{one.temperature:.2f}", *known)
    return table


def _interval(estimate: Estimate) -> str:
    """What earlier results do not have is left empty."""
    found = estimate.interval
    return "" if found is None else f"{_number(found[0])} to {_number(found[1])}"


def _number(value: float) -> str:
    """Four decimals, or five significant digits of large numbers."""
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.5g}"
