"""`polyarch experiment`: claims of the documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from polyarch.cli.common import OutOption, WorkersOption, console
from polyarch.errors import UnknownName
from polyarch.experiments import EXPERIMENTS, PRESETS
from polyarch.experiments.page import write_page
from polyarch.runs.display import Terminal
from polyarch.training import stop_on_signal

experiment_app = typer.Typer(help="Claims of the documents, as experiments.", no_args_is_help=True)


@experiment_app.command("list")
def list_experiments() -> None:
    """The experiments and the claims they test."""
    table = Table("experiment", "document", "claim")
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, experiment.document, experiment.claim)
    console.print(table)


@experiment_app.command("page")
def write_document_page(
    documents: Annotated[list[str], typer.Argument(metavar="DOCUMENT...")],
    out: Annotated[Path, typer.Option("--out", help="The page, a Markdown file; figures go into a folder beside it.")],
    results: Annotated[Path, typer.Option("--results", help="The folder of the results files.")],
) -> None:
    """Write the page of one or more documents from stored results: their claims, our figures and verdicts."""
    write_page(documents, EXPERIMENTS, results, out)
    console.print(f"Wrote {out}", markup=False)


@experiment_app.command("run")
def run_experiment(
    name: str,
    out: OutOption,
    preset: Annotated[str, typer.Option("--preset", help=f"{', '.join(PRESETS)}.")] = "quick",
    workers: WorkersOption = None,
) -> None:
    """Run an experiment, or go on with it, and write results.json."""
    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    if preset not in PRESETS:
        raise UnknownName("preset", preset, PRESETS)
    with stop_on_signal("the same command") as stop:
        results = EXPERIMENTS[name].run(preset, out, Terminal(console), stop, workers)
    table = Table("claim", "verdict", "numbers")
    for claim in results.claims:
        table.add_row(escape(claim.text), claim.verdict, escape(claim.numbers))
    console.print(table)
    console.print(f"Wrote {out / 'results.json'}", markup=False)
