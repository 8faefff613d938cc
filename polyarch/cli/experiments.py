"""`polyarch experiment`: claims of papers, tested by experiments that are packages of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from polyarch.cli.options import (
    AddressOption,
    CpusOption,
    ExecutorOption,
    GpusOption,
    OutOption,
    SetOption,
    WorkersOption,
    console,
)
from polyarch.errors import ConfigError, UnknownName
from polyarch.executors import executor_named
from polyarch.plugins import EXPERIMENTS
from polyarch.runs.display import Terminal
from polyarch.runs.settings import parse_assignments
from polyarch.training import stop_on_signal

if TYPE_CHECKING:
    from polyarch_experiments import Experiment

experiment_app = typer.Typer(help="Claims of papers, as experiments.", no_args_is_help=True)


@experiment_app.command("list")
def list_experiments() -> None:
    """List the experiments and the claims they test."""
    table = Table("experiment", "document", "claim")
    for name, experiment in _installed().items():
        table.add_row(name, experiment.document, experiment.claim)
    console.print(table)


@experiment_app.command("page")
def write_document_page(
    documents: Annotated[list[str], typer.Argument(metavar="DOCUMENT...")],
    out: Annotated[Path, typer.Option("--out", help="The page, a Markdown file; figures go into a folder beside it.")],
    results: Annotated[Path, typer.Option("--results", help="The folder of the results files.")],
) -> None:
    """Write the page of one or more documents from stored results: their claims, our figures and verdicts."""
    experiments = _installed()
    from polyarch_experiments.page import write_page

    write_page(documents, experiments, results, out)
    console.print(f"Wrote {out}", markup=False)


@experiment_app.command("run")
def run_experiment(
    name: str,
    out: OutOption,
    preset: Annotated[str, typer.Option("--preset", help="quick, cpu, long (not all have it) or paper.")] = "quick",
    workers: WorkersOption = None,
    executor: ExecutorOption = None,
    address: AddressOption = None,
    cpus_per_item: CpusOption = None,
    gpus_per_item: GpusOption = None,
    settings: SetOption = None,
) -> None:
    """Run an experiment, or resume it, and write results.json."""
    experiment = _installed()[name]
    if preset not in experiment.presets:
        raise UnknownName("preset", preset, experiment.presets)
    changes = parse_assignments(settings or [])
    where = executor_named(
        executor or "processes",
        workers=workers,
        address=address,
        cpus=1.0 if cpus_per_item is None else cpus_per_item,
        gpus=gpus_per_item or 0.0,
        shared=out,
    )
    with stop_on_signal("the same command") as stop:
        results = experiment.run(preset, out, Terminal(console), stop, workers, changes, where)
    table = Table("claim", "verdict", "numbers")
    for claim in results.claims:
        table.add_row(escape(claim.text), claim.verdict, escape(claim.numbers))
    console.print(table)
    console.print(f"Wrote {out / 'results.json'}", markup=False)


def _installed() -> Mapping[str, Experiment]:
    if not EXPERIMENTS:
        raise ConfigError(
            "Expected an installed package of experiments. Found none: pip install polyarch-experiments, or "
            "pip install -e experiments in a clone of polyarch."
        )
    return EXPERIMENTS
