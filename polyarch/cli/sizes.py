"""`polyarch front` and `extract`: networks of every size out of one training."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from polyarch.cli.options import TrustOption, console, console_beside, trusting
from polyarch.errors import MissingExtra
from polyarch.facade import SearchResult, load_run
from polyarch.files import write_output
from polyarch.reports import write_report
from polyarch.runs.display import Terminal
from polyarch.runs.settings import parse_quantity
from polyarch.runs.workspace import Workspace

RunArgument = Annotated[Path, typer.Argument(help="Folder of a run of `polyarch search --front`.")]


def front(
    run: RunArgument,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="CSV file to write the sizes to; - is standard output.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the sizes as JSON instead of a table.")] = False,
    trust_module: TrustOption = False,
) -> None:
    """List the sizes of a front with what they cost and how good they are, and plot them in the report."""
    with trusting({}, trust_module):
        _list(load_run(run), run, csv_file, as_json=as_json)


def _list(result: SearchResult, run: Path, csv_file: Path | None, *, as_json: bool) -> None:
    rows = result.frames().front.to_dict("records")
    if csv_file is not None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        write_output(csv_file, text.getvalue())
    if as_json:
        json.dump(rows, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    shown = console if csv_file is None else console_beside(csv_file)
    shown.print(_table(result))
    shown.print("*: no other size is better on validation data and as small. Scores are before calibration.")
    try:
        write_report(result.results, Workspace(run).report)
        shown.print(f"Plot: {Workspace(run).report}#front", markup=False, soft_wrap=True)
    except MissingExtra as error:
        shown.print(f"No plot: {error}", markup=False)
    shown.print(f"An artifact of one of them: polyarch extract {run} --at INDEX", markup=False, soft_wrap=True)


def extract(
    run: RunArgument,
    max_params: Annotated[
        str | None, typer.Option("--max-params", help="Maximum number of parameters, e.g. 50k.")
    ] = None,
    max_macs: Annotated[
        str | None, typer.Option("--max-macs", help="Maximum number of multiply-accumulates, e.g. 5M.")
    ] = None,
    max_latency: Annotated[
        float | None, typer.Option("--max-latency", help="Maximum seconds per forward pass, as the run measured it.")
    ] = None,
    at: Annotated[int | None, typer.Option("--at", help="Index of a size, see `polyarch front`.")] = None,
    tune: Annotated[
        float | None, typer.Option("--tune", help="Minutes of further training, with the largest size as teacher.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the artifact; RUN/sizes/INDEX by default.")
    ] = None,
    trust_module: TrustOption = False,
) -> None:
    """Write the artifact of one size of a front: the best within limits, or the one at an index."""
    with trusting({}, trust_module):
        result = load_run(run)
        found = result.extract(
            at=at,
            max_params=parse_quantity(max_params),
            max_macs=parse_quantity(max_macs),
            max_latency=max_latency,
            tune_minutes=tune,
            out=out,
            display=Terminal(console),
        )
    one, title = result.front[found.index], result.results.task.title
    console.print(
        f"Size {found.index}: {one.parameters:,} parameters, {one.macs:,.0f} multiply-accumulates, test {title} "
        f"{found.record.score:.4f}, NLL {found.record.loss:.4f} after calibration.",
        markup=False,
        soft_wrap=True,
    )
    console.print(f"Artifact: {found.folder}", markup=False, soft_wrap=True)


def _table(result: SearchResult) -> Table:
    title = result.results.task.title
    table = Table("size", f"test {title}", "test NLL", "validation", "parameters", "MACs", "ms")
    for index, one in enumerate(result.front):
        table.add_row(
            f"{index}{' *' if one.is_on_front else ''}",
            f"{one.score:.4f}",
            f"{one.loss:.4f}",
            f"{one.valid_score:.4f}",
            f"{one.parameters:,}",
            f"{one.macs:,.0f}",
            f"{1000 * one.latency:.3g}",
        )
    return table
