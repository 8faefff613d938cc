"""`polyarch compare`, `runs`, `watch` and `schema`: runs seen from outside."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from polyarch.cli.options import TrustOption, console, trusting
from polyarch.errors import ConfigError
from polyarch.files import write_output
from polyarch.overview import Comparison, RunState, runs_in, state_of
from polyarch.overview import compare as compare_runs
from polyarch.prediction.serving.application import require_packages
from polyarch.results import results_schema
from polyarch.runs.plan import in_words

FORMATS = (".html", ".csv", ".json")


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of finished runs, or results files; the first is the yardstick.")
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", help="Also write the comparison as a page (.html), .csv or .json; may be repeated."),
    ] = None,
    trust_module: TrustOption = False,
) -> None:
    """Show runs side by side: scores with intervals, paired differences, and the settings that differ."""
    for path in out or []:
        if path.suffix not in FORMATS:
            raise ConfigError(f"Expected a file that ends with {', '.join(FORMATS)} to write to. Got {path}.")
    with trusting({}, trust_module):
        comparison = compare_runs(runs)
        console.print(_scores(comparison))
        if comparison.settings:
            console.print(_settings(comparison))
        for path in out or []:
            _write(comparison, path)
            console.print(f"Written: {path}", markup=False, soft_wrap=True)


def _write(comparison: Comparison, path: Path) -> None:
    if path.suffix == ".html":
        from polyarch.overview.comparison_page import write_page  # charts are an extra

        write_page(comparison, path)
    elif path.suffix == ".csv":
        rows = comparison.frame().to_dict("records")
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        write_output(path, text.getvalue())
    else:
        write_output(path, json.dumps(comparison.record.model_dump(mode="json"), indent=2) + "\n")


def _scores(comparison: Comparison) -> Table:
    text = comparison.text
    table = Table("runs", "seeds", f"test {text.title}", "against the first", "NLL", "ECE", "parameters", "minutes")
    for group, record in zip(comparison.groups, comparison.record.groups, strict=True):
        is_first = group is comparison.groups[0]
        table.add_row(
            record.name,
            str(len(record.seeds)),
            text.estimate(group.score(text)),
            "" if is_first else text.signed_estimate(comparison.difference(group).estimate),
            f"{record.loss.value:.4f}",
            "" if record.calibration_error is None else f"{record.calibration_error:.4f}",
            "" if record.parameters is None else f"{record.parameters:,.0f}",
            f"{record.minutes:.1f}",
        )
    return table


def _settings(comparison: Comparison) -> Table:
    table = Table("setting", *(group.name for group in comparison.groups))
    for name, values in comparison.settings.items():
        table.add_row(name, *("" if value is None else str(value) for value in values))
    return table


def list_runs(
    folder: Annotated[Path, typer.Argument(help="Where to look for runs, also in folders below.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs as JSON instead of a table.")] = False,
    trust_module: TrustOption = False,
) -> None:
    """List the runs in a folder: what they are, whether they go on, and the best so far."""
    with trusting({}, trust_module):
        found = list(runs_in(folder))
    if as_json:
        json.dump([_row(one) for one in found], sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    table = Table("run", "method", "data", "state", "progress", "best so far")
    for one in found:
        table.add_row(str(one.folder), one.method, one.data, one.state.value, _progress(one), _best(one))
    console.print(table)


def watch(
    run: Annotated[Path, typer.Argument(help="Folder of a run, which may go on, also on another machine.")],
    port: Annotated[
        int, typer.Option("--port", help="Port of this machine to show the page on; 0 takes a free one.")
    ] = 8100,
    trust_module: TrustOption = False,
) -> None:
    """Follow a run in a browser: progress, curves, networks and log; on this machine alone."""
    require_packages("Following a run")
    from polyarch.overview.watching import serve

    def announce(port: int) -> None:
        console.print(f"Follow {run} on http://127.0.0.1:{port}; Ctrl-C stops.", markup=False, soft_wrap=True)

    with trusting({}, trust_module):
        state_of(run)  # refuses what is no run
        serve(run, port, announce)
    console.print("Stopped.", markup=False)


def schema() -> None:
    """Print the JSON schema of results.json."""
    json.dump(results_schema(), sys.stdout, indent=2)
    sys.stdout.write("\n")


def _row(one: RunState) -> dict[str, object]:
    step = one.step
    return {
        "folder": str(one.folder),
        "method": one.method,
        "data": one.data,
        "state": one.state.value,
        "stage": None if step is None else step.title,
        "done": None if step is None else step.done,
        "total": None if step is None else step.total,
        "seconds_left": one.left,
        "best": None if one.best is None else dict(zip(("name", "score", "on"), one.best, strict=True)),
    }


def _progress(one: RunState) -> str:
    step = one.step
    if step is None or one.state == "finished":
        return ""
    left = "" if one.left is None else f", about {in_words(one.left)} left"
    return f"{step.title} {step.done} of {step.total}{left}"


def _best(one: RunState) -> str:
    if one.best is None:
        return ""
    name, score, on = one.best
    return f"{score:.4f} on {on} data, {name}"
